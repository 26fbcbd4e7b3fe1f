// The outer loop against trajectories that an independent program computed in double precision: several workers in one
// process, each with its own FragmentOuter, in lockstep and late.
#include "tests/support/trajectories.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/outer/consensus.h"
#include "tests/support/paths.h"
#include "worker/outer/boundary.h"
#include "worker/outer/fragment_outer.h"
#include "worker/outer/schedule.h"

namespace diloco {
namespace {

using testing::QuadraticTrainer;
using testing::Trajectory;
using Floats = std::vector<float>;

// What a coordinator would publish for one round: a mean in float32, and who is in it.
struct Round {
  Floats average;
  std::vector<int> merged;
};

class LocalWorker {
 public:
  LocalWorker(const Trajectory& trajectory, const RunConfig& config, int index)
      : index_(index),
        method_(FindMethod(trajectory.method)),
        trainer_(trajectory, index),
        theta_(static_cast<size_t>(trajectory.size)),
        outer_({.method = method_,
                .lookahead = config.lookahead,
                .initial_scalars = {.rate = static_cast<float>(config.outer.rate),
                                    .momentum = static_cast<float>(config.outer.momentum),
                                    .participating_weight = static_cast<double>(config.run.workers)},
                .own_weight = 1},
               Consensus(FindOuterOptimizer("nesterov"), Start(trajectory))) {
    anchor_ = Start(trajectory);
    scalars_ = {static_cast<float>(config.outer.rate), static_cast<float>(config.outer.momentum),
                static_cast<double>(config.run.workers)};
  }

  // Trains a round and returns its outer gradient.
  const Floats& Train(int64_t inner_steps) {
    for (int64_t i = 0; i < inner_steps; ++i) EXPECT_TRUE(trainer_.Step(i).ok());
    EXPECT_TRUE(trainer_.ReadParameters(0, absl::MakeSpan(theta_)).ok());
    gradients_.emplace_back(theta_.size());
    EXPECT_TRUE(TakeOuterGradient(anchor_, theta_, absl::MakeSpan(gradients_.back())));
    return gradients_.back();
  }

  // The boundary of `round` with the first `applied` averages.
  void FinishRound(int64_t round, int64_t applied, const std::vector<Round>& rounds) {
    while (outer_.consensus().version() < applied) {
      const int64_t next = outer_.consensus().version();
      const Round& published = rounds[static_cast<size_t>(next)];
      const bool in = std::count(published.merged.begin(), published.merged.end(), index_) > 0;
      const std::vector<OwnSettlement> settled = {{.round = next, .digest = DigestFor(next), .merged = in}};
      ASSERT_TRUE(outer_.Apply(scalars_, published.average, settled).ok());
    }
    const FragmentOuter::Staged staged = outer_.Stage();
    const Floats& gradient = gradients_.back();
    StepFromBase(staged.base, staged.coefficient, gradient, absl::MakeSpan(theta_));
    ASSERT_TRUE(trainer_.WriteParameters(0, theta_).ok());
    anchor_ = method_->anchor == Anchor::kOwn ? theta_ : staged.base;
    // The average of this very round settles it at once when there is no overlap.
    if (applied <= round) {
      outer_.Contribute({.round = round, .digest = DigestFor(round), .lambda = staged.lambda, .decoded = gradient});
    }
  }

  const Floats& theta() const { return theta_; }
  const Consensus& consensus() const { return outer_.consensus(); }

 private:
  static Floats Start(const Trajectory& trajectory) { return {trajectory.start.begin(), trajectory.start.end()}; }
  static Digest DigestFor(int64_t round) { return {1, static_cast<uint64_t>(round)}; }

  int index_;
  const Method* method_;
  QuadraticTrainer trainer_;
  Floats theta_;
  Floats anchor_;
  std::vector<Floats> gradients_;
  StepScalars scalars_;
  FragmentOuter outer_;
};

Floats Mean(const std::vector<const Floats*>& vectors) {
  Floats mean(vectors.front()->size(), 0.0f);
  for (const Floats* vector : vectors) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += (*vector)[i] / static_cast<float>(vectors.size());
  }
  return mean;
}

void ExpectNear(const Floats& actual, const testing::Vector& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance) << what << " element " << i;
  }
}

std::vector<Trajectory> AllTrajectories() {
  absl::StatusOr<std::vector<Trajectory>> trajectories = testing::LoadTrajectories(testing::TrajectoriesPath());
  if (!trajectories.ok()) {
    ADD_FAILURE() << trajectories.status();
    return {};
  }
  return *std::move(trajectories);
}

TEST(TrajectoriesTest, CopyInTheTreeHoldsEveryMethod) {
  const absl::StatusOr<std::vector<Trajectory>> loaded =
      testing::LoadTrajectories(testing::SourcePath("tests/worker/outer/vectors.json"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::vector<Trajectory>& trajectories = *loaded;
  for (const Method& method : Methods()) {
    EXPECT_TRUE(std::any_of(trajectories.begin(), trajectories.end(), [&](const Trajectory& trajectory) {
      return trajectory.method == method.name;
    })) << method.name;
  }
}

class TrajectoryTest : public ::testing::TestWithParam<Trajectory> {};

TEST_P(TrajectoryTest, OuterLoopFollowsIt) {
  const Trajectory& trajectory = GetParam();
  const RunConfig config = trajectory.Config();
  const Schedule schedule(config);
  std::vector<LocalWorker> workers;
  for (int m = 0; m < trajectory.workers; ++m) workers.emplace_back(trajectory, config, m);
  std::vector<Round> rounds;
  for (int64_t t = 0; t < trajectory.rounds; ++t) {
    const size_t at = static_cast<size_t>(t);
    std::vector<const Floats*> gradients;
    for (LocalWorker& worker : workers) gradients.push_back(&worker.Train(trajectory.inner_steps));
    Round round;
    for (int m = 0; m < trajectory.workers; ++m) {
      if (trajectory.merged.empty() || std::count(trajectory.merged[at].begin(), trajectory.merged[at].end(), m) > 0) {
        round.merged.push_back(m);
      }
    }
    std::vector<const Floats*> in;
    for (const int m : round.merged) in.push_back(gradients[static_cast<size_t>(m)]);
    round.average = Mean(in);
    rounds.push_back(std::move(round));
    const double tolerance = testing::Tolerance(trajectory.theta[at]);
    for (int m = 0; m < trajectory.workers; ++m) {
      LocalWorker& worker = workers[static_cast<size_t>(m)];
      const int64_t applied =
          trajectory.lockstep() ? schedule.Plan(t, t).required : trajectory.applied[at][static_cast<size_t>(m)];
      worker.FinishRound(t, applied, rounds);
      ExpectNear(worker.theta(), trajectory.theta[at][static_cast<size_t>(m)], tolerance,
                 absl::StrFormat("round %d worker %d theta", t, m));
      if (!trajectory.consensus.empty()) {
        const Floats parameters(worker.consensus().parameters().begin(), worker.consensus().parameters().end());
        ExpectNear(parameters, trajectory.consensus[static_cast<size_t>(applied)], tolerance,
                   absl::StrFormat("round %d worker %d consensus", t, m));
        EXPECT_EQ(worker.consensus().version(), applied);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, TrajectoryTest, ::testing::ValuesIn(AllTrajectories()),
                         [](const ::testing::TestParamInfo<Trajectory>& parameter) {
                           return absl::StrFormat("%s%d", parameter.param.method, parameter.param.index);
                         });

}  // namespace
}  // namespace diloco
