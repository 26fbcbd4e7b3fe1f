// Contributions on their way in: chunks in any order and more than once, and everything that is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/coordinator/driver/hand_worker.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

// A seeded run whose two workers have joined.
struct TwoWorkers {
  TwoWorkers()
      : coordinator(RunYaml(2, 3, "fp32", "fp32")), east(&coordinator, "east", 1), west(&coordinator, "west", 2) {
    EXPECT_TRUE(coordinator.Start().ok());
    EXPECT_TRUE(east.Join().ok());
    EXPECT_TRUE(east.Seed(std::vector<float>(11, 1.0F)).ok());
    EXPECT_TRUE(west.Join().ok());
  }

  // What a round of a fragment settled, and its average, from the messages that a subscriber gets.
  std::pair<v1::SettledList, std::vector<float>> Published(int fragment, int64_t round) {
    const auto queue = east.Subscribe({0, 0});
    EXPECT_TRUE(queue.ok());
    bool ended = false;
    std::string encoded;
    for (const v1::SubscribeResponse& message : Drain(queue->get(), &ended)) {
      if (message.has_chunk() && message.chunk().fragment() == static_cast<uint32_t>(fragment) &&
          message.chunk().round() == round) {
        encoded += message.chunk().payload();
      }
      if (message.has_settled() && message.settled().fragment() == static_cast<uint32_t>(fragment) &&
          message.settled().round() == round) {
        std::vector<float> values(encoded.size() / sizeof(float));
        std::memcpy(values.data(), encoded.data(), encoded.size());
        return {message.settled(), values};
      }
    }
    return {};
  }

  Coordinator coordinator;
  HandWorker east;
  HandWorker west;
};

class DriverUploadTest : public ::testing::Test {
 protected:
  TwoWorkers run_;
  Coordinator& coordinator_ = run_.coordinator;
  HandWorker& east_ = run_.east;
  HandWorker& west_ = run_.west;
};

TEST_F(DriverUploadTest, ChunksComeInAnyOrderAndMoreThanOnce) {
  const std::vector<v1::UploadRequest> chunks = east_.Chunks(0, 0, 3);  // 20 bytes in chunks of 8.
  ASSERT_EQ(chunks.size(), 3U);
  auto response = east_.Upload(chunks[2]);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->verdict(), v1::CONTRIBUTION_VERDICT_UNSPECIFIED);
  ASSERT_EQ(response->held_size(), 1);
  EXPECT_EQ(response->held(0).first(), 2U);
  EXPECT_EQ(response->held(0).end(), 3U);
  response = east_.Upload(chunks[0]);
  EXPECT_EQ(response->held_size(), 2);
  response = east_.Upload(chunks[0]);
  EXPECT_EQ(response->held_size(), 2);
  response = east_.Upload(HandWorker::Query(chunks[1]));  // After a reconnect: what is missing?
  ASSERT_EQ(response->held_size(), 2);
  EXPECT_EQ(response->held(0).end(), 1U);
  EXPECT_EQ(response->held(1).first(), 2U);
  response = east_.Upload(chunks[1]);
  EXPECT_EQ(response->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  EXPECT_EQ(response->held_size(), 0);
  EXPECT_EQ(east_.Upload(chunks[0])->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  EXPECT_EQ(east_.Upload(HandWorker::Query(chunks[0]))->verdict(), v1::CONTRIBUTION_VERDICT_STORED);

  ASSERT_EQ(west_.Contribute(0, 0, 5)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  const auto [settled, average] = run_.Published(0, 0);
  EXPECT_EQ(settled.settled_size(), 2);
  EXPECT_THAT(average, ::testing::Each(4.0F));
  EXPECT_EQ(east_.Upload(chunks[0])->verdict(), v1::CONTRIBUTION_VERDICT_SETTLED);
}

TEST_F(DriverUploadTest, AChunkThatArrivesDuringTheCheckWaitsForTheVerdict) {
  const std::vector<v1::UploadRequest> chunks = east_.Chunks(0, 0, 3);
  ASSERT_TRUE(east_.Upload(chunks[0]).ok());
  ASSERT_TRUE(east_.Upload(chunks[1]).ok());
  Answer<v1::UploadResponse> last;
  Answer<v1::UploadResponse> repeated;
  Answer<v1::UploadResponse> query;
  coordinator_.driver->Upload(chunks[2], Into(&last));
  coordinator_.driver->Upload(chunks[2], Into(&repeated));
  coordinator_.driver->Upload(HandWorker::Query(chunks[2]), Into(&query));
  coordinator_.PumpDriver();
  EXPECT_FALSE(last->has_value());  // The check has not run yet.
  EXPECT_FALSE(repeated->has_value());
  coordinator_.Pump();
  for (const auto& answer : {last, repeated, query}) {
    ASSERT_TRUE(answer->has_value());
    EXPECT_EQ((*answer)->value().verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  }
}

// Refused for its content: settled as dropped, and the round goes on with the other worker.
TEST_F(DriverUploadTest, ContentThatIsWrongIsRefusedAndTheRoundGoesOn) {
  struct Case {
    std::string what;
    std::function<void(v1::UploadRequest*)> spoil;
  };
  const std::vector<Case> cases = {
      {"codec", [](v1::UploadRequest* r) { r->set_codec("int8"); }},
      {"another layout", [](v1::UploadRequest* r) { r->mutable_layout_digest()->set_value(std::string(16, 'x')); }},
      {"24 bytes", [](v1::UploadRequest* r) { r->set_contribution_bytes(24); }},
      {"6 elements", [](v1::UploadRequest* r) { r->set_element_count(6); }},
      {"weight", [](v1::UploadRequest* r) { r->set_weight(0); }},
      {"weight", [](v1::UploadRequest* r) { r->set_weight(std::numeric_limits<double>::infinity()); }},
      {"weight", [](v1::UploadRequest* r) { r->set_weight(1e300); }},
      {"digest", [](v1::UploadRequest* r) { r->clear_contribution_digest(); }},
      {"chunks", [](v1::UploadRequest* r) { r->set_chunk_bytes(0); }},
  };
  for (const Case& c : cases) {
    TwoWorkers fresh;
    v1::UploadRequest chunk = fresh.east.Chunks(0, 0, 3)[0];
    c.spoil(&chunk);
    const auto response = fresh.east.Upload(chunk);
    ASSERT_TRUE(response.ok()) << response.status();
    EXPECT_EQ(response->verdict(), v1::CONTRIBUTION_VERDICT_REFUSED) << c.what;
    EXPECT_THAT(response->reason(), HasSubstr(c.what));
    ASSERT_EQ(fresh.west.Contribute(0, 0, 5)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
    const auto [settled, average] = fresh.Published(0, 0);
    ASSERT_EQ(settled.settled_size(), 2);
    EXPECT_EQ(settled.settled(0).id().worker_id(), "east");
    EXPECT_EQ(settled.settled(0).settlement(), v1::SETTLEMENT_DROPPED_REFUSED);
    EXPECT_EQ(settled.settled(1).settlement(), v1::SETTLEMENT_MERGED);
    EXPECT_THAT(average, ::testing::Each(5.0F));
  }
}

TEST_F(DriverUploadTest, ValuesThatAreNotFiniteOrOtherThanAnnouncedAreRefused) {
  const auto refused = [](HandWorker* worker, const std::vector<v1::UploadRequest>& chunks) {
    absl::StatusOr<v1::UploadResponse> response = absl::UnknownError("");
    for (const v1::UploadRequest& chunk : chunks) {
      response = worker->Upload(chunk);
    }
    EXPECT_EQ(response->verdict(), v1::CONTRIBUTION_VERDICT_REFUSED);
    return response->reason();
  };
  EXPECT_THAT(refused(&east_, east_.Chunks(0, 0, std::numeric_limits<float>::quiet_NaN())), HasSubstr("finite"));
  EXPECT_THAT(refused(&east_, east_.Chunks(1, 0, 3e38F)), HasSubstr("norm"));
  EXPECT_EQ(east_.Upload(east_.Chunks(0, 0, 3)[0])->verdict(), v1::CONTRIBUTION_VERDICT_REFUSED);
  std::vector<v1::UploadRequest> chunks = west_.Chunks(0, 0, 3);
  for (v1::UploadRequest& chunk : chunks) {
    chunk.mutable_contribution_digest()->set_value(std::string(16, 'x'));
  }
  EXPECT_THAT(refused(&west_, chunks), HasSubstr("digest"));
  EXPECT_EQ(coordinator_.observer.verdicts[Verdict::kRefused], 3);
  // Nobody has anything for round 0 of fragment 0: it closes with a zero average.
  const auto [settled, average] = run_.Published(0, 0);
  EXPECT_EQ(settled.settled_size(), 2);
  EXPECT_THAT(average, ::testing::Each(0.0F));
}

// What was queued behind the failure: an upload of what is held already, and a checkpoint that nobody will write.
TEST_F(DriverUploadTest, WhatWaitsWhenTheStoreFailsIsAnswered) {
  ASSERT_EQ(east_.Contribute(0, 0, 3)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  const std::vector<v1::UploadRequest> chunks = west_.Chunks(0, 0, 5);
  std::vector<Answer<v1::UploadResponse>> answers(chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i) {
    coordinator_.driver->Upload(chunks[i], Into(&answers[i]));
  }
  coordinator_.PumpDriver();
  while (coordinator_.disk.size() == 0) {  // Until the commit is on its way to the disk.
    ASSERT_TRUE(coordinator_.pool.RunOne());
    coordinator_.PumpDriver();
  }
  coordinator_.files.Fail("sync ", 0, 1, absl::UnknownError("the disk is gone"));
  ASSERT_TRUE(coordinator_.disk.RunOne());
  Answer<v1::UploadResponse> repeated;
  Answer<v1::SaveCheckpointResponse> save;
  coordinator_.driver->Upload(east_.Chunks(0, 0, 3)[0], Into(&repeated));
  coordinator_.driver->SaveCheckpoint(v1::SaveCheckpointRequest(), Into(&save));
  coordinator_.PumpDriver();
  EXPECT_EQ(coordinator_.observer.fatal.code(), absl::StatusCode::kDataLoss);
  ASSERT_TRUE(repeated->has_value());
  EXPECT_EQ((*repeated)->status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(save->has_value());
  EXPECT_EQ((*save)->status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(DriverUploadTest, OtherBytesForWhatIsHeldAreRefused) {
  ASSERT_EQ(east_.Contribute(0, 0, 3)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  const auto other = east_.Upload(east_.Chunks(0, 0, 4)[0]);
  EXPECT_EQ(other->verdict(), v1::CONTRIBUTION_VERDICT_REFUSED);
  ASSERT_EQ(west_.Contribute(0, 0, 5)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  EXPECT_THAT(run_.Published(0, 0).second, ::testing::Each(4.0F));  // Of 3 and 5.
}

TEST_F(DriverUploadTest, RequestsThatMakeNoSenseAreErrors) {
  const v1::UploadRequest good = east_.Chunks(0, 0, 3)[0];
  const auto code = [&](const std::function<void(v1::UploadRequest*)>& spoil) {
    v1::UploadRequest request = good;
    spoil(&request);
    return east_.Upload(request).status().code();
  };
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_run_id("other"); }), absl::StatusCode::kNotFound);
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_incarnation(99); }), absl::StatusCode::kAborted);
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_worker_id("north"); }), absl::StatusCode::kAborted);
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_fragment(2); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_fragment(0xFFFFFFFF); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_round(-1); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_round(3); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_chunk_index(3); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_payload("short"); }), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_payload(std::string(kMaxChunkBytes + 1, 'x')); }),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(east_.Upload(good).ok());
  EXPECT_EQ(code([](v1::UploadRequest* r) { r->set_weight(2); }), absl::StatusCode::kInvalidArgument);
}

TEST_F(DriverUploadTest, ARoundThatIsNotOpenYetIsTooEarly) {
  const auto response = east_.Upload(east_.Chunks(0, 1, 3)[0]);
  ASSERT_TRUE(response.ok());
  EXPECT_EQ(response->verdict(), v1::CONTRIBUTION_VERDICT_TOO_EARLY);
  EXPECT_THAT(response->reason(), HasSubstr("round 1"));
}

// Several rounds of a fragment are open at once with overlap: they fill in any order and are published in order.
TEST(DriverOverlapTest, RoundsThatFillOutOfOrderArePublishedInOrder) {
  Coordinator coordinator(
      "run: {id: test, workers: 2, rounds: 5}\n"
      "method: eager\n"
      "inner_steps: 4\n"
      "fragments: {count: 2}\nwire: {uplink: fp32, downlink: fp32}\n");
  ASSERT_TRUE(coordinator.Start().ok());
  HandWorker east(&coordinator, "east", 1);
  HandWorker west(&coordinator, "west", 2);
  ASSERT_TRUE(east.Join().ok());
  ASSERT_TRUE(east.Seed(std::vector<float>(11, 1.0F)).ok());
  ASSERT_TRUE(west.Join().ok());
  const auto queue = east.Subscribe({0, 0});
  for (const int64_t round : {2, 0, 1}) {  // Overlap of one round, one more late: three are open.
    for (HandWorker* worker : {&east, &west}) {
      for (const int fragment : {1, 0}) {
        EXPECT_EQ(worker->Contribute(fragment, round, static_cast<float>(round))->verdict(),
                  v1::CONTRIBUTION_VERDICT_STORED);
      }
    }
  }
  bool ended = false;
  std::map<uint32_t, std::vector<int64_t>> rounds;
  for (const v1::SubscribeResponse& message : Drain(queue->get(), &ended)) {
    if (message.has_commit()) {
      rounds[message.commit().fragment()].push_back(message.commit().round());
    }
  }
  EXPECT_THAT(rounds[0], ::testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(rounds[1], ::testing::ElementsAre(0, 1, 2));
}

TEST_F(DriverUploadTest, ANewIncarnationStartsItsUploadAnew) {
  const std::vector<v1::UploadRequest> chunks = east_.Chunks(0, 0, 3);
  ASSERT_EQ(east_.Upload(chunks[0])->held_size(), 1);
  coordinator_.clock.Advance(absl::Seconds(25));  // Beyond the lease.
  ASSERT_TRUE(west_.Upload(west_.Chunks(0, 0, 5)[0]).ok());
  HandWorker again(&coordinator_, "east", 7);
  ASSERT_TRUE(again.Join().ok());
  EXPECT_EQ(again.Upload(HandWorker::Query(again.Chunks(0, 0, 3)[0]))->held_size(), 0);
  EXPECT_EQ(east_.Upload(chunks[1]).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(again.Contribute(0, 0, 3)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
}

}  // namespace
}  // namespace diloco
