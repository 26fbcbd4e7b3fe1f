// The driver's parts, each by itself: staging, queues, publication, retention, the log of rounds, the mailbox.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/limits.h"
#include "coordinator/driver/capacity.h"
#include "coordinator/driver/delta_log.h"
#include "coordinator/driver/delta_queue.h"
#include "coordinator/driver/mailbox.h"
#include "coordinator/driver/pending_reply.h"
#include "coordinator/driver/publication.h"
#include "coordinator/driver/round_log.h"
#include "coordinator/driver/staging.h"
#include "coordinator/driver/wire.h"

namespace diloco {
namespace {

constexpr char kWorker[] = "east";

ContributionId Id(int64_t round, const std::string& worker = kWorker) {
  return {.worker = worker, .fragment = 0, .round = round};
}

ContributionShape Shape(uint64_t total, uint32_t chunk) {
  return {.total_bytes = total, .chunk_bytes = chunk, .digest = {1, 2}, .weight = 1};
}

TEST(StagingTest, AnyOrderOfChunksGivesTheSameBytes) {
  std::string bytes(103, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 7);
  }
  std::vector<uint32_t> order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::mt19937 random(1);
  for (int trial = 0; trial < 50; ++trial) {
    std::shuffle(order.begin(), order.end(), random);
    Staging staging(1000);
    int complete = 0;
    for (const uint32_t index : order) {
      const auto result = staging.Add(Id(0), 1, Shape(103, 10), index, std::string_view(bytes).substr(index * 10, 10));
      ASSERT_TRUE(result.ok()) << result.status();
      complete += *result == Staging::Result::kComplete ? 1 : 0;
    }
    EXPECT_EQ(complete, 1);
    EXPECT_EQ(*staging.Bytes(Id(0)), bytes);
    EXPECT_TRUE(staging.Checking(Id(0), 1));
  }
}

TEST(StagingTest, CountsTheBytesThatAreHere) {
  Staging staging(1000);
  EXPECT_EQ(staging.ReceivedBytes(Id(0)), 0U);
  ASSERT_TRUE(staging.Add(Id(0), 1, Shape(23, 10), 2, "abc").ok());
  EXPECT_EQ(staging.ReceivedBytes(Id(0)), 3U) << "the last chunk is short";
  ASSERT_TRUE(staging.Add(Id(0), 1, Shape(23, 10), 0, std::string(10, 'a')).ok());
  ASSERT_TRUE(staging.Add(Id(0), 1, Shape(23, 10), 0, std::string(10, 'a')).ok());
  EXPECT_EQ(staging.ReceivedBytes(Id(0)), 13U) << "one that comes again counts once";
}

TEST(StagingTest, RoomIsBoundedAndComesBack) {
  Staging staging(25);
  EXPECT_EQ(*staging.Add(Id(0), 1, Shape(20, 10), 0, std::string(10, 'a')), Staging::Result::kReceiving);
  EXPECT_EQ(*staging.Add(Id(1), 1, Shape(6, 10), 0, "123456"), Staging::Result::kNoRoom);
  EXPECT_EQ(*staging.Add(Id(1), 1, Shape(5, 10), 0, "12345"), Staging::Result::kComplete);
  EXPECT_EQ(staging.staged_bytes(), 25U);
  staging.Drop(Id(0));
  EXPECT_EQ(staging.staged_bytes(), 5U);
  EXPECT_EQ(*staging.Add(Id(2), 1, Shape(20, 10), 0, std::string(10, 'a')), Staging::Result::kReceiving);
}

TEST(StagingTest, ForgetsWhatIsNotStoredOfAnOlderIncarnation) {
  Staging staging(1000);
  ASSERT_TRUE(staging.Add(Id(0), 1, Shape(5, 10), 0, "12345").ok());
  ASSERT_TRUE(staging.MarkStored(Id(0), staging.Bytes(Id(0))));
  ASSERT_TRUE(staging.Add(Id(1), 1, Shape(20, 10), 0, std::string(10, 'a')).ok());
  ASSERT_TRUE(staging.Add(Id(2), 1, Shape(5, 10), 0, "12345").ok());  // Being checked.
  const StagedBytes old = staging.Bytes(Id(2));
  ASSERT_TRUE(staging.Add(Id(0, "west"), 1, Shape(20, 10), 0, std::string(10, 'a')).ok());
  EXPECT_THAT(staging.DropIncomplete(kWorker, 2), ::testing::ElementsAre(Id(1), Id(2)));
  EXPECT_EQ(staging.size(), 2U);
  EXPECT_NE(staging.Bytes(Id(0)), nullptr);
  // The check of the old bytes ends after the new ones have come.
  ASSERT_TRUE(staging.Add(Id(2), 2, Shape(5, 10), 0, "54321").ok());
  EXPECT_FALSE(staging.Holds(Id(2), old));
  EXPECT_FALSE(staging.MarkStored(Id(2), old));
}

TEST(StagingTest, AContributionOfNoBytesIsWholeAtOnce) {
  Staging staging(10);
  EXPECT_EQ(*staging.Add(Id(0), 1, Shape(0, 10), 0, ""), Staging::Result::kComplete);
}

Layout OneTensor(int64_t elements) { return *Layout::Cut({TensorSpec{.name = "w", .shape = {elements}}}, CutRule()); }

// Each large enough to be a fragment of its own.
std::vector<TensorSpec> NamedTensors(int count) {
  std::vector<TensorSpec> tensors;
  for (int i = 0; i < count; ++i) tensors.push_back({.name = absl::StrFormat("t%d", i), .shape = {4}});
  return tensors;
}

TEST(CapacityTest, WhatAllWorkersMayStageAtOnceIsWithinTheLimit) {
  RunConfig config;
  config.run.workers = 4;
  config.overlap = config.inner_steps;
  config.max_late = 1;  // Three open rounds.
  config.wire.uplink = "fp32";
  const int64_t fits = (int64_t{16} << 30) / (4 * 3 * 4);
  EXPECT_TRUE(CheckCapacity(config, OneTensor(fits)).ok());
  const absl::Status status = CheckCapacity(config, OneTensor(fits + 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("357913942 parameters is too large for this run: 4 workers x 3 open rounds x "
                                   "1431655768 bytes of fp32 are more than the 17179869184 bytes"));
  config.max_late = 0;
  EXPECT_TRUE(CheckCapacity(config, OneTensor(fits + 1)).ok());
}

TEST(CapacityTest, TwoRoundsFitASubscribersQueue) {
  RunConfig config;
  config.run.workers = 1;
  config.wire.downlink = "fp32";
  const int64_t fits = (int64_t{16} << 30) / (2 * 4);
  EXPECT_TRUE(CheckCapacity(config, OneTensor(fits)).ok());
  const absl::Status status = CheckCapacity(config, OneTensor(fits + 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("two rounds of 8589934596 bytes of fp32"));
  config.wire.downlink = "int8";
  EXPECT_TRUE(CheckCapacity(config, OneTensor(fits + 1)).ok());
}

// Also with names of the largest size: what the bound is made of.
TEST(CapacityTest, OneMessageListsWhatIsOpenAtOnce) {
  RunConfig config;
  config.run.workers = 32;
  config.overlap = config.inner_steps;  // Two open rounds.
  config.fragments.cut.count = kMaxFragments;
  const auto cut = [&config](int fragments) {
    return *Layout::Cut(std::vector<TensorSpec>(NamedTensors(fragments)), config.fragments.cut);
  };
  constexpr int kFits = kMaxMessageBytes / 200 / (32 * 2);
  EXPECT_TRUE(CheckCapacity(config, cut(kFits)).ok());
  const absl::Status status = CheckCapacity(config, cut(kFits + 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("32 workers x 2 open rounds x 328 fragments are more "
                                                                  "contributions than one message of 4194304 bytes"));

  v1::EndRecord end;
  v1::DescribeRoundResponse described;
  for (int i = 0; i < kFits * 32 * 2; ++i) {
    v1::SettledContribution* line = end.add_settled();
    line->mutable_id()->set_worker_id(std::string(kMaxNameBytes, 'w'));
    line->mutable_id()->set_fragment(kMaxFragments);
    line->mutable_id()->set_round(1'000'000'000);
    line->mutable_digest()->set_value(std::string(16, 'd'));
    line->set_settlement(v1::SETTLEMENT_DROPPED_RUN_ENDED);
    line->set_weight(0x1p53);
  }
  for (int i = 0; i < kFits; ++i) {
    v1::FragmentRound* fragment = described.add_fragments();
    for (int worker = 0; worker < 32 * 2; ++worker) {
      *fragment->add_settled() = end.settled(worker);
      fragment->add_present(std::string(kMaxNameBytes, 'w'));
    }
  }
  EXPECT_LE(end.ByteSizeLong(), size_t{kMaxMessageBytes});
  EXPECT_LE(described.ByteSizeLong(), size_t{kMaxMessageBytes});
}

TEST(DeltaQueueTest, OnlyLiveMessagesCountAgainstTheLimit) {
  const auto message = std::make_shared<const std::string>(40, 'x');
  int ready = 0;
  DeltaQueue queue(100, "resync", [&ready] { ++ready; });
  queue.PushBacklog({message, message, message, message});
  EXPECT_EQ(ready, 1);
  queue.Push(message);
  queue.Push(message);
  EXPECT_EQ(ready, 1);  // It was not empty.
  bool ended = false;
  EXPECT_EQ(queue.Pop(&ended), message);
  queue.Push(message);  // 120 live bytes.
  EXPECT_EQ(*queue.Pop(&ended), "resync");
  EXPECT_TRUE(ended);
  queue.Push(message);
  EXPECT_EQ(queue.Pop(&ended), nullptr);
}

TEST(DeltaQueueTest, DeliversWhatIsQueuedBeforeTheEnd) {
  int ready = 0;
  DeltaQueue queue(100, "resync", [&ready] { ++ready; });
  queue.Push(std::make_shared<const std::string>("a"));
  queue.End();
  EXPECT_EQ(ready, 2);
  bool ended = false;
  EXPECT_EQ(*queue.Pop(&ended), "a");
  EXPECT_TRUE(ended);
  EXPECT_EQ(queue.Pop(&ended), nullptr);
  EXPECT_TRUE(ended);
}

// A delta of one fragment, its average all `value`.
std::shared_ptr<const PublishedDelta> Delta(int fragment, int64_t round, uint64_t elements, float value,
                                            const std::vector<Settled>& settled = {}) {
  const Codec* codec = FindCodec("fp32");
  MergeResult merged;
  merged.encoded.resize(codec->encoded_bytes(elements));
  codec->encode(std::vector<float>(elements, value), kNearest, absl::MakeSpan(merged.encoded));
  merged.digest = DigestOf(merged.encoded);
  const DeltaHeader header{
      .run_id = "test", .fragment = fragment, .round = round, .codec = codec, .elements = elements};
  return BuildDelta(header, EncodeAverage(header, merged), {.scalars = {.rate = 1}, .settled = settled});
}

TEST(PublicationTest, LargeAveragesTravelInWholeChunksAndComeBack) {
  const uint64_t elements = kMaxChunkBytes / 4 + 3;
  const auto delta = Delta(0, 7, elements, 1.5F);
  EXPECT_EQ(delta->commit.chunk_count(), 2U);
  ASSERT_EQ(delta->messages.size(), 4U);  // Two chunks, the list, the commit record.
  v1::SubscribeResponse last;
  ASSERT_TRUE(last.ParseFromString(delta->messages.back()));
  EXPECT_EQ(last.commit().round(), 7);
  const auto average = DecodeDelta(*delta, *FindCodec("fp32"), elements);
  ASSERT_TRUE(average.ok()) << average.status();
  EXPECT_EQ(*average, std::vector<float>(elements, 1.5F));
}

TEST(PublicationTest, DamageIsDataLoss) {
  const auto damaged = [](const std::function<void(PublishedDelta*)>& damage) {
    PublishedDelta delta = *Delta(0, 0, 5, 1.5F);
    damage(&delta);
    return DecodeDelta(delta, *FindCodec("fp32"), 5).status().code();
  };
  EXPECT_EQ(damaged([](PublishedDelta*) {}), absl::StatusCode::kOk);
  EXPECT_EQ(damaged([](PublishedDelta* d) { d->messages.erase(d->messages.begin()); }), absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged([](PublishedDelta* d) { d->messages[0] = "x"; }), absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged([](PublishedDelta* d) { d->messages[0] = Delta(0, 0, 5, 2.5F)->messages[0]; }),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged([](PublishedDelta* d) { d->messages[0] = Delta(0, 0, 4, 1.5F)->messages[0]; }),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(damaged([](PublishedDelta* d) { d->commit.set_codec("bf16"); }), absl::StatusCode::kDataLoss);
}

TEST(DeltaLogTest, SendsFromTheRoundsAskedForInCommitOrder) {
  DeltaLog log(2, 3);
  for (const auto& [fragment, round] : std::vector<std::pair<int, int64_t>>{{0, 3}, {1, 3}, {0, 4}, {0, 5}, {1, 4}}) {
    log.Publish(Delta(fragment, round, 1, 0));
  }
  const auto queue = std::make_shared<DeltaQueue>(1000, "resync", [] {});
  bool accepted = false;
  ASSERT_TRUE(log.Subscribe(kWorker, {4, 3}, queue, [&accepted] { accepted = true; }).ok());
  EXPECT_TRUE(accepted);
  log.Publish(Delta(1, 5, 1, 0));
  std::vector<std::pair<int, int64_t>> commits;
  bool ended = false;
  while (const auto bytes = queue->Pop(&ended)) {
    v1::SubscribeResponse message;
    ASSERT_TRUE(message.ParseFromString(*bytes));
    if (message.has_commit()) {
      commits.emplace_back(message.commit().fragment(), message.commit().round());
    }
  }
  EXPECT_THAT(commits, ::testing::ElementsAre(std::pair{1, 3}, std::pair{0, 4}, std::pair{0, 5}, std::pair{1, 4},
                                              std::pair{1, 5}));
  log.DropBefore(5);
  EXPECT_EQ(log.Subscribe(kWorker, {5, 4}, queue, [] {}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(log.Subscribe(kWorker, {5, 7}, queue, [] {}).code(), absl::StatusCode::kOutOfRange);
}

TEST(RoundLogTest, KeepsSummariesWhenDetailsAreGone) {
  RoundLog log(1, 2);
  const std::vector<Settled> settled = {
      {{kWorker, 0, 0}, {1, 1}, Settlement::kMerged, 1},
      {{"north", 0, 1}, {1, 1}, Settlement::kDroppedRefused, 0},
      {{"west", 0, 1}, {1, 1}, Settlement::kMerged, 1},
  };
  const RoundView view{.fragment = 0, .round = 1, .opened = {0}, .reason = "all present", .abstained = {"south"}};
  log.Add(*Delta(0, 1, 1, 0, settled), view, 2.5, MonotonicTime{3'000'000'000});
  auto round = log.Describe({}, 1, MonotonicTime{9'000'000'000});
  ASSERT_TRUE(round.has_value());
  EXPECT_EQ(round->summary().merged(), 2U);
  EXPECT_EQ(round->summary().merged_late(), 1U);
  EXPECT_EQ(round->summary().dropped(), 1U);
  EXPECT_EQ(round->summary().workers_present(), 1U);  // "west"; "east" was late.
  EXPECT_EQ(round->summary().elapsed().seconds(), 3);
  EXPECT_EQ(round->fragments(0).average_norm(), 2.5);
  EXPECT_THAT(round->fragments(0).abstained(), ::testing::ElementsAre("south"));
  log.DropDetailsBefore(2);
  EXPECT_FALSE(log.Describe({}, 1, MonotonicTime{}).has_value());
  ASSERT_EQ(log.List({}, MonotonicTime{}, 10).size(), 1U);
  EXPECT_EQ(log.List({}, MonotonicTime{}, 10)[0].reason(), "all present");
  for (int64_t next = 2; next < 2 + static_cast<int64_t>(kMaxRoundSummaries); ++next) {
    log.AddRecovered(*Delta(0, next, 1, 0));
  }
  const auto rounds = log.List({}, MonotonicTime{}, 2000);
  ASSERT_EQ(rounds.size(), kMaxRoundSummaries);
  EXPECT_EQ(rounds.back().round(), 2);
}

TEST(MailboxTest, RequestsAreBoundedAndCompletionsAreNot) {
  Mailbox mailbox(1);
  int run = 0;
  EXPECT_TRUE(mailbox.Offer([&run] { ++run; }).ok());
  EXPECT_EQ(mailbox.Offer([&run] { ++run; }).code(), absl::StatusCode::kResourceExhausted);
  mailbox.Post([&run] { ++run; });
  mailbox.Close(absl::UnavailableError("gone"));
  EXPECT_EQ(mailbox.Offer([] {}).code(), absl::StatusCode::kUnavailable);
  for (const Mailbox::Task& task : mailbox.TakeUntil(std::chrono::steady_clock::now())) {
    task();
  }
  EXPECT_EQ(run, 2);
  EXPECT_TRUE(mailbox.empty());
}

TEST(PendingReplyTest, AnswersOnceAndAlways) {
  std::vector<absl::StatusCode> answers;
  const auto record = [&answers](absl::StatusOr<int> answer) { answers.push_back(answer.status().code()); };
  {
    const PendingReply<int> given(record);
    given(1);
    given(absl::AbortedError("again"));
    const PendingReply<int> dropped(record);
    const PendingReply<int> copy = dropped;
  }
  EXPECT_THAT(answers, ::testing::ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kUnavailable));
}

TEST(WireTest, ReasonsAreCutBetweenCharacters) {
  EXPECT_EQ(BoundedReason("short"), "short");
  std::string text(kMaxReasonBytes - 1, 'a');
  EXPECT_EQ(BoundedReason(text + "bc"), text + "b");
  EXPECT_EQ(BoundedReason(text + "\xC3\xA9"), text);  // An e with an accent, in two bytes.
  EXPECT_EQ(DurationToProto(absl::Seconds(-1)).seconds(), 0);
  EXPECT_EQ(DurationToProto(absl::Milliseconds(1500)).nanos(), 500'000'000);
}

}  // namespace
}  // namespace diloco
