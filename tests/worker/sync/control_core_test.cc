// The control thread's decisions, one event at a time, without threads or a network.
#include "worker/sync/control_core.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/limits.h"

namespace diloco {
namespace {

using testing::SizeIs;

class RecordingNetwork final : public ControlNetwork {
 public:
  void OpenSession(uint64_t call) override { opened.push_back(call); }
  void Send(uint64_t, v1::SessionRequest request) override { sent.push_back(std::move(request)); }
  void CancelSession(uint64_t call) override { cancelled.push_back(call); }
  void Join(v1::JoinRequest request) override { joins.push_back(std::move(request)); }

  std::vector<uint64_t> opened;
  std::vector<uint64_t> cancelled;
  std::vector<v1::SessionRequest> sent;
  std::vector<v1::JoinRequest> joins;
};

class TestClock final : public Clock {
 public:
  MonotonicTime Now() const override { return now; }
  MonotonicTime now{1};
};

ControlCore::Options MakeOptions() {
  ControlCore::Options options;
  options.join.set_run_id("test");
  options.join.set_worker_id("w");
  options.join.set_incarnation(7);
  options.joined.mutable_heartbeat_interval()->set_seconds(2);
  options.joined.mutable_lease()->set_seconds(20);
  options.joined.mutable_directive()->set_state(v1::RUN_STATE_TRAINING);
  return options;
}

v1::Evaluation EvaluationOf(int64_t version) {
  v1::Evaluation evaluation;
  evaluation.set_version(version);
  return evaluation;
}

class ControlCoreTest : public testing::Test {
 protected:
  ControlCoreTest() { core_.HandleTime(clock_.now); }

  void Pass(absl::Duration time) {
    clock_.now = clock_.now + time;
    if (core_.next_wake() <= clock_.now) core_.HandleTime(clock_.now);
  }
  void Handle(ControlEvent event) { core_.Handle(std::move(event), clock_.now); }
  void Written() { Handle(HeartbeatWritten{network_.opened.back()}); }
  void Answer(const std::function<void(v1::Directive*)>& fill) {
    SessionAnswered event{.call = network_.opened.back()};
    event.response.mutable_directive()->set_state(v1::RUN_STATE_TRAINING);
    event.response.mutable_directive()->set_evaluated_version(-1);
    fill(event.response.mutable_directive());
    Handle(std::move(event));
  }

  TestClock clock_;
  RecordingNetwork network_;
  Exchange exchange_{{.coordinator = "host:1"}, &clock_};
  StatusBoard board_;
  ControlCore core_{MakeOptions(), &exchange_, &board_, &network_};
};

TEST_F(ControlCoreTest, OpensASessionAndReportsAtOnceThenByTheInterval) {
  EXPECT_THAT(network_.opened, SizeIs(1));
  ASSERT_THAT(network_.sent, SizeIs(1));
  EXPECT_EQ(network_.sent[0].worker_id(), "w");
  EXPECT_EQ(network_.sent[0].incarnation(), 7u);
  EXPECT_FALSE(network_.sent[0].leaving());
  Written();
  Pass(absl::Seconds(1));
  EXPECT_THAT(network_.sent, SizeIs(1));
  Pass(absl::Seconds(1));
  EXPECT_THAT(network_.sent, SizeIs(2));
}

TEST_F(ControlCoreTest, OneHeartbeatIsOnItsWayAtATime) {
  Handle(HeartbeatWanted{});
  Handle(HeartbeatWanted{});
  EXPECT_THAT(network_.sent, SizeIs(1));
  Written();
  EXPECT_THAT(network_.sent, SizeIs(2));
  Written();
  EXPECT_THAT(network_.sent, SizeIs(2));
}

TEST_F(ControlCoreTest, AnOlderSessionsWriteFreesNothing) {
  const uint64_t old = network_.opened.back();
  Handle(SessionClosed{old, absl::StatusCode::kUnavailable});
  Pass(absl::Seconds(1));
  ASSERT_THAT(network_.opened, SizeIs(2));
  ASSERT_THAT(network_.sent, SizeIs(2));
  Handle(HeartbeatWanted{});
  Handle(HeartbeatWritten{old});
  EXPECT_THAT(network_.sent, SizeIs(2));
}

TEST_F(ControlCoreTest, RepeatsEvaluationsUntilTheyAreHeldAndKeepsTheNewest) {
  Written();
  for (int64_t version = 1; version <= static_cast<int64_t>(kMaxEvaluationsPerHeartbeat) + 2; ++version) {
    Handle(EvaluationMade{EvaluationOf(version)});
    Written();
  }
  ASSERT_EQ(network_.sent.back().evaluations_size(), static_cast<int>(kMaxEvaluationsPerHeartbeat));
  EXPECT_EQ(network_.sent.back().evaluations(0).version(), 3);
  Answer([](v1::Directive* directive) { directive->set_evaluated_version(17); });
  Handle(HeartbeatWanted{});
  ASSERT_EQ(network_.sent.back().evaluations_size(), 1);
  EXPECT_EQ(network_.sent.back().evaluations(0).version(), 18);
}

TEST_F(ControlCoreTest, LeavesWhenTold) {
  Written();
  Handle(LeaveWanted{});
  EXPECT_TRUE(network_.sent.back().leaving());
  EXPECT_FALSE(core_.may_leave());
  Answer([](v1::Directive* directive) { directive->set_leave(true); });
  EXPECT_TRUE(core_.may_leave());
}

TEST_F(ControlCoreTest, LeavesWhenTheCoordinatorIsGoneAfterTheLastReport) {
  Handle(LeaveWanted{});  // Not sent yet: the first heartbeat is still being written.
  Handle(SessionClosed{network_.opened.back(), absl::StatusCode::kUnavailable});
  EXPECT_FALSE(core_.may_leave());
  Pass(absl::Seconds(1));
  Handle(SessionClosed{network_.opened.back(), absl::StatusCode::kUnavailable});
  EXPECT_TRUE(core_.may_leave());
}

TEST_F(ControlCoreTest, DoesNotLeaveWithAnEvaluationThatNobodyHolds) {
  Written();
  Handle(EvaluationMade{EvaluationOf(3)});
  Written();
  Handle(LeaveWanted{});
  Handle(SessionClosed{network_.opened.back(), absl::StatusCode::kUnavailable});
  EXPECT_FALSE(core_.may_leave());
}

TEST_F(ControlCoreTest, JoinsAgainWhenItIsNoMemberAndTakesTheAnswersDirective) {
  Handle(SessionClosed{network_.opened.back(), absl::StatusCode::kAborted});
  Pass(absl::Seconds(1));
  ASSERT_THAT(network_.joins, SizeIs(1));
  EXPECT_EQ(network_.joins[0].incarnation(), 7u);
  v1::Directive directive;
  directive.set_evaluate(true);
  Handle(JoinAnswered{absl::OkStatus(), directive});
  EXPECT_TRUE(exchange_.evaluator());
  EXPECT_THAT(network_.opened, SizeIs(2));
  EXPECT_EQ(exchange_.Check(), absl::OkStatus());
}

TEST_F(ControlCoreTest, WhereTheConsensusIsAnotherOneThatHeldNothingBeginsAnew) {
  Handle(SessionClosed{network_.opened.back(), absl::StatusCode::kAborted});
  Pass(absl::Seconds(1));
  ASSERT_FALSE(network_.joins.at(0).has_held());
  Handle(JoinAnswered{absl::OkStatus(), {}, /*generation=*/1});
  EXPECT_EQ(exchange_.Check(),
            absl::AbortedError("the coordinator has another consensus than when this worker joined"));
}

TEST_F(ControlCoreTest, WhatAWorkerHoldsTheCoordinatorHasCompared) {
  board_.Update([](WorkerStatus& status) { status.held = {3}; });
  Handle(SessionClosed{network_.opened.back(), absl::StatusCode::kAborted});
  Pass(absl::Seconds(1));
  ASSERT_TRUE(network_.joins.at(0).has_held());
  Handle(JoinAnswered{absl::OkStatus(), {}, /*generation=*/1});
  EXPECT_EQ(exchange_.Check(), absl::OkStatus());
}

TEST_F(ControlCoreTest, ARefusalForGoodEndsTheWorker) {
  Handle(SessionClosed{network_.opened.back(), absl::StatusCode::kAborted});
  Pass(absl::Seconds(1));
  Handle(JoinAnswered{absl::AlreadyExistsError("a live worker has the id"), {}});
  EXPECT_EQ(exchange_.Check(), absl::AlreadyExistsError("a live worker has the id"));
}

TEST_F(ControlCoreTest, ADrainIsHandedOnAndItsEndIsReported) {
  Written();
  EXPECT_FALSE(network_.sent.back().has_last_round());
  EXPECT_FALSE(exchange_.draining());
  Answer([](v1::Directive* directive) { directive->set_drain(true); });
  EXPECT_TRUE(exchange_.draining());
  board_.Update([](WorkerStatus& status) { status.last_round = -1; });
  Handle(HeartbeatWanted{});
  ASSERT_TRUE(network_.sent.back().has_last_round());
  EXPECT_EQ(network_.sent.back().last_round(), -1);
}

TEST_F(ControlCoreTest, ASuspensionIsReported) {
  Written();
  EXPECT_FALSE(network_.sent.back().suspending());
  board_.Update([](WorkerStatus& status) { status.suspending = true; });
  Handle(HeartbeatWanted{});
  EXPECT_TRUE(network_.sent.back().suspending());
}

TEST(ControlCoreDrainTest, AJoinMayBringTheDrain) {
  TestClock clock;
  RecordingNetwork network;
  Exchange exchange({.coordinator = "host:1"}, &clock);
  StatusBoard board;
  ControlCore::Options options = MakeOptions();
  options.joined.mutable_directive()->set_drain(true);
  const ControlCore core(options, &exchange, &board, &network);
  EXPECT_TRUE(exchange.draining());
}

TEST_F(ControlCoreTest, ASilentSessionIsCancelledAndOpenedAgain) {
  Written();
  Pass(absl::Seconds(21));
  EXPECT_THAT(network_.cancelled, SizeIs(1));
  Pass(absl::Seconds(1));
  EXPECT_THAT(network_.opened, SizeIs(2));
}

}  // namespace
}  // namespace diloco
