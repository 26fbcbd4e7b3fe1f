// `run pause, resume, stop, extend, set`, `events` and `round watch`: what they ask, print and end with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"

#include "nlohmann/json.hpp"
#include "tests/coordinator/ctl/fake_admin.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

v1::WatchEventsResponse Event(uint64_t number, v1::EventKind kind, const std::string& text, uint64_t missed = 0) {
  v1::WatchEventsResponse response;
  response.set_run_id("demo");
  response.mutable_event()->set_number(number);
  response.mutable_event()->set_log_id(5);
  response.mutable_event()->mutable_at()->set_seconds(65);
  response.mutable_event()->set_kind(kind);
  response.mutable_event()->set_text(text);
  response.set_missed(missed);
  return response;
}

v1::WatchEventsResponse Committed(uint64_t number, int64_t round) {
  v1::WatchEventsResponse response = Event(number, v1::EVENT_KIND_ROUND_COMMITTED, "all 2 present");
  v1::RoundSummary* summary = response.mutable_event()->mutable_round();
  summary->set_round(round);
  summary->set_reason("all 2 present");
  summary->set_workers_present(2);
  summary->set_merged(4);
  return response;
}

class CtlSteeringTest : public CtlTest {
 protected:
  CtlSteeringTest() {
    admin_.resumed.set_run_id("demo");
    admin_.stopped.set_run_id("demo");
    admin_.stopped.set_rounds(7);
    admin_.extended.set_run_id("demo");
    admin_.extended.set_rounds(200);
    admin_.extended.set_from_round(12);
  }
};

TEST_F(CtlSteeringTest, PausesAndResumes) {
  EXPECT_EQ(Run({"run", "pause"}), 0);
  EXPECT_EQ(out_, "run    demo\nstate  paused: no round closes until `dilococtl run resume`\n");
  EXPECT_EQ(Run({"run", "resume"}), 0);
  EXPECT_THAT(out_, HasSubstr("not paused: rounds close"));
  admin_.resumed.set_held("the disk is full");
  EXPECT_EQ(Run({"run", "resume"}), 0);
  EXPECT_THAT(out_, HasSubstr("not paused any more, but still held: the disk is full"));
  EXPECT_THAT(admin_.orders, ElementsAre("pause", "resume", "resume"));
}

TEST_F(CtlSteeringTest, APausedRunIsUnhealthyForTheStatus) {
  admin_.status.set_run_id("demo");
  admin_.status.set_state(v1::RUN_STATE_PAUSED);
  admin_.status.set_reason("paused by an operator");
  EXPECT_EQ(Run({"status"}), 6);
  EXPECT_THAT(out_, HasSubstr("state          paused: paused by an operator"));
  EXPECT_THAT(err_, HasSubstr("the run does not go on: paused by an operator"));
}

TEST_F(CtlSteeringTest, AStopAsksFirst) {
  EXPECT_EQ(Run({"run", "stop"}), 2);
  EXPECT_THAT(err_, HasSubstr("give --yes, there is no terminal to ask at"));
  answer_ = "n";
  EXPECT_NE(Run({"run", "stop"}), 0);
  EXPECT_THAT(question_, HasSubstr("the run ends for good with its oldest open round"));
  EXPECT_THAT(admin_.orders, IsEmpty());
  answer_ = "y";
  EXPECT_EQ(Run({"run", "stop"}), 0);
  EXPECT_THAT(out_, HasSubstr("stopped: it ends with 7 rounds"));
  answer_.reset();
  EXPECT_EQ(Run({"run", "stop", "--yes"}), 0);
  EXPECT_THAT(admin_.orders, ElementsAre("stop", "stop"));
}

TEST_F(CtlSteeringTest, ExtendsToATotal) {
  EXPECT_EQ(Run({"run", "extend", "--rounds", "200"}), 0);
  EXPECT_EQ(out_, "run             demo\nrounds          200\ninner schedule  over the new length from round 12 on\n");
  EXPECT_THAT(admin_.orders, ElementsAre("extend 200"));
  EXPECT_EQ(Run({"run", "extend"}), 2);
  EXPECT_EQ(Run({"run", "extend", "--rounds", "0"}), 2);
  EXPECT_EQ(Run({"run", "extend", "--rounds", "1000000001"}), 2);
  admin_.error = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "the run has ended with 9 rounds");
  EXPECT_EQ(Run({"run", "extend", "--rounds", "10"}), 5);
  EXPECT_EQ(err_, "dilococtl: the run has ended with 9 rounds\n");
}

TEST_F(CtlSteeringTest, SetsWhatMayChange) {
  v1::RunChange* change = admin_.set.add_changes();
  change->set_from_round(12);
  v1::Setting* setting = change->add_settings();
  setting->set_key("outer.rate");
  setting->set_value("0.2");
  EXPECT_EQ(Run({"run", "set", "outer.rate=0.2", "rounds.quorum=1"}), 0);
  EXPECT_THAT(admin_.orders, ElementsAre("set outer.rate to 0.2", "set rounds.quorum to 1"));
  EXPECT_EQ(out_, "SETTING     VALUE  FROM ROUND\nouter.rate  0.2            12\n");
  EXPECT_EQ(Run({"-o", "json", "run", "set", "outer.rate=0.2"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out_)["changes"][0]["from_round"], "12");
  admin_.set.clear_changes();
  EXPECT_EQ(Run({"run", "set", "outer.rate=0.2"}), 0);
  EXPECT_THAT(out_, HasSubstr("nothing has changed"));
  for (const char* wrong : {"outer.rate", "=1"}) {
    EXPECT_EQ(Run({"run", "set", wrong}), 2);
    EXPECT_THAT(err_, HasSubstr("write KEY=VALUE"));
  }
  admin_.error = grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "\"a.b\" may not change in mid-run");
  EXPECT_EQ(Run({"run", "set", "a.b=1"}), 2);
}

TEST_F(CtlSteeringTest, PrintsTheEventsThatThereAre) {
  admin_.event_streams.push_back(
      {{Event(7, v1::EVENT_KIND_WORKER_LOST, "its lease ended\n\x1b[2J", 6), Committed(8, 3)}, grpc::Status::OK});
  admin_.event_streams.back().first[0].mutable_event()->set_worker_id("west");
  EXPECT_EQ(Run({"events"}), 0);
  EXPECT_EQ(out_,
            " EVENT  SINCE START  KIND              WORKER      TEXT\n"
            "   ...  6 events before the next are not kept\n"
            "     7        1m05s  worker lost       west        its lease ended\\x0a\\x1b[2J\n"
            "     8        1m05s  round committed   -           round 3: all 2 present\n");
  EXPECT_FALSE(admin_.watch_requests[0].follow());
}

TEST_F(CtlSteeringTest, FollowsOverAnInterruptionBehindTheLastThatItSaw) {
  admin_.event_streams.push_back(
      {{Event(7, v1::EVENT_KIND_RUN_PAUSED, "paused")}, grpc::Status(grpc::StatusCode::UNAVAILABLE, "shutting down")});
  admin_.event_streams.push_back({{Event(9, v1::EVENT_KIND_RUN_ENDED, "every round is committed", 1)},
                                  grpc::Status(grpc::StatusCode::UNAVAILABLE, "shutting down")});
  EXPECT_EQ(Run({"-o", "json", "events", "--watch"}), 0);
  const std::vector<std::string> lines = absl::StrSplit(out_, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(lines[1])["missed"], "1");
  EXPECT_THAT(err_, HasSubstr("shutting down"));
  ASSERT_EQ(admin_.watch_requests.size(), 2U);
  EXPECT_TRUE(admin_.watch_requests[0].follow());
  EXPECT_EQ(admin_.watch_requests[1].after(), 7U);
  EXPECT_EQ(admin_.watch_requests[1].log_id(), 5U);
}

TEST_F(CtlSteeringTest, AQuietHourBeforeAnInterruptionIsNotPartOfIt) {
  on_out_ = [this] { clock_.now = clock_.now + absl::Hours(1); };
  admin_.event_streams.push_back(
      {{Event(7, v1::EVENT_KIND_RUN_PAUSED, "paused")}, grpc::Status(grpc::StatusCode::UNAVAILABLE, "shutting down")});
  admin_.event_streams.push_back({{Event(8, v1::EVENT_KIND_RUN_ENDED, "every round is committed")},
                                  grpc::Status(grpc::StatusCode::UNAVAILABLE, "shutting down")});
  EXPECT_EQ(Run({"events", "--watch"}), 0);
  EXPECT_THAT(out_, HasSubstr("run ended"));
}

TEST_F(CtlSteeringTest, GivesUpOnACoordinatorThatDoesNotComeBack) {
  StopServer();
  EXPECT_EQ(Run({"--timeout", "3s", "events", "--watch"}), 3);
  EXPECT_THAT(err_, HasSubstr("trying for 3s"));
  EXPECT_EQ(Run({"--timeout", "1s", "events"}), 3);
}

TEST_F(CtlSteeringTest, WatchesRoundsToTheEndOfTheRun) {
  admin_.event_streams.push_back(
      {{Committed(3, 0), Event(4, v1::EVENT_KIND_SNAPSHOT, "a snapshot"), Committed(5, 1),
        Event(6, v1::EVENT_KIND_RUN_ENDED, "every round is committed"), Event(7, v1::EVENT_KIND_CHECKPOINT, "/c")},
       grpc::Status::OK});
  EXPECT_EQ(Run({"round", "watch"}), 0);
  EXPECT_EQ(out_,
            " ROUND  WORKERS  QUORUM  ELAPSED  MERGED  LATE  DROPPED  REASON\n"
            "     0        2       0     0.0s       4     0        0  all 2 present\n"
            "     1        2       0     0.0s       4     0        0  all 2 present\n");
}

}  // namespace
}  // namespace diloco
