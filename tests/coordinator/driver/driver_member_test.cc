// Joining, seeding, sessions, subscriptions and snapshots: what is right, and what bad input gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_format.h"

#include "tests/coordinator/driver/hand_worker.h"
#include "tests/coordinator/driver/sim_cluster.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

class DriverMemberTest : public ::testing::Test {
 protected:
  DriverMemberTest() : coordinator_(RunYaml(2, 3, "fp32", "fp32")), east_(&coordinator_, "east", 1) {
    EXPECT_TRUE(coordinator_.Start().ok());
  }
  void Seeded() {
    ASSERT_TRUE(east_.Join().ok());
    ASSERT_TRUE(east_.Seed(std::vector<float>(11, 1.0F)).ok());
  }

  Coordinator coordinator_;
  HandWorker east_;
};

TEST_F(DriverMemberTest, JoinSaysWhatAWorkerNeeds) {
  const auto response = east_.Join();
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->run_id(), "test");
  EXPECT_EQ(response->layout_digest().value(), Layout::Cut(TwoFragments(), {.count = 2})->digest().Bytes());
  EXPECT_EQ(response->heartbeat_interval().seconds(), 2);
  EXPECT_EQ(response->lease().seconds(), 20);
  EXPECT_EQ(response->first_round(), 0);
  EXPECT_EQ(response->directive().state(), v1::RUN_STATE_SEEDING);
  EXPECT_TRUE(response->directive().seed());
  EXPECT_TRUE(response->directive().evaluate());
  EXPECT_EQ(response->directive().evaluated_version(), -1);
  EXPECT_EQ(response->directive().workers_joined(), 1U);
  EXPECT_EQ(response->directive().workers_expected(), 2U);
  EXPECT_FALSE(response->directive().leave());
  EXPECT_TRUE(east_.Join().ok());  // The same incarnation again.
}

TEST_F(DriverMemberTest, JoinIsAnsweredOnceTheMembershipIsDurable) {
  Answer<v1::JoinResponse> answer;
  Answer<v1::JoinResponse> repeated;
  coordinator_.driver->Join(east_.JoinRequest(), Into(&answer));
  coordinator_.driver->Join(east_.JoinRequest(), Into(&repeated));
  coordinator_.PumpDriver();
  EXPECT_FALSE(answer->has_value());
  EXPECT_FALSE(repeated->has_value());
  coordinator_.Pump();
  EXPECT_TRUE((*answer)->ok());
  EXPECT_TRUE((*repeated)->ok());
}

TEST_F(DriverMemberTest, WhatAJoinWithACheckpointWasToldHoldsWhenItAsksAgainAfterACrash) {
  Seeded();
  HandWorker west(&coordinator_, "west", 2);
  ASSERT_TRUE(west.Join().ok());
  HandWorker successor(&coordinator_, "west", 3);
  v1::JoinRequest request = successor.JoinRequest();
  request.mutable_resumes()->add_next_rounds(0);
  request.mutable_resumes()->add_next_rounds(0);
  for (int life = 0; life < 3; ++life) {
    SCOPED_TRACE(life);
    const auto joined = coordinator_.Call(&Driver::Join, request);
    ASSERT_TRUE(joined.ok()) << joined.status();
    EXPECT_TRUE(joined->resumes());
    coordinator_.Crash();
    ASSERT_TRUE(coordinator_.Start().ok());
  }
}

// What the configuration says of fragments can only be held against a model when there is one.
TEST(DriverFragmentsTest, ModelThatTheConfigurationDoesNotFitIsRefused) {
  struct Case {
    std::string fragments;
    std::string error;
  };
  for (const auto& [fragments, error] :
       {Case{"{count: 2, offsets: [0]}", "fragments.offsets names 1 fragments, the model is cut into 2; name as many"},
        {"{layers: [[0]]}", "fragments do not cover the model: layer 1 is in none of them; add it to one"},
        {"{layers: [[0, 2], [1]]}", "fragments name layer 2, which the model lacks"}}) {
    Coordinator coordinator(
        "run: {id: test, workers: 1, rounds: 3}\nmethod: diloco\ninner_steps: 4\nfragments: " + fragments + "\n");
    ASSERT_TRUE(coordinator.Start().ok());
    v1::JoinRequest request;
    request.set_run_id("test");
    request.set_worker_id("east");
    request.set_incarnation(1);
    request.set_protocol_version(kProtocolVersion);
    *request.mutable_tensors() = TensorSpecsToProto(TwoFragments());
    EXPECT_EQ(coordinator.Call(&Driver::Join, request).status(), absl::InvalidArgumentError(error));
  }
}

TEST_F(DriverMemberTest, WrongJoinsAreRefused) {
  ASSERT_TRUE(east_.Join().ok());
  const auto refusal = [&](const std::function<void(v1::JoinRequest*)>& spoil) {
    v1::JoinRequest request = east_.JoinRequest();
    request.set_worker_id("west");
    spoil(&request);
    return coordinator_.Call(&Driver::Join, request).status();
  };
  absl::Status status = refusal([](v1::JoinRequest* r) { r->set_run_id("other"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"test\""));
  status = refusal([](v1::JoinRequest* r) { r->set_worker_id("../west"); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  status = refusal([](v1::JoinRequest* r) { r->set_incarnation(0); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  status = refusal([](v1::JoinRequest* r) { r->set_protocol_version(kProtocolVersion + 1); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrFormat("version %d, the coordinator %d", kProtocolVersion + 1, kProtocolVersion)));
  status = refusal([](v1::JoinRequest* r) { r->mutable_resumes()->add_next_rounds(0); });
  EXPECT_EQ(status.message(), "a resume point of 1 fragments, the run has 2");
  status = refusal([](v1::JoinRequest* r) {
    r->mutable_resumes()->add_next_rounds(0);
    r->mutable_resumes()->add_next_rounds(-1);
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  status = refusal([](v1::JoinRequest* r) { r->clear_tensors(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  status = refusal([](v1::JoinRequest* r) { r->mutable_tensors(1)->set_shape(0, 3); });
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 1, \"b\""));
  status = refusal([](v1::JoinRequest* r) { r->mutable_tensors(0)->set_name("z"); });
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 0 is \"a\" in the run and \"z\" here"));
  east_.Send(east_.OpenSession(), east_.Heartbeat());
  status = refusal([](v1::JoinRequest* r) {
    r->set_worker_id("east");
    r->set_incarnation(2);
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("east"));
}

// As after a kill -9: the connection is gone at once, the lease is not.
TEST_F(DriverMemberTest, AModelThatDoesNotFitIsRefusedAndLeavesNothing) {
  v1::JoinRequest request = east_.JoinRequest();
  request.mutable_tensors(0)->set_shape(0, int64_t{1} << 32);
  const absl::Status status = coordinator_.Call(&Driver::Join, request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("use an uplink codec of fewer bits"));
  coordinator_.Crash();
  ASSERT_TRUE(coordinator_.Start().ok());
  EXPECT_TRUE(east_.Join().ok());
}

TEST_F(DriverMemberTest, RestartedWorkerReplacesOneWhoseSessionIsGone) {
  ASSERT_TRUE(east_.Join().ok());
  const HandWorker::Session session = east_.OpenSession();
  east_.Send(session, east_.Heartbeat());
  HandWorker successor(&coordinator_, "east", 2);
  EXPECT_EQ(successor.Join().status().code(), absl::StatusCode::kAlreadyExists);
  coordinator_.driver->CloseSession(session.token);
  EXPECT_TRUE(successor.Join().ok());
  // The predecessor, should it live, is a stranger, and cannot come back while the successor is there.
  const HandWorker::Session again = east_.OpenSession();
  east_.Send(again, east_.Heartbeat());
  EXPECT_EQ(again.closed->code(), absl::StatusCode::kAborted);
  successor.Send(successor.OpenSession(), successor.Heartbeat());
  EXPECT_EQ(east_.Join().status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(DriverMemberTest, SeedIsCheckedAndRepeatable) {
  ASSERT_TRUE(east_.Join().ok());
  HandWorker west(&coordinator_, "west", 2);
  ASSERT_TRUE(west.Join().ok());
  const std::vector<float> good(11, 1.0F);
  EXPECT_EQ(west.Seed(good).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(east_.Seed(std::vector<float>(10, 1.0F)).status().code(), absl::StatusCode::kInvalidArgument);
  std::vector<float> bad = good;
  bad[7] = std::numeric_limits<float>::infinity();
  const absl::Status not_finite = east_.Seed(bad).status();
  EXPECT_EQ(not_finite.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(not_finite.message()), HasSubstr("element 7"));
  v1::SeedRequest other_layout = east_.SeedRequest(good);
  other_layout.mutable_layout_digest()->set_value(std::string(16, 'x'));
  EXPECT_EQ(east_.SendSeed(other_layout, good).status().code(), absl::StatusCode::kFailedPrecondition);

  const auto seeded = east_.Seed(good);
  ASSERT_TRUE(seeded.ok()) << seeded.status();
  ASSERT_EQ(seeded->consensus_digests_size(), 2);
  const Consensus first(FindOuterOptimizer("nesterov"), std::vector<float>(5, 1.0F));
  EXPECT_EQ(seeded->consensus_digests(0).value(), first.ComputeDigest().Bytes());
  const auto again = east_.Seed(good);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), seeded->SerializeAsString());
  EXPECT_EQ(east_.Seed(std::vector<float>(11, 2.0F)).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(coordinator_.observer.snapshots, ::testing::ElementsAre(0));
}

TEST_F(DriverMemberTest, SessionsBringDirectives) {
  Seeded();
  const HandWorker::Session session = east_.OpenSession();
  v1::SessionRequest heartbeat = east_.Heartbeat();
  heartbeat.mutable_progress()->set_step(12);
  v1::Evaluation* evaluation = heartbeat.add_evaluations();
  evaluation->set_version(0);
  evaluation->set_loss(3.5);
  evaluation->set_tokens(64);
  coordinator_.driver->SessionMessage(session.token, heartbeat);
  coordinator_.PumpDriver();
  ASSERT_EQ(session.directives->size(), 1U);
  EXPECT_EQ(session.directives->back().evaluated_version(), -1);  // Not durable yet.
  coordinator_.Pump();
  EXPECT_EQ(session.directives->back().evaluated_version(), 0);
  EXPECT_EQ(coordinator_.Call(&Driver::ListWorkers, v1::ListWorkersRequest())->workers(0).progress().step(), 12);

  // Another worker changes what everybody hears.
  HandWorker west(&coordinator_, "west", 2);
  ASSERT_TRUE(west.Join().ok());
  EXPECT_EQ(session.directives->back().state(), v1::RUN_STATE_TRAINING);
  EXPECT_EQ(session.directives->back().workers_joined(), 2U);
  const size_t before = session.directives->size();
  coordinator_.Pump();
  EXPECT_EQ(session.directives->size(), before);
  coordinator_.driver->CloseSession(session.token);
  coordinator_.Pump();
}

TEST_F(DriverMemberTest, WrongSessionMessagesCloseTheSession) {
  Seeded();
  const auto closed = [&](const std::function<void(v1::SessionRequest*)>& spoil) {
    const HandWorker::Session session = east_.OpenSession();
    v1::SessionRequest request = east_.Heartbeat();
    spoil(&request);
    east_.Send(session, request);
    return session.closed->code();
  };
  EXPECT_EQ(closed([](v1::SessionRequest* r) { r->set_run_id("other"); }), absl::StatusCode::kNotFound);
  EXPECT_EQ(closed([](v1::SessionRequest* r) { r->set_incarnation(5); }), absl::StatusCode::kAborted);
  EXPECT_EQ(closed([](v1::SessionRequest* r) { r->set_worker_id("north"); }), absl::StatusCode::kAborted);
  EXPECT_EQ(closed([](v1::SessionRequest* r) { r->add_abstentions()->set_fragment(2); }),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(closed([](v1::SessionRequest* r) {
              r->add_evaluations()->set_version(4);
              r->mutable_evaluations(0)->set_tokens(1);
            }),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(closed([](v1::SessionRequest* r) { r->add_evaluations()->set_loss(1); }),  // Of no tokens.
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(closed([](v1::SessionRequest* r) {
              for (int i = 0; i <= kMaxEvaluationsPerHeartbeat; ++i) {
                r->add_evaluations()->set_tokens(1);
              }
            }),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(closed([](v1::SessionRequest*) {}), absl::StatusCode::kOk);
}

TEST_F(DriverMemberTest, AnEvaluationOfAVersionThatIsNotPublishedIsNotTaken) {
  Seeded();
  const HandWorker::Session session = east_.OpenSession();
  for (const int64_t version : {1, 0}) {
    v1::SessionRequest heartbeat = east_.Heartbeat();
    heartbeat.add_evaluations()->set_version(version);
    heartbeat.mutable_evaluations(0)->set_tokens(1);
    east_.Send(session, heartbeat);
  }
  EXPECT_TRUE(session.closed->ok());
  EXPECT_EQ(session.directives->back().evaluated_version(), 0);
  EXPECT_EQ(coordinator_.Call(&Driver::GetStatus, v1::GetStatusRequest())->evaluations_size(), 1);
}

TEST_F(DriverMemberTest, ANewerSessionOfAWorkerReplacesTheOlder) {
  Seeded();
  const HandWorker::Session older = east_.OpenSession();
  east_.Send(older, east_.Heartbeat());
  const HandWorker::Session newer = east_.OpenSession();
  east_.Send(newer, east_.Heartbeat());
  EXPECT_EQ(older.closed->code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(newer.closed->ok());
  EXPECT_EQ(newer.directives->size(), 1U);
}

TEST_F(DriverMemberTest, AbstentionsCloseARoundWithoutTheirWorker) {
  Seeded();
  HandWorker west(&coordinator_, "west", 2);
  ASSERT_TRUE(west.Join().ok());
  const HandWorker::Session session = west.OpenSession();
  v1::SessionRequest heartbeat = west.Heartbeat();
  heartbeat.add_abstentions()->set_reason("outer gradient is not finite");
  west.Send(session, heartbeat);
  west.Send(session, heartbeat);  // Until the round commits.
  v1::DescribeRoundRequest request;
  EXPECT_THAT(coordinator_.Call(&Driver::DescribeRound, request)->fragments(0).abstained(),
              ::testing::ElementsAre("west"));
  ASSERT_EQ(east_.Contribute(0, 0, 2)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
  EXPECT_EQ(coordinator_.observer.committed, 1);
  EXPECT_EQ(coordinator_.observer.merged_total, 1);
}

TEST_F(DriverMemberTest, SilentWorkersAreLost) {
  Seeded();
  coordinator_.clock.Advance(absl::Seconds(19));
  coordinator_.Pump();
  EXPECT_THAT(coordinator_.observer.lost, ::testing::IsEmpty());
  coordinator_.clock.Advance(absl::Seconds(2));
  coordinator_.Pump();
  EXPECT_THAT(coordinator_.observer.lost, ::testing::ElementsAre("east"));
  EXPECT_EQ(coordinator_.Call(&Driver::ListWorkers, v1::ListWorkersRequest())->workers(0).state(),
            v1::WORKER_STATE_LOST);
  const HandWorker::Session session = east_.OpenSession();
  east_.Send(session, east_.Heartbeat());
  EXPECT_TRUE(session.closed->ok());  // Heard again: it is back.
}

TEST_F(DriverMemberTest, ACoordinatorThatStoodStillLosesNobody) {
  Seeded();
  const MonotonicTime due = coordinator_.driver->NextWakeUp();
  EXPECT_LE(due - coordinator_.clock.Now(), absl::Seconds(1));
  coordinator_.clock.Advance(absl::Hours(1));
  coordinator_.driver->RunUntilIdle(due);
  EXPECT_THAT(coordinator_.observer.lost, ::testing::IsEmpty());
  // The lease goes on from where it stood.
  EXPECT_GT(coordinator_.driver->NextWakeUp(), coordinator_.clock.Now());
  coordinator_.clock.Advance(absl::Seconds(21));
  coordinator_.Pump();
  EXPECT_THAT(coordinator_.observer.lost, ::testing::ElementsAre("east"));
}

TEST_F(DriverMemberTest, SubscriptionsAreChecked) {
  Seeded();
  EXPECT_EQ(east_.Subscribe({0}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(east_.Subscribe({0, -1}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(east_.Subscribe({1000, 0}).status().code(), absl::StatusCode::kOutOfRange);
  const auto older = east_.Subscribe({0, 0});
  ASSERT_TRUE(older.ok()) << older.status();
  const auto newer = east_.Subscribe({0, 0});
  ASSERT_TRUE(newer.ok());
  bool ended = false;
  EXPECT_EQ((*older)->Pop(&ended), nullptr);
  EXPECT_TRUE(ended);
  EXPECT_EQ((*newer)->Pop(&ended), nullptr);
  EXPECT_FALSE(ended);
  HandWorker north(&coordinator_, "north", 3);
  EXPECT_EQ(north.Subscribe({0, 0}).status().code(), absl::StatusCode::kAborted);
}

TEST_F(DriverMemberTest, ASlowSubscriberIsToldToResync) {
  Seeded();
  HandWorker west(&coordinator_, "west", 2);
  ASSERT_TRUE(west.Join().ok());
  const auto slow = east_.Subscribe({0, 0}, /*limit=*/200);
  const auto quick = west.Subscribe({0, 0});
  for (int64_t round = 0; round < 3; ++round) {
    for (int fragment = 0; fragment < 2; ++fragment) {
      ASSERT_EQ(east_.Contribute(fragment, round, 1)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
      ASSERT_EQ(west.Contribute(fragment, round, 1)->verdict(), v1::CONTRIBUTION_VERDICT_STORED);
    }
  }
  bool ended = false;
  const std::shared_ptr<const std::string> message = (*slow)->Pop(&ended);
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(*message, "resync");
  EXPECT_TRUE(ended);
  EXPECT_EQ(Drain(quick->get(), &ended).size(), 3U * 2 * 3 + 1);  // Chunk, list, commit; and the end.
  EXPECT_TRUE(ended);
  // What was missed is retained: a new subscription gets it.
  const auto again = east_.Subscribe({0, 0});
  EXPECT_EQ(Drain(again->get(), &ended).size(), 3U * 2 * 3 + 1);
  EXPECT_TRUE(ended);
}

TEST_F(DriverMemberTest, SnapshotsNeedASeedAndAMember) {
  const auto snapshot = [&] {
    return coordinator_.Call(&Driver::OpenSnapshot, east_.Signed<v1::FetchSnapshotRequest>());
  };
  EXPECT_EQ(snapshot().status().code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(east_.Join().ok());
  EXPECT_EQ(snapshot().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(east_.Seed(std::vector<float>(11, 1.0F)).ok());
  const auto source = snapshot();
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->header.version(), 0);
  EXPECT_EQ(source->header.total_bytes(), 2U * 11 * 4);
  EXPECT_THAT(source->header.settled_rounds(), ::testing::ElementsAre(-1, -1));
}

// The marks in a snapshot's header are those of its version, not newer ones.
TEST(DriverJoinerTest, JoinsInMidRunFromTheSnapshot) {
  SimCluster cluster(RunYaml(2, 8, "e3m0", "int8", "rounds: {snapshot_every: 2, quorum: 2}\n"), 2);
  cluster.Start();
  while (cluster.workers[0]->version() < 5) {
    ASSERT_TRUE(cluster.Turn());
  }
  HandWorker asks(&cluster.coordinator, "w0", 100);
  const auto source = cluster.coordinator.Call(&Driver::OpenSnapshot, asks.Signed<v1::FetchSnapshotRequest>());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->header.version(), 4);
  EXPECT_THAT(source->header.settled_rounds(), ::testing::ElementsAre(3, 3));
  EXPECT_EQ(source->header.scalars().participating_weight(), 2);
  // Older rounds than the snapshot before that are gone.
  EXPECT_EQ(asks.Subscribe({1, 1}).status().code(), absl::StatusCode::kOutOfRange);

  SimWorker* joiner = cluster.AddWorker("w2");
  cluster.workers[0]->Connect(cluster.coordinator.driver.get());  // Its subscription was taken over above.
  cluster.Run();
  EXPECT_TRUE(joiner->done());
  EXPECT_EQ(joiner->version(), 8);
  EXPECT_FALSE(joiner->merged().empty());
  for (size_t fragment = 0; fragment < 2; ++fragment) {
    EXPECT_EQ(joiner->consensus()[fragment].ComputeDigest(), cluster.workers[1]->consensus()[fragment].ComputeDigest());
  }
}

TEST_F(DriverMemberTest, ShutdownAnswersWhatWaits) {
  Answer<v1::JoinResponse> answer;
  coordinator_.driver->Join(east_.JoinRequest(), Into(&answer));
  coordinator_.PumpDriver();  // The disk has not run.
  coordinator_.driver->Shutdown();
  coordinator_.Pump();
  ASSERT_TRUE(answer->has_value());
  EXPECT_EQ((*answer)->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(east_.Join().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace diloco
