// Drain, evict, admit: what an operator asks of the driver, and what the worker and the disk hear of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/driver/hand_worker.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

// Two workers, a quorum of both, in round 0.
class DriverOperatorTest : public ::testing::Test {
 protected:
  DriverOperatorTest()
      : coordinator_(RunYaml(2, 8, "fp32", "fp32", "rounds: {snapshot_every: 2}\n")),
        east_(&coordinator_, "east", 1),
        west_(&coordinator_, "west", 2) {
    EXPECT_TRUE(coordinator_.Start().ok());
    EXPECT_TRUE(east_.Join().ok());
    EXPECT_TRUE(east_.Seed(std::vector<float>(11, 1.0F)).ok());
    EXPECT_TRUE(west_.Join().ok());
  }

  template <typename Request>
  static Request About(const std::string& worker) {
    Request request;
    request.set_worker_id(worker);
    return request;
  }
  auto Drain(const std::string& worker) {
    return coordinator_.Call(&Driver::DrainWorker, About<v1::DrainWorkerRequest>(worker));
  }
  auto Evict(const std::string& worker) {
    return coordinator_.Call(&Driver::EvictWorker, About<v1::EvictWorkerRequest>(worker));
  }
  auto Admit(const std::string& worker) {
    return coordinator_.Call(&Driver::AdmitWorker, About<v1::AdmitWorkerRequest>(worker));
  }
  void Contribute(HandWorker* worker, int64_t round) {
    for (int fragment = 0; fragment < 2; ++fragment) {
      const auto answer = worker->Contribute(fragment, round, 1);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_EQ(answer->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
    }
  }
  v1::WorkerSummary Summary(const std::string& worker) {
    const auto workers = coordinator_.Call(&Driver::ListWorkers, v1::ListWorkersRequest());
    for (const v1::WorkerSummary& summary : workers->workers()) {
      if (summary.worker_id() == worker) return summary;
    }
    return {};
  }
  v1::GetStatusResponse Status() { return *coordinator_.Call(&Driver::GetStatus, v1::GetStatusRequest()); }

  Coordinator coordinator_;
  HandWorker east_;
  HandWorker west_;
};

TEST_F(DriverOperatorTest, ADrainedWorkerFinishesItsRoundAndLeaves) {
  const HandWorker::Session session = west_.OpenSession();
  west_.Send(session, west_.Heartbeat());
  Answer<v1::DrainWorkerResponse> answer;
  coordinator_.driver->DrainWorker(About<v1::DrainWorkerRequest>("west"), Into(&answer));
  coordinator_.PumpDriver();
  EXPECT_FALSE(answer->has_value());
  EXPECT_FALSE(session.directives->back().drain());  // Not durable yet.
  coordinator_.Pump();
  ASSERT_TRUE((*answer)->ok());
  EXPECT_EQ((**answer)->worker_id(), "west");
  EXPECT_TRUE(session.directives->back().drain());
  EXPECT_EQ(Summary("west").state(), v1::WORKER_STATE_DRAINING);
  EXPECT_TRUE(Summary("west").participating());
  EXPECT_EQ(coordinator_.observer.members.draining, 1);
  EXPECT_EQ(Status().workers_alive(), 2U);

  // Its current round counts; after it "all" are one.
  Contribute(&east_, 0);
  EXPECT_EQ(coordinator_.observer.committed, 0);
  Contribute(&west_, 0);
  EXPECT_EQ(coordinator_.observer.merged_total, 4);
  v1::SessionRequest stopped = west_.Heartbeat();
  stopped.set_last_round(0);
  west_.Send(session, stopped);
  EXPECT_FALSE(Summary("west").participating());
  EXPECT_EQ(Status().workers_participating(), 1U);
  EXPECT_EQ(Status().quorum(), 1U);
  Contribute(&east_, 1);
  EXPECT_EQ(coordinator_.observer.merged_total, 6);
  v1::DescribeRoundRequest round_1;
  round_1.set_round(1);
  const auto described = coordinator_.Call(&Driver::DescribeRound, round_1);
  EXPECT_EQ(described->summary().reason(), "all 1 present; nothing more from \"west\"");
  EXPECT_EQ(described->summary().quorum(), 1U);

  stopped.set_leaving(true);
  west_.Send(session, stopped);
  EXPECT_TRUE(session.directives->back().leave());
  EXPECT_EQ(Summary("west").state(), v1::WORKER_STATE_LEFT);
  EXPECT_EQ(Drain("west").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DriverOperatorTest, ADrainSurvivesTheCoordinator) {
  ASSERT_TRUE(Drain("west").ok());
  ASSERT_TRUE(Drain("west").ok());  // Again: harmless.
  coordinator_.Crash();
  ASSERT_TRUE(coordinator_.Start().ok());
  const auto joined = west_.Join();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_TRUE(joined->directive().drain());
  ASSERT_TRUE(east_.Join().ok());
  EXPECT_EQ(Summary("west").state(), v1::WORKER_STATE_DRAINING);
  // Two rounds later the member record is in a snapshot only.
  for (int64_t round = 0; round < 4; ++round) {
    Contribute(&east_, round);
    Contribute(&west_, round);
  }
  EXPECT_EQ(coordinator_.observer.snapshots.back(), 4);
  coordinator_.Crash();
  ASSERT_TRUE(coordinator_.Start().ok());
  // A successor has the drain to carry out.
  HandWorker successor(&coordinator_, "west", 3);
  EXPECT_TRUE(successor.Join()->directive().drain());
}

TEST_F(DriverOperatorTest, AnEvictedWorkerIsOutAtOnce) {
  const HandWorker::Session session = west_.OpenSession();
  west_.Send(session, west_.Heartbeat());
  const auto queue = west_.Subscribe({0, 0});
  Contribute(&west_, 0);
  // A contribution that is whole and not checked yet.
  Contribute(&east_, 0);
  EXPECT_EQ(coordinator_.observer.committed, 2);
  ASSERT_EQ(west_.Contribute(0, 1, 2)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  Answer<v1::UploadResponse> upload;
  for (const v1::UploadRequest& chunk : west_.Chunks(1, 1, 2)) {
    coordinator_.driver->Upload(chunk, Into(&upload));
    coordinator_.PumpDriver();
  }
  ASSERT_FALSE(upload->has_value());

  const auto evicted = Evict("west");
  ASSERT_TRUE(evicted.ok()) << evicted.status();
  EXPECT_EQ(evicted->contributions_dropped(), 1U);
  const std::string text =
      "worker \"west\" was evicted by an operator; `dilococtl worker admit west` lets it join again";
  EXPECT_EQ(*session.closed, absl::PermissionDeniedError(text));
  ASSERT_TRUE(upload->has_value());
  EXPECT_EQ((*upload)->status(), absl::PermissionDeniedError(text));
  EXPECT_EQ(west_.Contribute(1, 1, 2).status(), absl::PermissionDeniedError(text));
  EXPECT_EQ(west_.Subscribe({0, 0}).status(), absl::PermissionDeniedError(text));
  EXPECT_EQ(west_.Join().status(), absl::PermissionDeniedError(text));
  HandWorker successor(&coordinator_, "west", 3);
  EXPECT_EQ(successor.Join().status(), absl::PermissionDeniedError(text));
  bool ended = false;
  while ((*queue)->Pop(&ended) != nullptr) {
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(Summary("west").state(), v1::WORKER_STATE_EVICTED);
  EXPECT_EQ(coordinator_.observer.members.evicted, 1);

  // The next round settles what was dropped, and says why.
  Contribute(&east_, 1);
  v1::DescribeRoundRequest round_1;
  round_1.set_round(1);
  const auto described = coordinator_.Call(&Driver::DescribeRound, round_1);
  ASSERT_EQ(described->fragments(0).settled_size(), 2);
  EXPECT_EQ(described->fragments(0).settled(0).settlement(), v1::SETTLEMENT_MERGED);
  EXPECT_EQ(described->fragments(0).settled(1).id().worker_id(), "west");
  EXPECT_EQ(described->fragments(0).settled(1).settlement(), v1::SETTLEMENT_DROPPED_EVICTED);
  EXPECT_EQ(described->fragments(1).settled_size(), 1);
}

TEST_F(DriverOperatorTest, AnEvictionStandsUntilItIsLifted) {
  ASSERT_TRUE(Evict("west").ok());
  ASSERT_TRUE(Evict("west").ok());  // Again: harmless.
  EXPECT_EQ(Drain("west").status(),
            absl::FailedPreconditionError("worker \"west\" is evicted; there is nothing to drain"));
  coordinator_.Crash();
  ASSERT_TRUE(coordinator_.Start().ok());
  EXPECT_EQ(west_.Join().status().code(), absl::StatusCode::kPermissionDenied);
  ASSERT_TRUE(east_.Join().ok());
  for (int64_t round = 0; round < 4; ++round) Contribute(&east_, round);
  EXPECT_EQ(coordinator_.observer.snapshots.back(), 4);  // The record is in a snapshot only.
  coordinator_.Crash();
  ASSERT_TRUE(coordinator_.Start().ok());
  EXPECT_EQ(west_.Join().status().code(), absl::StatusCode::kPermissionDenied);

  ASSERT_TRUE(Admit("west").ok());
  EXPECT_EQ(Summary("west").state(), v1::WORKER_STATE_LEFT);
  EXPECT_EQ(Admit("west").status(),
            absl::FailedPreconditionError("worker \"west\" is not evicted, so that nothing keeps it from joining"));
  coordinator_.Crash();
  ASSERT_TRUE(coordinator_.Start().ok());
  HandWorker successor(&coordinator_, "west", 3);
  const auto joined = successor.Join();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_FALSE(joined->directive().drain());
}

TEST_F(DriverOperatorTest, AProcessThatSleptThroughItsEvictionIsOverAndItsSuccessorJoins) {
  ASSERT_TRUE(Evict("west").ok());
  ASSERT_TRUE(Admit("west").ok());
  const HandWorker::Session session = west_.OpenSession();
  west_.Send(session, west_.Heartbeat());
  EXPECT_EQ(session.closed->code(), absl::StatusCode::kAborted);
  EXPECT_EQ(west_.Join().status(),
            absl::PermissionDeniedError("worker \"west\" has left the run, or was evicted; start it again"));
  HandWorker successor(&coordinator_, "west", 3);
  const auto joined = successor.Join();
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_EQ(Summary("west").state(), v1::WORKER_STATE_ALIVE);
}

TEST_F(DriverOperatorTest, AnEvictedSeederIsReplaced) {
  Coordinator coordinator(RunYaml(2, 8, "fp32", "fp32"));
  ASSERT_TRUE(coordinator.Start().ok());
  HandWorker east(&coordinator, "east", 1);
  HandWorker west(&coordinator, "west", 2);
  ASSERT_TRUE(east.Join()->directive().seed());
  ASSERT_FALSE(west.Join()->directive().seed());
  ASSERT_TRUE(coordinator.Call(&Driver::EvictWorker, About<v1::EvictWorkerRequest>("east")).ok());
  EXPECT_TRUE(west.Join()->directive().seed());
  EXPECT_TRUE(west.Seed(std::vector<float>(11, 1.0F)).ok());
  // One is not two: the run does not start with an evicted member.
  EXPECT_EQ(coordinator.Call(&Driver::GetStatus, v1::GetStatusRequest())->reason(), "1 of 2 workers have joined");
}

TEST_F(DriverOperatorTest, WrongRequestsAreRefused) {
  EXPECT_EQ(Drain("north").status(),
            absl::NotFoundError("the run has no worker \"north\"; `worker list` shows which ones it has"));
  EXPECT_EQ(Evict("north").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Admit("north").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Admit("west").status().code(), absl::StatusCode::kFailedPrecondition);
  auto drain = About<v1::DrainWorkerRequest>("west");
  drain.set_run_id("other");
  EXPECT_EQ(coordinator_.Call(&Driver::DrainWorker, drain).status().code(), absl::StatusCode::kNotFound);
  auto evict = About<v1::EvictWorkerRequest>("west");
  evict.set_run_id("other");
  EXPECT_EQ(coordinator_.Call(&Driver::EvictWorker, evict).status().code(), absl::StatusCode::kNotFound);
  const HandWorker::Session session = west_.OpenSession();
  v1::SessionRequest stopped = west_.Heartbeat();
  stopped.set_last_round(-2);
  west_.Send(session, stopped);
  EXPECT_EQ(*session.closed, absl::InvalidArgumentError("a last round of -2; -1 is none"));
  EXPECT_EQ(coordinator_.observer.members.alive, 2);
}

TEST_F(DriverOperatorTest, AfterTheEndThereIsNothingToDrain) {
  for (int64_t round = 0; round < 8; ++round) {
    Contribute(&east_, round);
    Contribute(&west_, round);
  }
  EXPECT_EQ(Drain("west").status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DriverOperatorTest, ASuspendedWorkerIsAMemberUntilItsLeaseEnds) {
  const HandWorker::Session session = west_.OpenSession();
  v1::SessionRequest request = west_.Heartbeat();
  request.set_suspending(true);
  west_.Send(session, request);
  coordinator_.driver->CloseSession(session.token);
  coordinator_.Pump();
  EXPECT_EQ(Summary("west").state(), v1::WORKER_STATE_SUSPENDED);
  EXPECT_EQ(coordinator_.observer.members.suspended, 1);
  EXPECT_EQ(coordinator_.observer.members.alive, 1);
  EXPECT_TRUE(Summary("west").participating());
  HandWorker successor(&coordinator_, "west", 3);  // It resumes.
  ASSERT_TRUE(successor.Join().ok());
  EXPECT_EQ(Summary("west").state(), v1::WORKER_STATE_ALIVE);
  v1::SessionRequest again = successor.Heartbeat();
  again.set_suspending(true);
  successor.Send(successor.OpenSession(), again);
  coordinator_.clock.Advance(absl::Seconds(21));
  coordinator_.Pump();
  EXPECT_EQ(Summary("west").state(), v1::WORKER_STATE_LOST);
}

}  // namespace
}  // namespace diloco
