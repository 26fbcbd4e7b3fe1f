// Error feedback on the downlink: what publishing an average loses goes into the next one, through snapshots too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "common/layout/layout_proto.h"
#include "coordinator/driver/recovery.h"
#include "coordinator/driver/residual_keeper.h"
#include "tests/coordinator/driver/hand_worker.h"
#include "tests/coordinator/driver/sim_cluster.h"

namespace diloco {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// 5.25 steps of int4 with scale 1/16. Half to even, averages are published as 5 (5.25), 6 (5.5), 5 (4.75), 5 (5) steps,
// and so on.
constexpr float kStep = 1.0F / 16;
constexpr float kValue = 5.25F * kStep;
constexpr char kDownlink[] = "int4, error_feedback: downlink";

Residual Constant(size_t elements, float value) { return std::make_shared<const std::vector<float>>(elements, value); }

// One worker that sends kValue for every element in every round.
class DriverFeedbackTest : public ::testing::Test {
 protected:
  void Start(const std::string& more = "") {
    coordinator_.SetYaml(RunYaml(1, 40, "fp32", kDownlink, more));
    ASSERT_TRUE(coordinator_.Start().ok());
    ASSERT_TRUE(worker_.Join().ok());
    ASSERT_TRUE(worker_.Seed(std::vector<float>(11)).ok());
    Subscribe({0, 0});
  }
  void Restart(std::vector<int64_t> next_rounds) {
    coordinator_.Crash();
    ASSERT_TRUE(coordinator_.Start().ok());
    coordinator_.Pump();
    ASSERT_TRUE(worker_.Join().ok());
    Subscribe(std::move(next_rounds));
  }
  void Subscribe(std::vector<int64_t> next_rounds) {
    auto queue = worker_.Subscribe(std::move(next_rounds));
    ASSERT_TRUE(queue.ok()) << queue.status();
    queue_ = *queue;
  }

  // Sends a round of one fragment; what was published for it, in steps: the same for every element.
  float Round(int fragment, int64_t round) {
    EXPECT_TRUE(worker_.Contribute(fragment, round, kValue).ok());
    bool ended = false;
    float steps = NAN;
    for (const v1::SubscribeResponse& message : Drain(queue_.get(), &ended)) {
      if (message.has_chunk()) {
        const size_t count = fragment == 0 ? 5 : 6;
        std::vector<float> average(count);
        FindCodec("int4")->decode(message.chunk().payload(), absl::MakeSpan(average));
        EXPECT_THAT(average, Each(average[0]));
        steps = average[0] / kStep;
      }
    }
    return steps;
  }

  Coordinator coordinator_{RunYaml(1, 40, "fp32", kDownlink)};
  HandWorker worker_{&coordinator_, "w0", 7};
  std::shared_ptr<DeltaQueue> queue_;
};

TEST_F(DriverFeedbackTest, SumOfThePublishedFollowsTheSumOfTheAverages) {
  Start();
  float sums[2] = {};
  for (int64_t round = 0; round < 20; ++round) {
    for (const int fragment : {0, 1}) {
      const float steps = Round(fragment, round);
      sums[fragment] += steps;
      EXPECT_LE(std::fabs(sums[fragment] - 5.25F * static_cast<float>(round + 1)), 0.5F) << round;
    }
  }
  EXPECT_THAT(sums, ElementsAre(105, 105));  // Without: 100.
}

TEST_F(DriverFeedbackTest, SnapshotKeepsTheResidual) {
  Start("rounds: {snapshot_every: 1}\n");
  std::vector<float> steps;
  for (int64_t round = 0; round < 8; ++round) {
    steps.push_back(Round(0, round));
    Round(1, round);
    // Every snapshot is of the newest round here, so that nothing is lost.
    Restart({round + 1, round + 1});
  }
  EXPECT_EQ(std::accumulate(steps.begin(), steps.end(), 0.0F), 42);
}

TEST_F(DriverFeedbackTest, SnapshotHoldsTheResidualOfItsVersion) {
  Start("rounds: {snapshot_every: 1}\n");
  // Fragment 0 is two rounds ahead of the consensus, and so of the snapshot, until fragment 1 follows.
  EXPECT_EQ(Round(0, 0), 5);
  EXPECT_EQ(Round(0, 1), 6);
  EXPECT_EQ(Round(1, 0), 5);  // Version 1, snapshot: both owe 0.25 there.
  Restart({2, 1});
  // Fragment 0 has committed round 1 since the snapshot, so that it starts from zero; fragment 1 has not.
  EXPECT_EQ(Round(0, 2), 5);
  EXPECT_EQ(Round(0, 3), 6);
  EXPECT_EQ(Round(1, 1), 6);
  EXPECT_EQ(Round(1, 2), 5);
}

TEST_F(DriverFeedbackTest, RecoveryWithoutASnapshotOfItStartsFromZero) {
  Start("rounds: {snapshot_every: 10}\n");
  for (const int64_t first : {0, 2}) {
    for (const int fragment : {0, 1}) {
      EXPECT_EQ(Round(fragment, first), 5);
      EXPECT_EQ(Round(fragment, first + 1), 6);  // It would be 5 in the second pass, had the residual survived.
    }
    Restart({first + 2, first + 2});
  }
}

TEST_F(DriverFeedbackTest, JoinersAreSentTheConsensusOnly) {
  Start();
  Round(0, 0);
  Round(1, 0);
  const auto source = coordinator_.Call(&Driver::OpenSnapshot, worker_.Signed<v1::FetchSnapshotRequest>());
  ASSERT_TRUE(source.ok());
  EXPECT_EQ(source->header.total_bytes(), 2U * 11 * sizeof(float));  // Parameters and momentum.
}

// The digests differ from those of a run without crashes, but nobody's from anybody's.
TEST(DriverFeedbackCrashTest, RunsEndWhateverStepIsTheLast) {
  const std::string yaml = RunYaml(2, 4, "fp32", kDownlink, "rounds: {snapshot_every: 2, lease: 24h}\n");
  for (int after = 0; after <= 80; after += 4) {
    SimCluster cluster(yaml, 2);
    cluster.Start();
    cluster.Run(after);
    cluster.Crash();
    cluster.Start();
    cluster.Run();
    EXPECT_TRUE(cluster.coordinator.observer.finished) << after;
    EXPECT_TRUE(cluster.coordinator.observer.fatal.ok()) << cluster.coordinator.observer.fatal;
    for (const auto& worker : cluster.workers) {
      EXPECT_TRUE(worker->done()) << after;
    }
  }
}

const Layout& TwoFragmentLayout() {
  static const Layout* const layout = new Layout(*Layout::Cut(TwoFragments(), {.count = 2}));
  return *layout;
}

TEST(ResidualRecoveryTest, AResidualThatDoesNotFitTheLayoutIsDamage) {
  const auto recover = [](const std::string& downlink, size_t residual_elements) -> absl::StatusOr<size_t> {
    const Layout& layout = TwoFragmentLayout();
    const RunConfig config = *ParseRunConfig(RunYaml(1, 4, "fp32", downlink), "test");
    const ConsensusArrays seed =
        SeedConsensus(layout, FindOuterOptimizer(config.outer.optimizer), std::vector<float>(11, 1.5F));
    RecoveredState recovered;
    recovered.run = std::make_unique<v1::RunRecord>();
    *recovered.run->mutable_tensors() = TensorSpecsToProto(TwoFragments());
    recovered.run->mutable_layout_digest()->set_value(layout.digest().Bytes());
    recovered.snapshot = std::make_unique<v1::SnapshotRecord>();
    for (const Digest& digest : seed.ComputeDigests(SerialFor)) {
      recovered.snapshot->add_consensus_digests()->set_value(digest.Bytes());
    }
    for (const absl::Span<const float> array : seed.InSnapshotOrder()) {
      recovered.consensus.insert(recovered.consensus.end(), array.begin(), array.end());
    }
    recovered.snapshot->set_consensus_bytes(recovered.consensus.size() * sizeof(float));
    recovered.snapshot->set_residual_bytes(residual_elements * sizeof(float));
    recovered.consensus.resize(recovered.consensus.size() + residual_elements, 0.25F);
    const absl::StatusOr<RecoveredRun> run = RebuildRun(recovered, config, SerialFor);
    if (!run.ok()) {
      return run.status();
    }
    return run->residual.size();
  };
  EXPECT_THAT(recover(kDownlink, 11).value(), 11U);
  EXPECT_THAT(recover(kDownlink, 0).value(), 0U);  // From before the key was set.
  EXPECT_THAT(recover("int4", 11).value(), 11U);   // The key is gone; nobody takes it.
  const absl::Status damaged = recover(kDownlink, 10).status();
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()), ::testing::HasSubstr("a residual of 10 values for 11 elements"));
}

TEST(ResidualKeeperTest, KeepsVersionsFromTheConsensusOn) {
  ResidualKeeper keeper(TwoFragmentLayout());
  EXPECT_THAT(*keeper.Newest(0), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_EQ(keeper.Newest(1)->size(), 6U);
  keeper.Add(0, 1, Constant(5, 1));
  keeper.Add(0, 2, Constant(5, 2));
  keeper.Add(1, 1, Constant(6, 3));
  EXPECT_THAT(*keeper.Newest(0), Each(2));
  EXPECT_THAT(*keeper.At(0)[0], Each(0));
  keeper.DropBefore(1);
  EXPECT_THAT(*keeper.At(1)[0], Each(1));
  EXPECT_THAT(*keeper.At(1)[1], Each(3));
  EXPECT_DEATH(keeper.At(0), "check failed");
}

TEST(ResidualKeeperTest, ForgetsWhatIsDropped) {
  ResidualKeeper keeper(TwoFragmentLayout());
  Residual residual = Constant(5, 1);
  const std::weak_ptr<const std::vector<float>> seen = residual;
  keeper.Add(0, 1, std::move(residual));
  keeper.Add(1, 1, Constant(6, 1));
  keeper.DropBefore(1);
  EXPECT_FALSE(seen.expired());
  keeper.Add(0, 2, Constant(5, 2));
  keeper.Add(1, 2, Constant(6, 2));
  keeper.DropBefore(2);
  EXPECT_TRUE(seen.expired());
}

TEST(ResidualKeeperTest, TakesTheSnapshotsForFragmentsThatHaveNotGoneOn) {
  std::vector<float> raw(11);
  std::iota(raw.begin(), raw.end(), 1.0F);
  const std::vector<int64_t> next_rounds = {4, 6};
  const ResidualKeeper keeper(TwoFragmentLayout(), 4, next_rounds, raw);
  EXPECT_THAT(*keeper.Newest(0), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(*keeper.Newest(1), Each(0));
  EXPECT_THAT(*keeper.At(5)[1], Each(0));
  const ResidualKeeper without(TwoFragmentLayout(), 4, next_rounds, {});
  EXPECT_THAT(*without.Newest(0), Each(0));
}

}  // namespace
}  // namespace diloco
