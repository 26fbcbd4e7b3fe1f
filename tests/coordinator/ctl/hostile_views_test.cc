// Whatever a coordinator answers, or its workers have told it: tables are text, and JSON is JSON.
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_replace.h"
#include "google/protobuf/stubs/logging.h"

#include "common/json/message_json.h"
#include "coordinator/ctl/views.h"
#include "coordinator/ctl/watch_view.h"
#include "coordinator/ctl/worker_views.h"
#include "nlohmann/json.hpp"
#include "tests/support/hostile_message.h"

namespace diloco {
namespace {

class HostileViewsTest : public ::testing::Test {
 protected:
  // All forms of `good` that can come off the wire.
  template <typename Response>
  static void ForEach(const Response& good, const std::function<void(const Response&)>& visit) {
    int visited = 0;
    for (const testing::HostileMessage& hostile : testing::HostileMessages(good)) {
      SCOPED_TRACE(hostile.what);
      Response received;
      if (!received.ParseFromString(hostile.message->SerializeAsString())) continue;
      ++visited;
      visit(received);
    }
    EXPECT_GT(visited, 20);
  }

  static void ExpectText(const std::string& text) {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      ASSERT_TRUE(byte == '\n' || (byte >= 0x20 && byte != 0x7F)) << "byte " << int{byte} << " reaches the terminal";
    }
  }

  static void ExpectJson(const google::protobuf::Message& message) {
    for (const JsonStyle style : {JsonStyle::kIndented, JsonStyle::kOneLine}) {
      const std::string text = ToJson(message, style);
      EXPECT_TRUE(nlohmann::json::accept(text)) << text;
    }
  }

  const google::protobuf::LogSilencer silent_;  // It reports each text that is not UTF-8.
};

v1::GetStatusResponse Status() {
  v1::GetStatusResponse status;
  status.set_state(v1::RUN_STATE_TRAINING);
  status.set_rounds_total(40);
  status.set_snapshot_version(10);
  status.set_checkpoint_path("/data/checkpoints/10");
  status.add_evaluations()->set_version(10);
  return status;
}

v1::ListWorkersResponse Workers() {
  v1::ListWorkersResponse workers;
  workers.add_workers()->mutable_progress()->set_wall_seconds(3);
  return workers;
}

TEST_F(HostileViewsTest, Status) {
  ForEach<v1::GetStatusResponse>(Status(), [](const v1::GetStatusResponse& status) {
    ExpectText(StatusText(status));
    ExpectText(Held(status).value_or(""));
    ExpectText(WatchTable(status, Workers(), absl::InfiniteDuration()));
    ExpectText(WatchLines(status, Workers(), std::nullopt));
    ExpectText(SummaryText(status, Workers()));
    ExpectJson(status);
    EtaEstimator eta;
    eta.Observe({0}, 0);
    eta.Observe({1}, 1);
    eta.Observe({2}, status.rounds_committed());
    eta.Remaining({3}, status.rounds_total());
  });
}

TEST_F(HostileViewsTest, Rounds) {
  v1::ListRoundsResponse rounds;
  rounds.add_rounds()->set_round(3);
  ForEach<v1::ListRoundsResponse>(rounds, [](const v1::ListRoundsResponse& hostile) {
    ExpectText(RoundListText(hostile));
    ExpectJson(hostile);
  });
}

TEST_F(HostileViewsTest, Round) {
  v1::DescribeRoundResponse round;
  v1::FragmentRound* fragment = round.add_fragments();
  fragment->add_present("east");
  fragment->add_settled()->set_settlement(v1::SETTLEMENT_MERGED);
  ForEach<v1::DescribeRoundResponse>(round, [](const v1::DescribeRoundResponse& hostile) {
    ExpectText(RoundText(hostile));
    ExpectJson(hostile);
  });
}

TEST_F(HostileViewsTest, Workers) {
  ForEach<v1::ListWorkersResponse>(Workers(), [](const v1::ListWorkersResponse& hostile) {
    ExpectText(WorkerListText(hostile));
    ExpectText(WatchTable(Status(), hostile, absl::ZeroDuration()));
    ExpectText(WatchLines(Status(), hostile, absl::ZeroDuration()));
    ExpectText(SummaryText(Status(), hostile));
    HasEnded(Status(), hostile);
    ExpectJson(hostile);
  });
}

TEST_F(HostileViewsTest, Worker) {
  v1::DescribeWorkerResponse worker;
  worker.mutable_summary()->mutable_progress()->set_wall_seconds(3);
  worker.add_rounds()->set_total_bytes(7);
  ForEach<v1::DescribeWorkerResponse>(worker, [](const v1::DescribeWorkerResponse& hostile) {
    ExpectText(WorkerText(hostile));
    ExpectJson(hostile);
  });
}

TEST_F(HostileViewsTest, NothingButOurColoursReachesATerminal) {
  ForEach<v1::ListWorkersResponse>(Workers(), [](const v1::ListWorkersResponse& hostile) {
    std::string text = WorkerListText(hostile, {.wide = true, .colors = Colors::kOn});
    for (const char* color : {"\x1B[31m", "\x1B[32m", "\x1B[33m", "\x1B[0m"}) {
      text = absl::StrReplaceAll(text, {{color, ""}});
    }
    ExpectText(text);
  });
}

TEST_F(HostileViewsTest, RunningConfig) {
  v1::GetConfigResponse config;
  config.set_config_yaml("run: {id: demo}\n");
  config.add_changes()->add_settings()->set_key("outer.rate");
  ForEach<v1::GetConfigResponse>(config, [](const v1::GetConfigResponse& hostile) {
    ExpectText(RunningConfigText(hostile));
    ExpectJson(hostile);
  });
}

TEST_F(HostileViewsTest, Checkpoints) {
  v1::ListCheckpointsResponse checkpoints;
  checkpoints.add_checkpoints()->set_version(3);
  ForEach<v1::ListCheckpointsResponse>(checkpoints, [](const v1::ListCheckpointsResponse& hostile) {
    ExpectText(CheckpointListText(hostile));
    ExpectJson(hostile);
  });
}

TEST_F(HostileViewsTest, Checkpoint) {
  v1::SaveCheckpointResponse saved;
  saved.set_path("/data/checkpoints/10");
  ForEach<v1::SaveCheckpointResponse>(saved, [](const v1::SaveCheckpointResponse& hostile) {
    ExpectText(CheckpointText(hostile));
    ExpectJson(hostile);
  });
}

}  // namespace
}  // namespace diloco
