// A small checkpoint in which every field has a value of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "common/codec/codec.h"
#include "common/outer/outer_optimizer.h"
#include "worker/checkpoint/checkpoint.h"

namespace diloco {

// Two fragments, of three and two parameters.
struct SampleRun {
  explicit SampleRun(const std::string& more = "lookahead: {momentum: own}\n") {
    const std::string yaml =
        "run: {id: sample, workers: 2, rounds: 9}\ninner_steps: 4\nwire: {uplink: e3m0, error_feedback: uplink}\n"
        "fragments: {count: 2}\n";
    absl::StatusOr<RunConfig> parsed = ParseRunConfig(yaml + more, "test");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    config = *std::move(parsed);
    absl::StatusOr<Layout> cut = Layout::Cut(tensors, config.fragments.cut);
    EXPECT_TRUE(cut.ok()) << cut.status();
    layout.emplace(*std::move(cut));
  }
  CheckpointOwner owner() const { return {"east", 77, &config, &*layout}; }

  std::vector<TensorSpec> tensors = {{.name = "first", .shape = {3}, .layer = 0},
                                     {.name = "second", .shape = {2}, .layer = 1, .decay = true}};
  RunConfig config;
  std::optional<Layout> layout;
};

inline Consensus SampleConsensus(int64_t version, std::vector<float> parameters) {
  std::vector<float> momentum = parameters;
  for (float& value : momentum) value *= 10;
  return Consensus(FindOuterOptimizer("nesterov"), version, std::move(parameters), {std::move(momentum)});
}

inline WorkerCheckpoint SampleCheckpoint() {
  WorkerCheckpoint sample;
  sample.training.replica = {
      .first_round = 1,
      .step = 14,
      .tokens = 4096,
      .healed = true,
      .fragments = {{.next = Stop{.step = 16, .round = 3, .takes = true, .sets = true}, .weighed = 100},
                    {.next = Stop{.step = 16, .round = 3, .sets = true}, .weighed = 200}},
      .theta = {1, 2, 3, 4, 5},
      .anchor = {6, 7, 8, 9, 10},
      .trainer = {.arrays = {{"inner.mean", {0.5F, -0.5F}}}, .counts = {{"inner.updates", 14}}}};
  sample.training.progress = {{.version = 2, .published = 3}, {.version = 1, .published = 2}};
  const StepScalars scalars{.rate = 0.25F, .momentum = 0.5F, .participating_weight = 2};
  FragmentOuter::State first{.consensus = SampleConsensus(2, {1, 2, 3}),
                             .next_scalars = scalars,
                             .own_weight = 3,
                             .own_momentum = {0.1F, 0.2F, 0.3F}};
  first.unsettled.push_back({.round = 2, .digest = {11, 12}, .lambda = 0.75F, .decoded = {-1, -2, -3}});
  FragmentOuter::State second{
      .consensus = SampleConsensus(1, {4, 5}), .next_scalars = scalars, .own_momentum = {0.4F, 0.5F}};
  sample.sync.fragments.push_back({std::move(first), 3, {0.01F, 0.02F, 0.03F}});
  sample.sync.fragments.push_back({std::move(second), 4, {}});
  const Codec& codec = *FindCodec("e3m0");
  sample.sync.contributions = {
      {.fragment = 0, .round = 2, .weight = 5, .encoded = std::string(codec.encoded_bytes(3), 'x')}};
  sample.sync.abstentions = {{.fragment = 1, .round = 2, .reason = "not finite"}};
  return sample;
}

}  // namespace diloco
