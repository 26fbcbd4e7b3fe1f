// The sync thread's decisions, one event at a time, without threads or a network.
#include "worker/sync/sync_core.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/worker/sync/published_delta.h"

namespace diloco {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr StepScalars kScalars{.rate = 0.5f, .momentum = 0.5f, .participating_weight = 1};

RunConfig Config(const std::string& method, const std::string& more = "") {
  return ParseRunConfig(absl::StrFormat("run: {id: test, workers: 1, rounds: 4}\nmethod: %s\ninner_steps: 2\n"
                                        "outer: {rate: 0.5, momentum: 0.5}\n"
                                        "fragments: {count: 2}\nwire: {uplink: fp32, downlink: fp32}\n%s",
                                        method, more),
                        "test")
      .value();
}

class RecordingNetwork final : public SyncNetwork {
 public:
  void OpenUpload(int stream, uint64_t call) override { upload_calls.emplace_back(stream, call); }
  void CancelUpload(int, uint64_t) override {}
  void Send(int, v1::UploadRequest request) override { sent.push_back(std::move(request)); }
  void FetchSnapshot(uint64_t call, v1::FetchSnapshotRequest) override { download_call = call; }
  void OpenSubscription(uint64_t call, v1::SubscribeRequest request) override {
    download_call = call;
    subscribed = {request.next_rounds().begin(), request.next_rounds().end()};
  }
  void ReadNext(uint64_t) override { ++reads; }
  void CancelDownload(uint64_t) override { ++cancels; }

  std::vector<std::pair<int, uint64_t>> upload_calls;
  std::vector<v1::UploadRequest> sent;
  uint64_t download_call = 0;
  std::vector<int64_t> subscribed;
  int reads = 0;
  int cancels = 0;
};

// Two fragments of one element, seeded with 1 and 2.
class SyncCoreTest : public testing::Test {
 protected:
  void Make(const RunConfig& config, int64_t first_round = 0) {
    config_ = config;
    core_.emplace(SyncCore::Options{
                      .worker_id = "solo",
                      .incarnation = 5,
                      .first_round = first_round,
                      .chunk_bytes = 4,
                      .on_consensus = [this](int fragment, int64_t version,
                                             const Digest& digest) { seen_.emplace_back(fragment, version, digest); },
                      .report_soon = [this] { told_.push_back(board_.Get().abstentions.size()); }},
                  &config_, &layout_, &exchange_, &board_, &network_);
    ASSERT_EQ(core_->HandleTime(now_), absl::OkStatus());
    TakeSnapshot();
  }

  absl::Status Handle(SyncEvent event) { return core_->Handle(std::move(event), now_); }

  void TakeSnapshot() {
    v1::FetchSnapshotResponse item;
    v1::SnapshotHeader* header = item.mutable_header();
    header->set_run_id("test");
    header->set_version(theirs_[0].version());
    header->mutable_layout_digest()->set_value(layout_.digest().Bytes());
    std::string bytes;
    for (const Consensus& consensus : theirs_) {
      bytes.append(reinterpret_cast<const char*>(consensus.parameters().data()), sizeof(float));
      bytes.append(reinterpret_cast<const char*>(consensus.state()[0].data()), sizeof(float));
      header->add_consensus_digests()->set_value(consensus.ComputeDigest().Bytes());
      header->add_settled_rounds(theirs_[0].version() - 1);
    }
    header->set_total_bytes(bytes.size());
    const uint64_t call = network_.download_call;
    ASSERT_EQ(Handle(SnapshotItemRead{call, item}), absl::OkStatus());
    v1::SnapshotChunk* chunk = item.mutable_chunk();
    chunk->set_run_id("test");
    chunk->set_payload(bytes);
    chunk->set_crc32c(ComputeCrc32c(bytes).value);
    ASSERT_EQ(Handle(SnapshotItemRead{call, item}), absl::OkStatus());
    ASSERT_EQ(Handle(DownloadFinished{call, absl::OkStatus()}), absl::OkStatus());
  }

  template <typename F>
  absl::Status Read(const F& fill) {
    v1::SubscribeResponse item;
    fill(&item);
    return Handle(SubscriptionItemRead{network_.download_call, item});
  }

  // The next round of one fragment, with the own contributions that it merges.
  absl::Status Publish(uint32_t fragment, float average, const std::vector<int64_t>& own = {}) {
    std::vector<std::pair<int64_t, Digest>> settled;
    for (const int64_t round : own) {
      for (const v1::UploadRequest& request : network_.sent) {
        if (request.round() == round && request.fragment() == fragment) {
          settled.emplace_back(round, Digest::FromBytes(request.contribution_digest().value()));
          break;
        }
      }
    }
    const PublishedDelta delta = PublishDelta(fragment, {average}, kScalars, settled, &theirs_[fragment], settlement_);
    absl::Status status = Read([&](v1::SubscribeResponse* item) { *item->mutable_chunk() = delta.chunk; });
    status.Update(Read([&](v1::SubscribeResponse* item) { *item->mutable_settled() = delta.settled; }));
    status.Update(Read([&](v1::SubscribeResponse* item) { *item->mutable_commit() = delta.commit; }));
    return status;
  }

  absl::Status End() {
    return Read([&](v1::SubscribeResponse* item) {
      v1::EndRecord* end = item->mutable_end();
      end->set_run_id("test");
      end->set_rounds(theirs_[0].version());
      for (const Consensus& consensus : theirs_) {
        end->add_consensus_digests()->set_value(consensus.ComputeDigest().Bytes());
      }
    });
  }

  v1::Settlement settlement_ = v1::SETTLEMENT_MERGED;  // Of what Publish settles.

  // What the training thread does with both fragments at once.
  absl::Status Advance(int64_t round) {
    absl::Status status = Handle(TrainingAdvanced{0, round});
    status.Update(Handle(TrainingAdvanced{1, round}));
    return status;
  }
  absl::Status Contribute(int64_t round, float lambda) {
    absl::Status status = Handle(OuterGradientTaken{0, round, {0.5f}, lambda});
    status.Update(Handle(OuterGradientTaken{1, round, {0.25f}, lambda}));
    return status;
  }
  absl::Status Abstain(int64_t round) {
    absl::Status status = Handle(RoundAbstained{0, round, "not finite"});
    status.Update(Handle(RoundAbstained{1, round, "not finite"}));
    return status;
  }

  StagedStop Staged(int fragment, int64_t round) {
    return exchange_.TryTake({{.fragment = fragment, .round = round, .required = 0}})->value()[0];
  }
  // Oldest version of both.
  int64_t Version(int64_t round) {
    return std::min(Staged(0, round).staged->version, Staged(1, round).staged->version);
  }

  const Layout layout_ =
      Layout::Cut({{.name = "a", .shape = {1}, .layer = 0}, {.name = "b", .shape = {1}, .layer = 1}}, {.count = 2})
          .value();
  const OuterOptimizer* const nesterov_ = FindOuterOptimizer("nesterov");
  std::vector<Consensus> theirs_ = {Consensus(nesterov_, {1}), Consensus(nesterov_, {2})};
  MonotonicTime now_{1};
  SteadyClock clock_;
  std::atomic<bool> interrupt_ = false;
  Exchange exchange_{{.coordinator = "host:1", .give_up_after = absl::ZeroDuration(), .interrupt = &interrupt_},
                     &clock_};
  StatusBoard board_;
  RecordingNetwork network_;
  RunConfig config_;
  std::vector<std::tuple<int, int64_t, Digest>> seen_;
  std::vector<size_t> told_;  // Abstentions on the board, each time that it was to be reported at once.
  std::optional<SyncCore> core_;
};

TEST_F(SyncCoreTest, StagesTheConsensusBeforeTraining) {
  Make(Config("eager"));
  EXPECT_THAT(network_.subscribed, ElementsAre(0, 0));
  EXPECT_THAT(Staged(0, kBeforeTraining).staged->base, ElementsAre(1));
  EXPECT_THAT(Staged(1, kBeforeTraining).staged->base, ElementsAre(2));
  EXPECT_THAT(seen_,
              ElementsAre(std::tuple(0, 0, theirs_[0].ComputeDigest()), std::tuple(1, 0, theirs_[1].ComputeDigest())));
}

TEST_F(SyncCoreTest, HoldsBackWhatTheBoundaryMayNotApply) {
  Make(Config("eager", "max_late: 0\n"));
  ASSERT_EQ(Advance(0), absl::OkStatus());
  EXPECT_EQ(Version(0), 0);
  ASSERT_EQ(Contribute(0, 1), absl::OkStatus());
  ASSERT_EQ(Advance(1), absl::OkStatus());
  EXPECT_EQ(Version(1), 0);
  ASSERT_EQ(Publish(0, 0.5f, {0}), absl::OkStatus());
  EXPECT_EQ(Staged(0, 1).staged->version, 1);
  EXPECT_EQ(Staged(1, 1).published, 0);
  ASSERT_EQ(Publish(1, 0.25f, {0}), absl::OkStatus());
  EXPECT_EQ(Version(1), 1);
  EXPECT_EQ(Staged(0, 1).published, 1);
  // Boundary 1 may have version 1. The average of round 1 closes without this worker's contribution: everything.
  ASSERT_EQ(Publish(0, 0.125f), absl::OkStatus());
  EXPECT_EQ(Staged(0, 1).staged->version, 2);
}

TEST_F(SyncCoreTest, StagesTheConsensusForMethodsWithoutLookAhead) {
  Make(Config("delayed"));
  ASSERT_EQ(Advance(0), absl::OkStatus());
  ASSERT_EQ(Contribute(0, 0), absl::OkStatus());
  ASSERT_EQ(Advance(1), absl::OkStatus());
  ASSERT_EQ(Publish(0, 0.5f, {0}), absl::OkStatus());
  ASSERT_EQ(Publish(1, 0.25f, {0}), absl::OkStatus());
  EXPECT_EQ(Version(1), 1);
  // b = 0.5, s = 1 - 0.5 * (0.5 + 0.5 * 0.5).
  EXPECT_THAT(Staged(0, 1).staged->base, ElementsAre(0.625f));
  EXPECT_EQ(Staged(0, 1).staged->coefficient, 0);
}

TEST_F(SyncCoreTest, SendsEachFragmentUntilItIsSettled) {
  Make(Config("eager"));
  ASSERT_EQ(Advance(0), absl::OkStatus());
  ASSERT_EQ(Contribute(0, 1), absl::OkStatus());
  ASSERT_THAT(network_.sent, SizeIs(1));
  ASSERT_EQ(Handle(UploadWritten{0, 1}), absl::OkStatus());
  ASSERT_THAT(network_.sent, SizeIs(2));
  EXPECT_EQ(network_.sent[0].fragment(), 0u);
  EXPECT_EQ(network_.sent[1].fragment(), 1u);
  EXPECT_EQ(board_.Get().uploaded_bytes, 8u);
  EXPECT_EQ(board_.Get().upload_queue, 2);
  ASSERT_EQ(Publish(0, 0.5f, {0}), absl::OkStatus());
  EXPECT_EQ(board_.Get().upload_queue, 1);
  EXPECT_EQ(board_.Get().downloaded_bytes, 4u);
}

TEST_F(SyncCoreTest, ContributionThatANewerOneOvertookIsForgottenWithIt) {
  Make(Config("eager"));
  for (const int64_t round : {0, 1}) {
    ASSERT_EQ(Advance(round), absl::OkStatus());
    ASSERT_EQ(Contribute(round, 1), absl::OkStatus());
  }
  ASSERT_EQ(Advance(2), absl::OkStatus());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Handle(UploadWritten{0, 1}), absl::OkStatus());
  EXPECT_EQ(board_.Get().upload_queue, 4);
  ASSERT_EQ(Publish(0, 0), absl::OkStatus());
  ASSERT_EQ(Publish(0, 0.5f, {1}), absl::OkStatus());
  EXPECT_EQ(board_.Get().upload_queue, 2);
}

// In steps of bf16 between 1 and 2, as in contribution_store_test.cc.
class SyncCoreFeedbackTest : public SyncCoreTest,
                             public testing::WithParamInterface<std::pair<v1::Settlement, float>> {};

TEST_P(SyncCoreFeedbackTest, ResidualFollowsTheSettlement) {
  RunConfig config = Config("eager");
  config.wire.uplink = "bf16";
  config.wire.error_feedback = FeedbackLinks::kUplink;
  Make(config);
  constexpr float kBf16Step = 1.0F / 128;
  ASSERT_EQ(Advance(0), absl::OkStatus());
  ASSERT_EQ(Handle(OuterGradientTaken{0, 0, {1 + 0.375F * kBf16Step}, 1}), absl::OkStatus());
  settlement_ = GetParam().first;
  ASSERT_EQ(Publish(0, 1, {0}), absl::OkStatus());
  ASSERT_EQ(Advance(1), absl::OkStatus());
  ASSERT_EQ(Handle(OuterGradientTaken{0, 1, {1 + 0.25F * kBf16Step}, 1}), absl::OkStatus());
  while (network_.sent.back().round() != 1) ASSERT_EQ(Handle(UploadWritten{0, 1}), absl::OkStatus());
  ASSERT_EQ(network_.sent.back().fragment(), 0u);
  float sent = 0;
  FindCodec("bf16")->decode(network_.sent.back().payload(), {&sent, 1});
  EXPECT_EQ(sent, GetParam().second);
}

INSTANTIATE_TEST_SUITE_P(Settlements, SyncCoreFeedbackTest,
                         testing::Values(std::pair(v1::SETTLEMENT_MERGED, 1 + 1.0F / 128),
                                         std::pair(v1::SETTLEMENT_DROPPED_REFUSED, 1.0F),
                                         std::pair(v1::SETTLEMENT_DROPPED_LATE, 2.0F),
                                         std::pair(v1::SETTLEMENT_DROPPED_OUT_OF_ORDER, 2.0F)));

TEST_F(SyncCoreTest, AbstentionsLastUntilTheRoundCommits) {
  Make(Config("eager"));
  ASSERT_EQ(Advance(0), absl::OkStatus());
  ASSERT_EQ(Abstain(0), absl::OkStatus());
  ASSERT_EQ(Advance(1), absl::OkStatus());
  ASSERT_THAT(board_.Get().abstentions, SizeIs(2));
  EXPECT_THAT(told_, ElementsAre(1, 2)) << "the others' round waits for it";
  EXPECT_EQ(board_.Get().abstentions[0].reason, "not finite");
  ASSERT_EQ(Publish(1, 0), absl::OkStatus());
  ASSERT_THAT(board_.Get().abstentions, SizeIs(1));
  EXPECT_EQ(board_.Get().abstentions[0].fragment, 0);
  ASSERT_EQ(Publish(0, 0), absl::OkStatus());
  EXPECT_THAT(board_.Get().abstentions, IsEmpty());
}

TEST_F(SyncCoreTest, CopiesTheConsensusForTheEvaluatorWhenAllFragmentsCrossAMultiple) {
  Make(Config("eager", "eval: {every: 2}\n"));
  exchange_.SetEvaluator(true);
  ASSERT_EQ(Advance(kNoRound), absl::OkStatus());  // Nothing is held back any more.
  ASSERT_EQ(Publish(0, 0.5f), absl::OkStatus());
  ASSERT_EQ(Publish(0, 0.5f), absl::OkStatus());
  ASSERT_EQ(Publish(1, 0.5f), absl::OkStatus());
  EXPECT_EQ(exchange_.TakeConsensusCopy(), nullptr);
  ASSERT_EQ(Publish(1, 0.5f), absl::OkStatus());
  const auto copy = exchange_.TakeConsensusCopy();
  ASSERT_NE(copy, nullptr);
  EXPECT_EQ(copy->version, 2);
  EXPECT_THAT(copy->parameters, ElementsAre(theirs_[0].parameters()[0], theirs_[1].parameters()[0]));
}

TEST_F(SyncCoreTest, EndIsPublishedOnceEverythingIsAppliedAndRight) {
  Make(Config("eager"));
  ASSERT_EQ(Advance(3), absl::OkStatus());
  for (int round = 0; round < 4; ++round) {
    ASSERT_EQ(Publish(0, 0.5f), absl::OkStatus());
    ASSERT_EQ(Publish(1, 0.5f), absl::OkStatus());
  }
  ASSERT_EQ(End(), absl::OkStatus());
  interrupt_ = true;  // AwaitEnd would wait.
  EXPECT_FALSE(exchange_.AwaitEnd().ok());
  interrupt_ = false;
  ASSERT_EQ(Advance(kNoRound), absl::OkStatus());
  EXPECT_EQ(exchange_.AwaitEnd(), absl::OkStatus());
  EXPECT_EQ(board_.Get().version, 4);
}

TEST_F(SyncCoreTest, ADrainedWorkerIsThroughOnceItsContributionsAreSettled) {
  Make(Config("eager"));
  ASSERT_EQ(Advance(0), absl::OkStatus());
  ASSERT_EQ(Contribute(0, 1), absl::OkStatus());
  ASSERT_EQ(Handle(UploadWritten{0, 1}), absl::OkStatus());
  ASSERT_EQ(Advance(1), absl::OkStatus());
  ASSERT_EQ(Handle(TrainingStopped{0}), absl::OkStatus());
  EXPECT_EQ(board_.Get().last_round, 0);
  EXPECT_THAT(told_, SizeIs(1)) << "nobody is to wait for it in later rounds";
  ASSERT_EQ(Publish(0, 0.5f, {0}), absl::OkStatus());
  EXPECT_FALSE(exchange_.Ended().value_or(false));
  settlement_ = v1::SETTLEMENT_DROPPED_LATE;  // Settled is settled.
  ASSERT_EQ(Publish(1, 0.5f, {0}), absl::OkStatus());
  EXPECT_TRUE(exchange_.Ended().value_or(false));
  EXPECT_EQ(exchange_.TakeConsensusCopy(), nullptr) << "the run has not ended";
}

TEST_F(SyncCoreTest, ADrainedWorkerWaitsForWhatItAbstainedFrom) {
  Make(Config("eager"));
  ASSERT_EQ(Advance(0), absl::OkStatus());
  ASSERT_EQ(Abstain(0), absl::OkStatus());
  ASSERT_EQ(Handle(TrainingStopped{0}), absl::OkStatus());
  ASSERT_EQ(Publish(0, 0.5f), absl::OkStatus());
  EXPECT_FALSE(exchange_.Ended().value_or(false));
  ASSERT_EQ(Publish(1, 0.5f), absl::OkStatus());
  EXPECT_TRUE(exchange_.Ended().value_or(false));
}

TEST_F(SyncCoreTest, AWorkerThatDrainsBeforeItsFirstStepIsThroughAtOnce) {
  Make(Config("eager"));
  ASSERT_EQ(Advance(0), absl::OkStatus());
  ASSERT_EQ(Handle(TrainingStopped{-1}), absl::OkStatus());
  EXPECT_TRUE(exchange_.Ended().value_or(false));
}

TEST_F(SyncCoreTest, WrongFinalDigestIsAnError) {
  Make(Config("eager"));
  ASSERT_EQ(Advance(kNoRound), absl::OkStatus());
  for (int round = 0; round < 4; ++round) {
    ASSERT_EQ(Publish(0, 0.5f), absl::OkStatus());
    ASSERT_EQ(Publish(1, 0.5f), absl::OkStatus());
  }
  theirs_[1].Apply(kScalars, std::vector<float>{1});
  EXPECT_EQ(End().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(exchange_.Check().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SyncCoreTest, EndBeforeAllRoundsIsDamage) {
  Make(Config("eager"));
  ASSERT_EQ(Publish(0, 0.5f), absl::OkStatus());
  EXPECT_EQ(End(), absl::OkStatus());  // Says 1 round; fragment 1 has none.
  EXPECT_EQ(network_.cancels, 1);
}

TEST_F(SyncCoreTest, DamagedDeltaIsAskedForAgainFromItsRound) {
  Make(Config("eager"));
  ASSERT_EQ(Publish(1, 0.5f), absl::OkStatus());
  const auto damaged = [](v1::SubscribeResponse* item) {
    item->mutable_chunk()->set_run_id("test");
    item->mutable_chunk()->set_payload("1234");
  };
  EXPECT_EQ(Read(damaged), absl::OkStatus());
  EXPECT_EQ(network_.cancels, 1);
  now_ = now_ + absl::Seconds(1);
  ASSERT_EQ(core_->HandleTime(now_), absl::OkStatus());
  EXPECT_THAT(network_.subscribed, ElementsAre(0, 1));
  EXPECT_EQ(Publish(0, 0.5f), absl::OkStatus());
}

TEST_F(SyncCoreTest, MessageOfNoFragmentIsDamage) {
  Make(Config("eager"));
  EXPECT_EQ(Read([&](v1::SubscribeResponse* item) { item->mutable_commit()->set_fragment(2); }), absl::OkStatus());
  EXPECT_EQ(network_.cancels, 1);
  now_ = now_ + absl::Seconds(1);
  ASSERT_EQ(core_->HandleTime(now_), absl::OkStatus());
  EXPECT_THAT(network_.subscribed, ElementsAre(0, 0));
}

TEST_F(SyncCoreTest, ResyncJumpsToTheSnapshotAndDropsWhatItSettles) {
  Make(Config("eager"));
  ASSERT_EQ(Advance(0), absl::OkStatus());
  ASSERT_EQ(Contribute(0, 1), absl::OkStatus());
  ASSERT_EQ(Advance(1), absl::OkStatus());
  ASSERT_EQ(Read([](v1::SubscribeResponse* item) { item->mutable_resync()->set_run_id("test"); }), absl::OkStatus());
  for (Consensus& consensus : theirs_) {
    for (int i = 0; i < 3; ++i) {
      consensus.Apply(kScalars, std::vector<float>{0.5f});
    }
  }
  now_ = now_ + absl::Seconds(1);
  ASSERT_EQ(core_->HandleTime(now_), absl::OkStatus());
  TakeSnapshot();
  EXPECT_THAT(network_.subscribed, ElementsAre(3, 3));
  EXPECT_EQ(Version(1), 3);
  EXPECT_EQ(Staged(0, 1).published, 3);
  EXPECT_EQ(board_.Get().upload_queue, 0);
  EXPECT_EQ(board_.Get().resyncs, 1);
}

// Two more rounds and another rate, as the coordinator says it.
v1::RunSettings LongerRun(const std::string& run_id = "test") {
  v1::RunSettings settings;
  settings.set_run_id(run_id);
  v1::RunChange* change = settings.add_changes();
  change->set_from_round(3);
  v1::Setting* rounds = change->add_settings();
  rounds->set_key("run.rounds");
  rounds->set_value("6");
  return settings;
}

TEST_F(SyncCoreTest, SettingsAreToldTheTrainingThreadOnce) {
  Make(Config("eager"));
  ASSERT_EQ(Read([](v1::SubscribeResponse* item) { *item->mutable_run_settings() = LongerRun(); }), absl::OkStatus());
  const std::shared_ptr<const RunSettings> taken = exchange_.TakeSettings();
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(taken->newest().run.rounds, 6);
  EXPECT_EQ(taken->At(2).run.rounds, 4);
  // The first message of another subscription says the same.
  ASSERT_EQ(Read([](v1::SubscribeResponse* item) { *item->mutable_run_settings() = LongerRun(); }), absl::OkStatus());
  EXPECT_EQ(exchange_.TakeSettings(), nullptr);
}

TEST_F(SyncCoreTest, SettingsOfAnotherRunEndTheWorker) {
  Make(Config("eager"));
  const absl::Status status =
      Read([](v1::SubscribeResponse* item) { *item->mutable_run_settings() = LongerRun("other"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "settings of run \"other\"; this worker is in run \"test\"");
  EXPECT_EQ(exchange_.TakeSettings(), nullptr);
}

TEST_F(SyncCoreTest, SettingsThatCannotBeUnderstoodEndTheWorker) {
  Make(Config("eager"));
  v1::RunSettings settings = LongerRun();
  settings.mutable_changes(0)->mutable_settings(0)->set_key("inner_steps");
  const absl::Status status = Read([&](v1::SubscribeResponse* item) { *item->mutable_run_settings() = settings; });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(exchange_.Check(), status);
}

}  // namespace
}  // namespace diloco
