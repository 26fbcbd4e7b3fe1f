// `status --watch`: on a terminal, in a log, as JSON, and how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <future>
#include <string>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "coordinator/ctl/watch_view.h"
#include "coordinator/ctl/worker_views.h"
#include "tests/coordinator/ctl/fake_admin.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CtlWatchTest : public CtlTest {
 protected:
  CtlWatchTest() {
    admin_.status.set_run_id("demo");
    admin_.status.set_state(v1::RUN_STATE_TRAINING);
    admin_.status.set_reason("round 0 of fragment 0: need 1 more of 1");
    admin_.status.set_rounds_total(3);
    admin_.workers.add_workers()->set_worker_id("east");
    Worker().set_state(v1::WORKER_STATE_ALIVE);
    no_color_ = true;
    on_pause_ = [this] { GoOn(); };
  }

  v1::WorkerSummary& Worker() { return *admin_.workers.mutable_workers(0); }

  // A round in each pause of 2 s; then the end.
  void GoOn() {
    const int64_t committed = admin_.status.rounds_committed();
    if (committed < 3) {
      admin_.status.set_rounds_committed(committed + 1);
      return;
    }
    admin_.status.set_state(v1::RUN_STATE_ENDED);
    admin_.status.set_reason("all 3 rounds are committed");
    admin_.status.set_checkpoint_path("/c/3");
    admin_.status.set_checkpoint_version(3);
    Worker().set_state(v1::WORKER_STATE_LEFT);
  }
};

TEST_F(CtlWatchTest, PrintsLinesAndASummaryAtTheEnd) {
  EXPECT_EQ(Run({"status", "--watch"}), 0);
  EXPECT_EQ(out_,
            "run demo: training, 0 of 3 rounds, ETA -\n  east alive\n"
            "run demo: training, 1 of 3 rounds, ETA -\n  east alive\n"
            "run demo: training, 2 of 3 rounds, ETA 2.0s\n  east alive\n"
            "run demo: training, 3 of 3 rounds, ETA 0.0s\n  east alive\n"
            "run demo: ended, 3 of 3 rounds, ETA 0.0s\n  east left\n" +
                SummaryText(admin_.status, admin_.workers));
  EXPECT_EQ(err_, "");
}

TEST_F(CtlWatchTest, WaitsAsLongAsItIsTold) {
  EXPECT_EQ(Run({"status", "--watch", "--interval", "500ms"}), 0);
  EXPECT_EQ(clock_.now - MonotonicTime{}, absl::Seconds(2)) << "four pauses";
}

// What a terminal shows after these bytes: cursor up and erase below, as --watch uses them.
std::string Rendered(std::string_view bytes) {
  std::vector<std::string> lines = {""};
  for (size_t i = 0; i < bytes.size();) {
    if (bytes[i] == '\x1b') {
      const size_t end = bytes.find_first_of("AJ", i);
      if (bytes[end] == 'A') {
        const int up = std::stoi(std::string(bytes.substr(i + 2, end - i - 2)));
        lines.resize(lines.size() - static_cast<size_t>(up));  // The erase follows at once.
        lines.back().clear();
      }
      i = end + 1;
    } else {
      if (bytes[i] == '\n') {
        lines.emplace_back();
      } else {
        lines.back().push_back(bytes[i]);
      }
      ++i;
    }
  }
  return absl::StrJoin(lines, "\n");
}

TEST_F(CtlWatchTest, RedrawsInPlaceOnATerminal) {
  terminal_ = {.columns = 200, .rows = 50};
  EXPECT_EQ(Run({"status", "--watch"}), 0);
  EXPECT_EQ(Rendered(out_), WatchTable(admin_.status, admin_.workers, absl::ZeroDuration()) +
                                SummaryText(admin_.status, admin_.workers));
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\x1b'), 8) << "two sequences for each of four redraws";
}

TEST_F(CtlWatchTest, StaysWithinASmallTerminal) {
  terminal_ = {.columns = 20, .rows = 4};
  EXPECT_EQ(Run({"status", "--watch"}), 0);
  const std::string frames = out_.substr(0, out_.size() - SummaryText(admin_.status, admin_.workers).size());
  EXPECT_THAT(frames, StartsWith("run demo: training, \nround 0 of fragment \nWORKER  STATE  STEP \n\x1b[3A\x1b[J"));
  EXPECT_THAT(frames, EndsWith("\x1b[3A\x1b[Jrun demo: ended, 3 o\nall 3 rounds are com\nWORKER  STATE  STEP \n"));
}

TEST_F(CtlWatchTest, StreamsJsonLines) {
  terminal_ = {.columns = 80, .rows = 24};
  EXPECT_EQ(Run({"-o", "json", "status", "--watch"}), 0);
  const std::vector<std::string> lines = absl::StrSplit(out_, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 5u);
  for (const std::string& line : lines) {
    const nlohmann::json json = nlohmann::json::parse(line);
    EXPECT_EQ(json["status"]["run_id"], "demo");
    EXPECT_EQ(json["workers"]["workers"][0]["worker_id"], "east");
  }
}

TEST_F(CtlWatchTest, OutlivesACoordinatorThatComesBack) {
  int failing = 0;
  on_pause_ = [&] {
    if (admin_.status.rounds_committed() == 1 && failing < 4) {
      admin_.error = grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
      ++failing;  // 4 looks, 8 s: less than the 10 s of --timeout.
      return;
    }
    admin_.error = grpc::Status::OK;
    GoOn();
  };
  EXPECT_EQ(Run({"status", "--watch"}), 0);
  EXPECT_THAT(err_, HasSubstr("restarting"));
  EXPECT_THAT(err_, EndsWith("; trying for 10s\n"));
  EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << "said once";
}

TEST_F(CtlWatchTest, GivesUpAfterTheTimeout) {
  on_pause_ = [this] { StopServer(); };
  EXPECT_EQ(Run({"status", "--watch", "--timeout", "7s"}), 3);
  EXPECT_THAT(out_, StartsWith("run demo: training"));
  EXPECT_EQ(clock_.now - MonotonicTime{}, absl::Seconds(8)) << "the first look past 7 s";
}

TEST_F(CtlWatchTest, ARunThatIsNotThereEndsItAtOnce) {
  on_pause_ = [this] { admin_.error = grpc::Status(grpc::StatusCode::NOT_FOUND, "another run"); };
  EXPECT_EQ(Run({"status", "--watch"}), 4);
  EXPECT_EQ(clock_.now - MonotonicTime{}, absl::Seconds(2));
}

TEST_F(CtlWatchTest, AListIsShownUntilTheUserEndsIt) {
  int looks = 0;
  on_pause_ = [&] {
    Worker().set_participating(true);
    if (++looks == 2) admin_.error = grpc::Status(grpc::StatusCode::NOT_FOUND, "enough");  // In the place of Ctrl-C.
  };
  const std::string before = WorkerListText(admin_.workers);
  EXPECT_EQ(Run({"worker", "list", "--watch"}), 4);
  EXPECT_EQ(out_, before + "\n" + WorkerListText(admin_.workers) + "\n");
  looks = 0;
  admin_.error = grpc::Status::OK;
  EXPECT_EQ(Run({"-o", "json", "worker", "list", "--watch"}), 4);
  const std::vector<std::string> lines = absl::StrSplit(out_, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(lines[0])["workers"][0]["worker_id"], "east");
  looks = 0;
  admin_.error = grpc::Status::OK;
  terminal_ = {.columns = 200, .rows = 50};
  EXPECT_EQ(Run({"worker", "list", "--watch"}), 4);
  EXPECT_EQ(Rendered(out_), WorkerListText(admin_.workers)) << "in place";
}

TEST_F(CtlWatchTest, ARoundIsWatchedUntilItHasCommitted) {
  admin_.round.mutable_summary()->set_state(v1::ROUND_STATE_COLLECTING);
  on_pause_ = [this] { admin_.round.mutable_summary()->set_state(v1::ROUND_STATE_COMMITTED); };
  EXPECT_EQ(Run({"round", "describe", "3", "--watch", "--interval", "1s"}), 0);
  EXPECT_THAT(out_, HasSubstr("state          collecting"));
  EXPECT_THAT(out_, HasSubstr("state          committed"));
  EXPECT_EQ(clock_.now - MonotonicTime{}, absl::Seconds(1));
}

// The program itself, since the signal ends the process.
TEST_F(CtlWatchTest, ControlCExitsWith130) {
  std::promise<void> watching;
  admin_.on_status = [&watching, first = true]() mutable {
    if (std::exchange(first, false)) watching.set_value();
  };
  auto process = diloco::testing::Process::Start(
      {.arguments = {testing::Program("dilococtl"), "--coordinator", server_.address.ToString(), "status", "--watch"},
       .output_path = "/dev/null"});
  ASSERT_TRUE(process.ok()) << process.status();
  watching.get_future().wait();
  process->Signal(SIGINT);
  const absl::StatusOr<int> code = process->Wait(absl::Seconds(60));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 130);
}

}  // namespace
}  // namespace diloco
