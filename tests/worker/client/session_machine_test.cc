#include "worker/client/session_machine.h"

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace diloco {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string Text(const SessionEffect& effect) {
  if (const auto* e = std::get_if<OpenSession>(&effect)) {
    return absl::StrFormat("open #%d", e->call);
  }
  if (const auto* e = std::get_if<SendHeartbeat>(&effect)) {
    return absl::StrFormat("heartbeat #%d", e->call);
  }
  if (const auto* e = std::get_if<CancelSession>(&effect)) {
    return absl::StrFormat("cancel #%d", e->call);
  }
  return "join";
}

class SessionMachineTest : public testing::Test {
 protected:
  std::vector<std::string> Step(const SessionEvent& event) {
    std::vector<std::string> texts;
    for (const SessionEffect& effect : machine_.Step(event, now_)) {
      texts.push_back(Text(effect));
    }
    return texts;
  }
  std::vector<std::string> Pass(absl::Duration time) {
    now_ = now_ + time;
    return Step(SessionTimePassed{});
  }
  void Open() { ASSERT_THAT(Pass(absl::ZeroDuration()), ElementsAre("open #1", "heartbeat #1")); }

  MonotonicTime now_{1};
  SessionMachine machine_{{.heartbeat_interval = absl::Seconds(2),
                           .lease = absl::Seconds(20),
                           .backoff = {.first = absl::Seconds(1), .longest = absl::Seconds(1)}}};
};

TEST_F(SessionMachineTest, HeartbeatsAtTheInterval) {
  Open();
  EXPECT_FALSE(machine_.connected());
  EXPECT_THAT(Step(SessionHeard{1}), IsEmpty());
  EXPECT_TRUE(machine_.connected());
  EXPECT_EQ(machine_.next_wake(), now_ + absl::Seconds(2));
  EXPECT_THAT(Pass(absl::Milliseconds(1999)), IsEmpty());
  EXPECT_THAT(Pass(absl::Milliseconds(1)), ElementsAre("heartbeat #1"));
  EXPECT_THAT(Step(HeartbeatWanted{}), ElementsAre("heartbeat #1"));
  EXPECT_THAT(Pass(absl::Milliseconds(1999)), IsEmpty());
}

TEST_F(SessionMachineTest, BrokenSessionOpensAgainWithoutJoining) {
  Open();
  Step(SessionHeard{1});
  EXPECT_THAT(Step(SessionClosed{1, absl::StatusCode::kUnavailable}), IsEmpty());
  EXPECT_FALSE(machine_.connected());
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("open #2", "heartbeat #2"));
  EXPECT_EQ(machine_.reconnects(), 0) << "not heard yet";
  Step(SessionHeard{2});
  EXPECT_EQ(machine_.reconnects(), 1);
  EXPECT_THAT(Step(SessionClosed{1, absl::StatusCode::kAborted}), IsEmpty()) << "of the older call";
}

TEST_F(SessionMachineTest, SilentSessionIsOpenedAgainAfterALease) {
  Open();
  for (int i = 0; i < 9; ++i) {
    EXPECT_THAT(Pass(absl::Seconds(2)), ElementsAre("heartbeat #1"));
  }
  EXPECT_THAT(Pass(absl::Seconds(2)), ElementsAre("cancel #1"));
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("open #2", "heartbeat #2"));
}

TEST_F(SessionMachineTest, AfterALongOutageASessionOpensAgainWithinASecond) {
  machine_ = SessionMachine({.heartbeat_interval = absl::Seconds(2), .lease = absl::Seconds(20)});
  Open();
  for (int i = 0; i < 90; ++i) {  // Half an hour.
    Pass(absl::Seconds(20));
    const MonotonicTime open_at = machine_.next_wake();
    EXPECT_LE(open_at - now_, absl::Seconds(1));
    EXPECT_THAT(Pass(open_at - now_), testing::SizeIs(2));
  }
}

TEST_F(SessionMachineTest, ForgottenMemberJoinsAgain) {
  Open();
  Step(SessionClosed{1, absl::StatusCode::kAborted});
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("join"));
  EXPECT_THAT(Step(RejoinAnswered{absl::UnavailableError("gone")}), IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("join"));
  EXPECT_THAT(Step(RejoinAnswered{absl::OkStatus()}), ElementsAre("open #2", "heartbeat #2"));
  EXPECT_TRUE(machine_.refused().ok());
}

// The session's end has no sentence, the answer to a join has.
TEST_F(SessionMachineTest, AnEvictedMemberLearnsWhyByJoining) {
  Open();
  Step(SessionClosed{1, absl::StatusCode::kPermissionDenied});
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("join"));
  Step(RejoinAnswered{absl::PermissionDeniedError("evicted")});
  EXPECT_EQ(machine_.refused(), absl::PermissionDeniedError("evicted"));
}

TEST_F(SessionMachineTest, RefusalIsFinal) {
  for (const auto& refusal : {absl::NotFoundError("x"), absl::AlreadyExistsError("x"), absl::InvalidArgumentError("x"),
                              absl::FailedPreconditionError("x"), absl::PermissionDeniedError("x")}) {
    machine_ = SessionMachine({.backoff = {.first = absl::Seconds(1), .longest = absl::Seconds(1)}});
    Open();
    Step(SessionClosed{1, absl::StatusCode::kAborted});
    Pass(absl::Seconds(1));
    EXPECT_THAT(Step(RejoinAnswered{refusal}), IsEmpty());
    EXPECT_EQ(machine_.refused(), refusal);
    EXPECT_THAT(Pass(absl::Hours(1)), IsEmpty());
    EXPECT_GT(machine_.next_wake(), now_);
  }
}

}  // namespace
}  // namespace diloco
