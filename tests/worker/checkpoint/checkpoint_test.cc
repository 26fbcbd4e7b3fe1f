// What a checkpoint says, there and back through its file, and whom it is for.
#include "worker/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/coordinator/store/fault_file_system.h"
#include "tests/worker/checkpoint/sample_checkpoint.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// As the next process finds it.
LoadedCheckpoint ThroughAFile(const SampleRun& run, const WorkerCheckpoint& checkpoint) {
  FaultFileSystem files;
  EXPECT_TRUE(files.CreateFolder("f").ok());
  EXPECT_TRUE(WriteCheckpointFile(&files, "f/c", DescribeCheckpoint(run.owner(), checkpoint)).ok());
  absl::StatusOr<LoadedCheckpoint> loaded = ReadCheckpointFile(&files, "f/c");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *std::move(loaded);
}

absl::Status RestoreError(const SampleRun& run, LoadedCheckpoint loaded) {
  return RestoreCheckpoint(run.owner(), std::move(loaded)).status();
}

TEST(CheckpointTest, ComesBackWhole) {
  const SampleRun run;
  LoadedCheckpoint loaded = ThroughAFile(run, SampleCheckpoint());
  ASSERT_TRUE(CheckOwner(run.owner(), loaded.record).ok());
  EXPECT_THAT(ChangedSettings(run.owner(), loaded.record), IsEmpty());
  const absl::StatusOr<WorkerCheckpoint> back = RestoreCheckpoint(run.owner(), std::move(loaded));
  ASSERT_TRUE(back.ok()) << back.status();

  const ReplicaState& replica = back->training.replica;
  EXPECT_EQ(replica.first_round, 1);
  EXPECT_EQ(replica.step, 14);
  EXPECT_EQ(replica.tokens, 4096u);
  EXPECT_TRUE(replica.healed);
  ASSERT_EQ(replica.fragments.size(), 2u);
  EXPECT_EQ(replica.fragments[0].next, (Stop{.step = 16, .round = 3, .takes = true, .sets = true}));
  EXPECT_EQ(replica.fragments[1].next, (Stop{.step = 16, .round = 3, .sets = true}));
  EXPECT_EQ(replica.fragments[0].weighed, 100u);
  EXPECT_EQ(replica.fragments[1].weighed, 200u);
  EXPECT_THAT(replica.theta, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(replica.anchor, ElementsAre(6, 7, 8, 9, 10));
  EXPECT_THAT(replica.trainer.arrays.at("inner.mean"), ElementsAre(0.5F, -0.5F));
  EXPECT_EQ(replica.trainer.counts.at("inner.updates"), 14);
  EXPECT_EQ(back->training.progress[1].version, 1);
  EXPECT_EQ(back->training.progress[1].published, 2);

  const SyncState::Fragment& first = back->sync.fragments.at(0);
  EXPECT_EQ(first.outer.consensus.version(), 2);
  EXPECT_THAT(first.outer.consensus.parameters(), ElementsAre(1, 2, 3));
  EXPECT_THAT(first.outer.consensus.state()[0], ElementsAre(10, 20, 30));
  EXPECT_EQ(first.outer.next_scalars, (StepScalars{.rate = 0.25F, .momentum = 0.5F, .participating_weight = 2}));
  EXPECT_EQ(first.outer.own_weight, 3);
  EXPECT_THAT(first.outer.own_momentum, ElementsAre(0.1F, 0.2F, 0.3F));
  ASSERT_EQ(first.outer.unsettled.size(), 1u);
  EXPECT_EQ(first.outer.unsettled[0].round, 2);
  EXPECT_EQ(first.outer.unsettled[0].digest, (Digest{11, 12}));
  EXPECT_EQ(first.outer.unsettled[0].lambda, 0.75F);
  EXPECT_THAT(first.outer.unsettled[0].decoded, ElementsAre(-1, -2, -3));
  EXPECT_EQ(first.stop, 3);
  EXPECT_THAT(first.residual, ElementsAre(0.01F, 0.02F, 0.03F));
  const SyncState::Fragment& second = back->sync.fragments.at(1);
  EXPECT_FALSE(second.outer.own_weight.has_value());
  EXPECT_THAT(second.residual, IsEmpty());
  EXPECT_EQ(second.stop, 4);
  ASSERT_EQ(back->sync.contributions.size(), 1u);
  EXPECT_EQ(back->sync.contributions[0].round, 2);
  EXPECT_EQ(back->sync.contributions[0].weight, 5);
  EXPECT_EQ(back->sync.contributions[0].encoded, SampleCheckpoint().sync.contributions[0].encoded);
  ASSERT_EQ(back->sync.abstentions.size(), 1u);
  EXPECT_EQ(back->sync.abstentions[0].fragment, 1);
  EXPECT_EQ(back->sync.abstentions[0].reason, "not finite");
}

TEST(CheckpointTest, HoldsThePrivateConsensusOfBlend) {
  const SampleRun run("method: blend\n");
  WorkerCheckpoint sample = SampleCheckpoint();
  sample.sync.fragments[0].outer.private_consensus = SampleConsensus(2, {7, 8, 9});
  sample.sync.fragments[1].outer.private_consensus = SampleConsensus(1, {3, 4});
  const absl::StatusOr<WorkerCheckpoint> back = RestoreCheckpoint(run.owner(), ThroughAFile(run, sample));
  ASSERT_TRUE(back.ok()) << back.status();
  const Consensus& second = *back->sync.fragments[1].outer.private_consensus;
  EXPECT_EQ(second.version(), 1);
  EXPECT_THAT(second.parameters(), ElementsAre(3, 4));
  EXPECT_THAT(second.state()[0], ElementsAre(30, 40));
}

TEST(CheckpointTest, IsOfOneWorkerInOneRun) {
  const SampleRun run;
  const v1::CheckpointRecord record = ThroughAFile(run, SampleCheckpoint()).record;
  CheckpointOwner other = run.owner();
  other.worker_id = "west";
  EXPECT_THAT(std::string(CheckOwner(other, record).message()),
              HasSubstr("is of worker \"east\" in run \"sample\", and this is worker \"west\" in run \"sample\""));
}

TEST(CheckpointTest, NamesTheTensorThatDiffers) {
  const SampleRun run;
  const v1::CheckpointRecord record = ThroughAFile(run, SampleCheckpoint()).record;
  SampleRun wider;
  wider.tensors[1].shape = {4};
  const absl::StatusOr<Layout> layout = Layout::Cut(wider.tensors, wider.config.fragments.cut);
  CheckpointOwner owner = wider.owner();
  owner.layout = &*layout;
  const absl::Status status = CheckOwner(owner, record);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"second\""));
}

TEST(CheckpointTest, MethodAndCodecsAreFixed) {
  const SampleRun run;
  const v1::CheckpointRecord record = ThroughAFile(run, SampleCheckpoint()).record;
  for (const char* more : {"method: delayed\n", "inner: {optimizer: sgd}\n", "lookahead: {momentum: shared}\n"}) {
    const absl::Status status = CheckOwner(SampleRun(more).owner(), record);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << more;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is fixed for a run")) << more;
  }
}

TEST(CheckpointTest, RatesMayChange) {
  const SampleRun run;
  const v1::CheckpointRecord record = ThroughAFile(run, SampleCheckpoint()).record;
  const SampleRun changed("lookahead: {momentum: own}\ninner: {beta1: 0.5}\n");
  EXPECT_TRUE(CheckOwner(changed.owner(), record).ok());
  EXPECT_THAT(ChangedSettings(changed.owner(), record), ElementsAre("inner.beta1: 0.9 in the checkpoint, 0.5 now"));
}

TEST(CheckpointTest, NamesAnArrayOfTheWrongSize) {
  const SampleRun run;
  LoadedCheckpoint loaded = ThroughAFile(run, SampleCheckpoint());
  loaded.arrays.at("1/own_momentum").push_back(0);
  EXPECT_THAT(std::string(RestoreError(run, loaded).message()),
              HasSubstr("\"1/own_momentum\" has 3 elements and should have 2"));
  loaded.arrays.erase("1/own_momentum");
  EXPECT_THAT(std::string(RestoreError(run, std::move(loaded)).message()),
              HasSubstr("\"1/own_momentum\" has 0 elements and should have 2"));
}

TEST(CheckpointTest, RefusesNumbersOutOfRange) {
  const SampleRun run;
  const LoadedCheckpoint good = ThroughAFile(run, SampleCheckpoint());
  LoadedCheckpoint bad = good;
  bad.record.mutable_fragments(0)->mutable_next_scalars()->set_rate(-1);
  EXPECT_FALSE(RestoreError(run, bad).ok());
  bad = good;
  bad.record.mutable_contributions(0)->set_weight(0);
  EXPECT_FALSE(RestoreError(run, bad).ok());
  bad = good;
  bad.record.mutable_contributions(0)->set_fragment(2);
  EXPECT_FALSE(RestoreError(run, bad).ok());
  bad = good;
  bad.record.mutable_fragments()->RemoveLast();
  EXPECT_FALSE(RestoreError(run, bad).ok());
}

}  // namespace
}  // namespace diloco
