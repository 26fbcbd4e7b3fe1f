// Who watches the events: in order, from where it was, and with a gap rather than a wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "diloco/v1/admin.grpc.pb.h"
#include "tests/coordinator/service/service_fixture.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EventsTest : public ServiceTest {
 protected:
  using Reader = grpc::ClientReader<v1::WatchEventsResponse>;

  void Add(int count) {
    for (int i = 0; i < count; ++i) {
      v1::Event event;
      event.set_text(absl::StrCat("event ", ++added_));
      events_.Add(std::move(event));
    }
  }
  // Without `follow`: all there is; each as "[missed] number".
  std::vector<std::string> Read(const v1::WatchEventsRequest& request, grpc::Status* status = nullptr) {
    grpc::ClientContext context;
    SetDeadline(&context);
    const std::unique_ptr<Reader> reader = Stub()->WatchEvents(&context, request);
    std::vector<std::string> lines;
    v1::WatchEventsResponse response;
    while (reader->Read(&response)) {
      EXPECT_EQ(response.run_id(), "r1");
      EXPECT_EQ(response.event().log_id(), 7U);
      EXPECT_EQ(response.event().text(), absl::StrCat("event ", response.event().number()));
      lines.push_back(absl::StrCat(response.missed() > 0 ? absl::StrCat("[", response.missed(), "] ") : "",
                                   response.event().number()));
    }
    const grpc::Status finished = reader->Finish();
    if (status != nullptr) *status = finished;
    return lines;
  }
  v1::AdminService::Stub* Stub() {
    if (stub_ == nullptr) stub_ = v1::AdminService::NewStub(MakeChannel(address()));
    return stub_.get();
  }

  std::unique_ptr<v1::AdminService::Stub> stub_;
  int added_ = 0;
};

TEST_F(EventsTest, GivesWhatIsKeptAndGoesOnBehindWhatIsKnown) {
  Start();
  EXPECT_TRUE(Read({}).empty());
  Add(3);
  EXPECT_THAT(Read({}), ElementsAre("1", "2", "3"));
  v1::WatchEventsRequest request;
  request.set_after(2);
  EXPECT_THAT(Read(request), ElementsAre("3"));
  request.set_log_id(7);
  EXPECT_THAT(Read(request), ElementsAre("3"));
  // It counted another coordinator's.
  request.set_log_id(8);
  EXPECT_THAT(Read(request), ElementsAre("1", "2", "3"));
}

TEST_F(EventsTest, WhatIsNotKeptIsCounted) {
  Start();
  Add(static_cast<int>(kMaxEvents) + 5);
  v1::WatchEventsRequest request;
  request.set_after(2);
  const std::vector<std::string> lines = Read(request);
  ASSERT_EQ(lines.size(), kMaxEvents);
  EXPECT_EQ(lines.front(), "[3] 6");
  EXPECT_EQ(lines.back(), absl::StrCat(kMaxEvents + 5));
}

TEST_F(EventsTest, WhoFollowsHearsOfEachEventAndASlowOneHoldsUpNobody) {
  Start();
  Add(1);
  v1::WatchEventsRequest request;
  request.set_follow(true);
  grpc::ClientContext slow_context;
  SetDeadline(&slow_context);
  const std::unique_ptr<Reader> slow = Stub()->WatchEvents(&slow_context, request);
  grpc::ClientContext context;
  SetDeadline(&context);
  const std::unique_ptr<Reader> reader = Stub()->WatchEvents(&context, request);
  v1::WatchEventsResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.event().number(), 1U);
  // Far more than the peer's flow control takes for the slow one; the other reads each before the next.
  const std::string padding(60'000, 'x');
  for (uint64_t number = 2; number < 2 + 2 * kMaxEvents; ++number) {
    v1::Event event;
    event.set_worker_id(padding);
    events_.Add(std::move(event));
    ASSERT_TRUE(reader->Read(&response)) << number;
    ASSERT_EQ(response.event().number(), number);
    ASSERT_EQ(response.missed(), 0U);
  }
  uint64_t missed = 0;
  uint64_t last = 0;
  while (last != 1 + 2 * kMaxEvents) {
    ASSERT_TRUE(slow->Read(&response));
    EXPECT_EQ(response.event().number(), last + response.missed() + 1);
    last = response.event().number();
    missed += response.missed();
  }
  EXPECT_GT(missed, 0U);
  context.TryCancel();
  slow_context.TryCancel();
  reader->Finish();
  slow->Finish();
}

TEST_F(EventsTest, RefusesAnotherRunAndTooManyWatchers) {
  Start();
  grpc::Status status;
  v1::WatchEventsRequest other;
  other.set_run_id("r2");
  Read(other, &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  other.set_run_id("../r1");
  Read(other, &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);

  for (size_t i = 0; i < kMaxEventWatchers; ++i) {
    ASSERT_TRUE(events_.Watch(reinterpret_cast<const void*>(i + 1), [] {}));
  }
  v1::WatchEventsRequest request;
  request.set_follow(true);
  Read(request, &status);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("64 others watch"));
  events_.Unwatch(reinterpret_cast<const void*>(1));

  // One that is gone makes room.
  Add(1);
  grpc::ClientContext context;
  SetDeadline(&context);
  const std::unique_ptr<Reader> reader = Stub()->WatchEvents(&context, request);
  v1::WatchEventsResponse response;
  EXPECT_TRUE(reader->Read(&response));
  context.TryCancel();
  reader->Finish();
}

}  // namespace
}  // namespace diloco
