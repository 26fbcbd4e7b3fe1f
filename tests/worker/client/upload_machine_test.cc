#include "worker/client/upload_machine.h"

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace diloco {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string Text(const UploadEffect& effect) {
  if (const auto* e = std::get_if<OpenUpload>(&effect)) {
    return absl::StrFormat("open %d #%d", e->stream, e->call);
  }
  if (const auto* e = std::get_if<CancelUpload>(&effect)) {
    return absl::StrFormat("cancel %d #%d", e->stream, e->call);
  }
  if (const auto* e = std::get_if<SendChunk>(&effect)) {
    return absl::StrFormat("chunk %d r%d f%d c%d", e->stream, e->round, e->fragment, e->chunk);
  }
  const auto& e = std::get<SendQuery>(effect);
  return absl::StrFormat("query %d r%d f%d", e.stream, e.round, e.fragment);
}

class UploadMachineTest : public testing::Test {
 protected:
  static UploadMachine::Options Defaults() {
    UploadMachine::Options options;
    options.window_chunks = 3;
    options.quiet_limit = absl::Seconds(5);
    options.dead_limit = absl::Seconds(60);
    options.backoff = {.first = absl::Seconds(1), .longest = absl::Seconds(1)};
    return options;
  }
  void Make(const UploadMachine::Options& options) { machine_.emplace(options); }

  std::vector<std::string> Step(const UploadEvent& event) {
    std::vector<std::string> texts;
    for (const UploadEffect& effect : machine_->Step(event, now_)) {
      texts.push_back(Text(effect));
    }
    return texts;
  }
  std::vector<std::string> Pass(absl::Duration time) {
    now_ = now_ + time;
    return Step(UploadTimePassed{});
  }
  std::vector<std::string> Offer(int64_t round, uint64_t bytes, int fragment = 0) {
    return Step(ContributionOffered{round, fragment, bytes, 10});
  }
  std::vector<std::string> Written(uint64_t call = 1) { return Step(UploadWritten{0, call}); }
  std::vector<std::string> Answer(int64_t round, std::vector<ChunkSpan> held,
                                  UploadVerdict verdict = UploadVerdict::kWanted, uint64_t call = 1) {
    return Step(UploadAnswered{0, call, round, 0, std::move(held), verdict});
  }

  MonotonicTime now_{1'000'000'000};
  std::optional<UploadMachine> machine_ = UploadMachine(Defaults());
};

TEST_F(UploadMachineTest, SendsChunkByChunkWithinTheWindow) {
  EXPECT_THAT(Pass(absl::ZeroDuration()), ElementsAre("open 0 #1"));
  EXPECT_THAT(Offer(0, 45), ElementsAre("chunk 0 r0 f0 c0"));
  EXPECT_THAT(Written(), ElementsAre("chunk 0 r0 f0 c1"));
  EXPECT_THAT(Written(), ElementsAre("chunk 0 r0 f0 c2"));
  EXPECT_THAT(Written(), IsEmpty()) << "three are in flight";
  EXPECT_EQ(machine_->chunks_in_flight(), 3u);
  EXPECT_THAT(Answer(0, {{0, 2}}), ElementsAre("chunk 0 r0 f0 c3"));
  EXPECT_THAT(Written(), ElementsAre("chunk 0 r0 f0 c4"));
  EXPECT_THAT(Written(), IsEmpty());
  now_ = now_ + absl::Seconds(3);
  EXPECT_EQ(machine_->uploads(), 0);
  EXPECT_THAT(Answer(0, {}, UploadVerdict::kStored), IsEmpty());
  EXPECT_EQ(machine_->contributions_pending(), 0u);
  EXPECT_EQ(machine_->chunks_in_flight(), 0u);
  EXPECT_EQ(machine_->uploads(), 1);
  EXPECT_EQ(machine_->upload_time(), absl::Seconds(3));
  now_ = now_ + absl::Seconds(3);
  Answer(0, {}, UploadVerdict::kStored);
  EXPECT_EQ(machine_->uploads(), 1) << "counted once, however often the coordinator says so";
  EXPECT_EQ(machine_->upload_time(), absl::Seconds(3));
}

TEST_F(UploadMachineTest, EmptyContributionIsOneChunk) {
  EXPECT_THAT(Offer(0, 0), ElementsAre("open 0 #1", "chunk 0 r0 f0 c0"));
}

TEST_F(UploadMachineTest, OldestRoundAndLowestFragmentGoFirst) {
  Make(Defaults());
  EXPECT_THAT(Offer(4, 10), ElementsAre("open 0 #1", "chunk 0 r4 f0 c0"));
  EXPECT_THAT(Offer(3, 10, 1), IsEmpty());
  EXPECT_THAT(Offer(3, 10, 0), IsEmpty());
  EXPECT_THAT(Written(), ElementsAre("chunk 0 r3 f0 c0"));
  EXPECT_THAT(Written(), ElementsAre("chunk 0 r3 f1 c0"));
}

TEST_F(UploadMachineTest, ChunkThatALaterOneOvertookIsSentAgain) {
  EXPECT_THAT(Offer(0, 30), ElementsAre("open 0 #1", "chunk 0 r0 f0 c0"));
  Written();
  Written();
  EXPECT_THAT(Written(), IsEmpty());
  EXPECT_THAT(Answer(0, {{0, 1}, {2, 3}}), ElementsAre("chunk 0 r0 f0 c1"));
}

TEST_F(UploadMachineTest, AnswerWithoutNewsIsAskedAboutThenSentAgain) {
  EXPECT_THAT(Offer(0, 10), ElementsAre("open 0 #1", "chunk 0 r0 f0 c0"));
  Written();
  EXPECT_THAT(Answer(0, {}), ElementsAre("query 0 r0 f0"));
  Written();
  EXPECT_THAT(Answer(0, {}), ElementsAre("chunk 0 r0 f0 c0"));
}

TEST_F(UploadMachineTest, SilenceIsAskedAboutThenSentAgain) {
  EXPECT_THAT(Offer(0, 10), ElementsAre("open 0 #1", "chunk 0 r0 f0 c0"));
  Written();
  EXPECT_EQ(machine_->next_wake(), now_ + absl::Seconds(5));
  EXPECT_THAT(Pass(absl::Seconds(4)), IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("query 0 r0 f0"));
  Written();
  EXPECT_THAT(Answer(0, {}), ElementsAre("chunk 0 r0 f0 c0"));
}

TEST_F(UploadMachineTest, DeadStreamIsOpenedAgain) {
  EXPECT_THAT(Offer(0, 10), ElementsAre("open 0 #1", "chunk 0 r0 f0 c0"));
  EXPECT_THAT(Pass(absl::Seconds(60)), ElementsAre("cancel 0 #1"));
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("open 0 #2", "query 0 r0 f0"));
  EXPECT_EQ(machine_->reconnects(), 0);
}

TEST_F(UploadMachineTest, ReconnectAsksFirstAndSendsWhatIsMissing) {
  EXPECT_THAT(Offer(0, 30), ElementsAre("open 0 #1", "chunk 0 r0 f0 c0"));
  Written();
  Written();
  Written();
  EXPECT_THAT(Answer(0, {{0, 1}}), IsEmpty());
  EXPECT_THAT(Step(UploadClosed{0, 1}), IsEmpty());
  EXPECT_LE(*machine_->next_wake(), now_ + absl::Seconds(1));
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("open 0 #2", "query 0 r0 f0"));
  EXPECT_THAT(Written(2), IsEmpty()) << "until it is known what is missing";
  EXPECT_THAT(Answer(0, {{0, 2}}, UploadVerdict::kWanted, 2), ElementsAre("chunk 0 r0 f0 c2"));
  EXPECT_EQ(machine_->reconnects(), 1);
}

TEST_F(UploadMachineTest, StoredContributionIsSentAgainWhenTheCoordinatorLostIt) {
  Offer(0, 20);
  Written();
  Answer(0, {}, UploadVerdict::kStored);
  Written();
  Step(UploadClosed{0, 1});
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("open 0 #2", "query 0 r0 f0"));
  Written(2);
  EXPECT_THAT(Answer(0, {}, UploadVerdict::kWanted, 2), ElementsAre("chunk 0 r0 f0 c0"));
  EXPECT_THAT(Written(2), ElementsAre("chunk 0 r0 f0 c1"));
}

TEST_F(UploadMachineTest, ChunksThatTheCoordinatorDroppedWhileTheStreamLivesAreSentAgain) {
  EXPECT_THAT(Offer(0, 20), ElementsAre("open 0 #1", "chunk 0 r0 f0 c0"));
  EXPECT_THAT(Written(), ElementsAre("chunk 0 r0 f0 c1"));
  Written();
  EXPECT_THAT(Answer(0, {{0, 1}}), IsEmpty());
  // Chunk 1 was damaged; before the query about it the coordinator dropped chunk 0.
  EXPECT_THAT(Pass(absl::Seconds(5)), ElementsAre("query 0 r0 f0"));
  Written();
  EXPECT_THAT(Answer(0, {}), ElementsAre("query 0 r0 f0"));
  Written();
  EXPECT_THAT(Answer(0, {}), ElementsAre("chunk 0 r0 f0 c0"));
  EXPECT_THAT(Written(), ElementsAre("chunk 0 r0 f0 c1"));
  Written();
  EXPECT_THAT(Answer(0, {}, UploadVerdict::kStored), IsEmpty());
  EXPECT_EQ(machine_->contributions_pending(), 0u);
}

TEST_F(UploadMachineTest, EventsOfAnOlderCallAreIgnored) {
  Offer(0, 20);
  Written();
  Step(UploadClosed{0, 1});
  Pass(absl::Seconds(1));
  EXPECT_THAT(Step(UploadClosed{0, 1}), IsEmpty());
  EXPECT_THAT(Answer(0, {}, UploadVerdict::kStored, 1), IsEmpty());
  EXPECT_EQ(machine_->contributions_pending(), 1u);
}

TEST_F(UploadMachineTest, TooEarlyAndBusyComeBackLaterOrWithAnAverage) {
  for (const UploadVerdict verdict : {UploadVerdict::kTooEarly, UploadVerdict::kBusy}) {
    Make(Defaults());
    Offer(7, 20);
    Written();
    Written();
    EXPECT_THAT(Answer(7, {}, verdict), IsEmpty());
    EXPECT_THAT(Answer(7, {}, verdict), IsEmpty()) << "the answer to the other chunk";
    EXPECT_THAT(Step(AverageArrived{1}), IsEmpty());
    EXPECT_THAT(Step(AverageArrived{0}), ElementsAre("query 0 r7 f0"));
    Written();
    EXPECT_THAT(Answer(7, {}, verdict), IsEmpty());
    EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("query 0 r7 f0"));
    Written();
    EXPECT_THAT(Answer(7, {}), ElementsAre("chunk 0 r7 f0 c0"));
  }
}

TEST_F(UploadMachineTest, RefusedAndSettledAreSentAgainOnlyIfTheCoordinatorHasForgotten) {
  for (const UploadVerdict verdict : {UploadVerdict::kRefused, UploadVerdict::kSettled}) {
    Make(Defaults());
    Offer(0, 20);
    EXPECT_THAT(Answer(0, {}, verdict), IsEmpty());
    EXPECT_THAT(Written(), IsEmpty());
    Step(UploadClosed{0, 1});
    EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("open 0 #2", "query 0 r0 f0"));
    Written(2);
    EXPECT_THAT(Answer(0, {}, verdict, 2), IsEmpty());
    Step(UploadClosed{0, 2});
    EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("open 0 #3", "query 0 r0 f0"));
    Written(3);
    EXPECT_THAT(Answer(0, {}, UploadVerdict::kWanted, 3), ElementsAre("chunk 0 r0 f0 c0"));
  }
}

TEST_F(UploadMachineTest, SettledContributionIsForgotten) {
  Offer(0, 20);
  EXPECT_THAT(Step(ContributionSettled{0, 0}), IsEmpty());
  EXPECT_THAT(Written(), IsEmpty());
  EXPECT_EQ(machine_->chunks_in_flight(), 0u);
  EXPECT_THAT(Answer(0, {{0, 1}}), IsEmpty());
  EXPECT_THAT(Step(ContributionSettled{0, 0}), IsEmpty());
}

TEST_F(UploadMachineTest, SeveralStreamsShareTheChunks) {
  UploadMachine::Options options = Defaults();
  options.streams = 2;
  Make(options);
  EXPECT_THAT(Offer(0, 40), ElementsAre("open 0 #1", "open 1 #2", "chunk 0 r0 f0 c0", "chunk 1 r0 f0 c1"));
  EXPECT_THAT(Step(UploadWritten{1, 2}), ElementsAre("chunk 1 r0 f0 c2"));
  EXPECT_THAT(Step(UploadWritten{0, 1}), ElementsAre("chunk 0 r0 f0 c3"));
  // Chunk 2 went after chunk 1 on stream 1, chunk 0 went over another stream.
  EXPECT_THAT(Step(UploadWritten{1, 2}), IsEmpty());
  EXPECT_THAT(Step(UploadAnswered{1, 2, 0, 0, {{2, 3}}}), ElementsAre("chunk 1 r0 f0 c1"));
}

TEST_F(UploadMachineTest, RateCapHoldsChunksButNoQueries) {
  UploadMachine::Options options = Defaults();
  options.bytes_per_second = 1 << 20;  // The bucket holds 1 MiB.
  options.window_chunks = 100;
  Make(options);
  const uint32_t half = 1 << 19;
  EXPECT_THAT(Step(ContributionOffered{0, 0, uint64_t{half} * 10, half}), ElementsAre("open 0 #1", "chunk 0 r0 f0 c0"));
  EXPECT_THAT(Written(), ElementsAre("chunk 0 r0 f0 c1"));
  EXPECT_THAT(Written(), ElementsAre("chunk 0 r0 f0 c2")) << "the bucket is empty, not in debt";
  EXPECT_THAT(Written(), IsEmpty());
  EXPECT_NEAR(absl::ToDoubleSeconds(*machine_->next_wake() - now_), 0.5, 1e-6);
  EXPECT_THAT(Answer(0, {{0, 2}}), IsEmpty());
  EXPECT_THAT(Answer(0, {{0, 2}}), ElementsAre("query 0 r0 f0")) << "a query is not bulk";
  Written();
  EXPECT_THAT(Pass(absl::Milliseconds(501)), ElementsAre("chunk 0 r0 f0 c3"));
}

}  // namespace
}  // namespace diloco
