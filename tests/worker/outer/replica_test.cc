// A replica's stops with hand-made staged consensus. Whole runs are in trajectories_test.cc and in
// tests/worker/simulate.
#include "worker/outer/replica.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;

// Four layers of one parameter. A step adds 1 to every parameter; the gradient of step s is s.
class CountingTrainer final : public Trainer {
 public:
  std::vector<TensorSpec> Tensors() const override {
    std::vector<TensorSpec> tensors;
    for (int layer = 0; layer < 4; ++layer) {
      tensors.push_back({.name = "layer" + std::to_string(layer), .shape = {1}, .layer = layer});
    }
    return tensors;
  }
  void SetLayout(const Layout&) override {}
  absl::StatusOr<StepReport> Step(int64_t, double rate) override {
    rates.push_back(rate);
    for (float& value : theta) value += 1;
    return StepReport{.loss = 1, .tokens = 8};
  }
  absl::StatusOr<StepReport> ComputeGradient(int64_t step, absl::Span<float> out) override {
    std::fill(out.begin(), out.end(), static_cast<float>(step));
    return StepReport{.loss = 1, .tokens = 8};
  }
  absl::Status ReadParameters(int64_t offset, absl::Span<float> out) override {
    std::copy_n(theta.begin() + offset, out.size(), out.begin());
    return absl::OkStatus();
  }
  absl::Status WriteParameters(int64_t offset, absl::Span<const float> parameters) override {
    std::copy(parameters.begin(), parameters.end(), theta.begin() + offset);
    return absl::OkStatus();
  }
  void ResetInnerOptimizer() override { ++resets; }
  absl::StatusOr<TrainerState> SaveState() override { return TrainerState{.counts = {{"resets", resets}}}; }
  absl::Status LoadState(TrainerState state) override {
    DILOCO_ASSIGN_OR_RETURN(const int64_t saved, state.TakeCount("resets"));
    resets = static_cast<int>(saved);
    return state.CheckEmpty();
  }
  absl::StatusOr<EvaluationReport> Evaluate(absl::Span<const float>) override { return EvaluationReport{}; }

  std::vector<float> theta = {9, 9, 9, 9};
  std::vector<double> rates;
  int resets = 0;
};

// H = 4, two fragments of two parameters.
class ReplicaTest : public ::testing::Test {
 protected:
  void Begin(const std::string& settings, int64_t first_round = 0) {
    const std::string head = "run: {id: r, workers: 2, rounds: 3}\n";
    absl::StatusOr<RunConfig> config = ParseRunConfig(head + settings, "test");
    ASSERT_TRUE(config.ok()) << config.status();
    config_ = *std::move(config);
    absl::StatusOr<Layout> layout = Layout::Cut(trainer_.Tensors(), config_.fragments.cut);
    ASSERT_TRUE(layout.ok()) << layout.status();
    layout_.emplace(*std::move(layout));
    replica_.emplace(&config_, &*layout_, &trainer_);
    ASSERT_TRUE(replica_->Begin(first_round, {0, 0, 0, 0}).ok());
  }
  void Train(int steps) {
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(replica_->Step().ok());
  }
  // The stops here, with their outer gradients; must be finite.
  std::vector<FragmentStop> Take() {
    std::vector<FragmentStop> stops = replica_->Stops();
    const absl::StatusOr<bool> finite = replica_->TakeOuterGradients(&stops);
    EXPECT_TRUE(finite.ok() && *finite);
    return stops;
  }

  RunConfig config_;
  CountingTrainer trainer_;
  std::optional<Layout> layout_;
  std::optional<Replica> replica_;
};

constexpr char kEager[] = "method: eager\ninner_steps: 4\nfragments: {count: 2}\n";
constexpr char kDiLoCo[] = "method: diloco\ninner_steps: 4\nfragments: {count: 2}\n";

TEST_F(ReplicaTest, BeginsFromTheParametersGiven) {
  Begin(kEager, /*first_round=*/1);
  EXPECT_EQ(replica_->step(), 4);
  EXPECT_THAT(trainer_.theta, ElementsAre(0, 0, 0, 0));
  EXPECT_TRUE(replica_->Stops().empty());
  EXPECT_EQ(replica_->NextSet(0), 1);
}

TEST_F(ReplicaTest, EagerMeasuresFromItsOwnThetaAndLooksAhead) {
  Begin(kEager);
  Train(4);
  const std::vector<FragmentStop> stops = Take();
  ASSERT_EQ(stops.size(), 2u);
  EXPECT_FALSE(replica_->GivesFirst());
  EXPECT_THAT(stops[1].outer_gradient, ElementsAre(-4, -4));
  ASSERT_TRUE(replica_->SetTheta(stops[0], {.base = {10, 20}, .coefficient = 0.5F}, true).ok());
  EXPECT_THAT(trainer_.theta, ElementsAre(12, 22, 4, 4));
  ASSERT_TRUE(replica_->SetTheta(stops[1], {.base = {30, 40}, .coefficient = 0.5F}, true).ok());
  replica_->Leave(stops);
  EXPECT_TRUE(replica_->Stops().empty());
  EXPECT_EQ(replica_->NextSet(0), 1);
  Train(4);
  EXPECT_THAT(Take()[0].outer_gradient, ElementsAre(-4, -4));
}

TEST_F(ReplicaTest, BlockingMeasuresFromTheConsensus) {
  Begin(kDiLoCo);
  Train(4);
  const std::vector<FragmentStop> stops = Take();
  EXPECT_TRUE(replica_->GivesFirst());
  for (const FragmentStop& stop : stops) {
    ASSERT_TRUE(replica_->SetTheta(stop, {.base = {7, 8}}, true).ok());
  }
  EXPECT_THAT(replica_->theta(), ElementsAre(7, 8, 7, 8));
}

TEST_F(ReplicaTest, ARoundIsBegunByItsFirstStepAndPastWithItsLastStop) {
  Begin(kEager);
  EXPECT_EQ(replica_->NewestBegun(), -1);
  EXPECT_TRUE(replica_->IsPast(-1));
  Train(1);
  EXPECT_EQ(replica_->NewestBegun(), 0);
  EXPECT_FALSE(replica_->IsPast(0));
  Train(3);
  EXPECT_EQ(replica_->NewestBegun(), 0);
  EXPECT_FALSE(replica_->IsPast(0)) << "its stop is not over";
  const std::vector<FragmentStop> stops = Take();
  for (const FragmentStop& stop : stops) ASSERT_TRUE(replica_->SetTheta(stop, {.base = {0, 0}}, true).ok());
  replica_->Leave(stops);
  EXPECT_TRUE(replica_->IsPast(0));
  EXPECT_FALSE(replica_->IsPast(1));
  Train(1);
  EXPECT_EQ(replica_->NewestBegun(), 1);
}

// Fragment 1 ends each round two steps later, and sets one step after that.
TEST_F(ReplicaTest, ARoundIsPastOnceEveryFragmentHasEndedIt) {
  Begin("method: streaming\ninner_steps: 4\noverlap: 1\nfragments: {count: 2, offsets: [0, 2]}\n");
  Train(4);
  replica_->Leave(Take());
  EXPECT_EQ(replica_->NewestBegun(), 0);
  EXPECT_FALSE(replica_->IsPast(0));
  Train(1);
  std::vector<FragmentStop> stops = Take();
  ASSERT_EQ(stops.size(), 1u);
  ASSERT_TRUE(replica_->SetTheta(stops[0], {.base = {0, 0}}, true).ok());
  replica_->Leave(stops);
  EXPECT_EQ(replica_->NewestBegun(), 1);
  Train(1);
  stops = Take();
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].fragment, 1);
  replica_->Leave(stops);
  EXPECT_TRUE(replica_->IsPast(0)) << "its average is still to come";
  EXPECT_FALSE(replica_->IsPast(1));
}

// Streaming, overlap 2, fragment 1 at offset 2: a stop takes, a later one sets.
TEST_F(ReplicaTest, StreamingMixesAndMeasuresFromTheConsensus) {
  Begin("method: streaming\ninner_steps: 4\noverlap: 2\nstreaming: {mixing: 0.25}\nfragments: {count: 2}\n");
  Train(4);
  std::vector<FragmentStop> stops = Take();
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_TRUE(stops[0].stop.takes && !stops[0].stop.sets);
  replica_->Leave(stops);
  EXPECT_EQ(replica_->NextSet(0), 0);
  Train(2);
  // Fragment 0 sets round 0 and fragment 1 ends it.
  stops = Take();
  ASSERT_EQ(stops.size(), 2u);
  EXPECT_TRUE(stops[0].stop.sets && !stops[0].stop.takes && stops[1].stop.takes);
  ASSERT_TRUE(replica_->SetTheta(stops[0], {.base = {2, 4}}, true).ok());
  EXPECT_THAT(trainer_.theta, ElementsAre(0.25F * 6 + 0.75F * 2, 0.25F * 6 + 0.75F * 4, 6, 6));
  replica_->Leave(stops);
  Train(2);
  // Two more steps from there, against the consensus (2, 4).
  EXPECT_THAT(Take()[0].outer_gradient, ElementsAre(2 - 5, 4 - 6.5));
}

TEST_F(ReplicaTest, DataParallelGivesTheGradientOfItsStep) {
  Begin("method: data-parallel\n");
  Train(1);
  std::vector<FragmentStop> stops = Take();
  EXPECT_THAT(stops[0].outer_gradient, ElementsAre(0, 0, 0, 0));
  ASSERT_TRUE(replica_->SetTheta(stops[0], {.base = {1, 2, 3, 4}}, true).ok());
  replica_->Leave(stops);
  Train(1);
  EXPECT_THAT(trainer_.theta, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Take()[0].outer_gradient, ElementsAre(1, 1, 1, 1));
}

TEST_F(ReplicaTest, HealsAllFragmentsWhenOneIsNotFinite) {
  Begin(kEager);
  Train(4);
  trainer_.theta[3] = std::numeric_limits<float>::infinity();
  std::vector<FragmentStop> stops = replica_->Stops();
  const absl::StatusOr<bool> finite = replica_->TakeOuterGradients(&stops);
  ASSERT_TRUE(finite.ok());
  EXPECT_FALSE(*finite);
  EXPECT_THAT(trainer_.theta, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(trainer_.resets, 1);
  // It looks ahead over nothing of its own.
  ASSERT_TRUE(replica_->SetTheta(stops[0], {.base = {10, 20}, .coefficient = 0.5F}, *finite).ok());
  EXPECT_THAT(trainer_.theta, ElementsAre(10, 20, 0, 0));
}

RunSettings Changed(const RunConfig& config, std::vector<RunChange> changes) {
  absl::StatusOr<RunSettings> settings = RunSettings::Make(config, std::move(changes));
  EXPECT_TRUE(settings.ok()) << settings.status();
  return *std::move(settings);
}

TEST_F(ReplicaTest, TrainsWithTheRateOfTheRound) {
  Begin(std::string(kEager) + "inner: {rate: 0.01, final_ratio: 1, warmup_steps: 0}\n");
  replica_->Steer(Changed(config_, {{1, {{"inner.rate", "0.03"}}}}));
  Train(4);
  replica_->Leave(Take());
  Train(2);
  EXPECT_THAT(trainer_.rates, ElementsAre(0.01, 0.01, 0.01, 0.01, 0.03, 0.03));
}

TEST_F(ReplicaTest, GoesOnWhenTheRunIsMadeLongerAtItsEnd) {
  Begin(kEager);
  for (int round = 0; round < 3; ++round) {
    Train(4);
    replica_->Leave(Take());
  }
  EXPECT_EQ(replica_->NextSet(0), kNoRound);
  replica_->Steer(Changed(config_, {{6, {{"run.rounds", "5"}}}}));
  EXPECT_EQ(replica_->schedule().steps(), 20);
  EXPECT_TRUE(replica_->Stops().empty());
  EXPECT_EQ(replica_->NextSet(0), 3);
  Train(4);
  const std::vector<FragmentStop> stops = Take();
  ASSERT_EQ(stops.size(), 2u);
  EXPECT_EQ(stops[0].stop.round, 3);
}

TEST_F(ReplicaTest, HasNothingLeftToDoWhenTheRunIsMadeShorterThanItHasTrained) {
  Begin(kEager);
  Train(4);
  replica_->Leave(Take());
  Train(2);
  replica_->Steer(Changed(config_, {{2, {{"run.rounds", "1"}}}}));
  EXPECT_TRUE(replica_->Stops().empty());
  EXPECT_EQ(replica_->NextSet(1), kNoRound);
  EXPECT_GE(replica_->step(), replica_->schedule().steps());
}

TEST_F(ReplicaTest, EndsAtOnceARoundThatIsToBeOver) {
  Begin("method: eager\ninner_steps: 4\nfragments: {count: 2, offsets: [0, 2]}\n");
  Train(4);
  replica_->Leave(Take());
  Train(1);
  replica_->Steer(Changed(config_, {{2, {{"run.rounds", "1"}}}}));
  const std::vector<FragmentStop> stops = replica_->Stops();
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].fragment, 1);
  EXPECT_EQ(stops[0].stop, (Stop{.step = 5, .round = 0, .takes = true, .sets = true}));
}

TEST_F(ReplicaTest, JumpsOverRoundsToTheEnd) {
  Begin(kEager);
  Train(4);
  replica_->Leave(Take());
  replica_->Jump(8);
  EXPECT_EQ(replica_->step(), 8);
  EXPECT_EQ(replica_->NextSet(1), 2);
  Train(4);
  const std::vector<FragmentStop> last = Take();
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].stop.round, 2);
  replica_->Leave(last);
  EXPECT_TRUE(replica_->Stops().empty());
  EXPECT_EQ(replica_->NextSet(0), kNoRound);
}

}  // namespace
}  // namespace diloco
