// Worker processes that are killed, or told to stop at any moment, and started again, with a real coordinator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/clock.h"
#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

using nlohmann::json;
using testing::CoordinatorProcess;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::Process;
using testing::ReadFile;
using testing::TempFolder;

constexpr int kRounds = 12;

class RestartTest : public ::testing::Test {
 protected:
  void StartCoordinator(const std::string& more) {
    coordinator_.emplace(folder_.path(),
                         absl::StrFormat("run: {id: restart, workers: 2, rounds: %d}\ninner_steps: 4\nmax_late: 0\n"
                                         "rounds: {heartbeat_interval: 100ms, lease: 20s, snapshot_every: 64}\n%s",
                                         rounds_, more));
    ASSERT_TRUE(coordinator_->Start().ok()) << coordinator_->Log();
  }
  Process StartWorker(int worker, const std::string& coordinator) {
    const std::string id = absl::StrCat("w", worker);
    absl::StatusOr<Process> process = Process::Start(
        {.arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", coordinator, "--id", id, "--elements",
                       absl::StrCat(elements_), "--tensors", "4", "--worker", absl::StrCat(worker), "--step-ms", "5",
                       "--checkpoint-folder", folder_.File(absl::StrCat(id, ".checkpoints")), "--checkpoint-every", "1",
                       "--trace", folder_.File(absl::StrCat(id, "-", ++starts_, ".jsonl"))},
         .output_path = folder_.File(absl::StrCat(id, ".log"))});
    EXPECT_TRUE(process.ok()) << process.status();
    return *std::move(process);
  }
  std::string Log(int worker) { return ReadFile(folder_.File(absl::StrFormat("w%d.log", worker))); }
  void AwaitLog(int worker, const std::string& text) {
    const SteadyClock clock;
    const MonotonicTime deadline = clock.Now() + kPatience;
    while (Log(worker).find(text) == std::string::npos && clock.Now() < deadline) {
      poll(nullptr, 0, 5);
    }
    ASSERT_THAT(Log(worker), HasSubstr(text));
  }
  // Digests of every trace, by fragment and version: one and the same everywhere.
  std::map<std::pair<int, int64_t>, std::string> Digests() {
    std::map<std::pair<int, int64_t>, std::string> digests;
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      if (file.path().extension() != ".jsonl") continue;
      std::istringstream lines(ReadFile(file.path()));
      for (std::string line; std::getline(lines, line);) {
        const json entry = json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (!entry.is_object() || !entry.contains("digest")) continue;  // A kill may have cut the last line.
        const auto known = digests.try_emplace({entry.at("fragment"), entry.at("version")}, entry.at("digest")).first;
        EXPECT_EQ(known->second, entry.at("digest")) << line;
      }
    }
    return digests;
  }
  // Resident.
  static double PeakMegabytes(const Process& process) {
    std::istringstream status(ReadFile(absl::StrFormat("/proc/%d/status", process.pid())));
    for (std::string line; std::getline(status, line);) {
      int64_t kilobytes = 0;
      if (line.starts_with("VmHWM:") && std::sscanf(line.c_str(), "VmHWM: %ld", &kilobytes) == 1) {
        return static_cast<double>(kilobytes) / 1024;
      }
    }
    return 0;
  }
  // Each contribution is settled once.
  void ExpectEachSettledOnce() {
    std::set<std::string> settled;
    for (int round = 0; round < kRounds; ++round) {
      const absl::StatusOr<json> described = coordinator_->Ctl({"round", "describe", absl::StrCat(round)});
      ASSERT_TRUE(described.ok()) << described.status();
      for (const json& fragment : described->at("fragments")) {
        for (const json& line : fragment.value("settled", json::array())) {
          EXPECT_TRUE(settled.insert(line.at("id").dump()).second) << line.dump();
        }
      }
    }
    EXPECT_GE(settled.size(), static_cast<size_t>(kRounds * 2));
  }

  TempFolder folder_;
  std::optional<CoordinatorProcess> coordinator_;
  int rounds_ = kRounds;
  int64_t elements_ = 4096;
  int starts_ = 0;
};

TEST_F(RestartTest, AKilledWorkerGoesOnAndNothingCountsTwice) {
  StartCoordinator("fragments: {count: 2}\nwire: {error_feedback: uplink}\n");
  Process first = StartWorker(0, coordinator_->address());
  Process second = StartWorker(1, coordinator_->address());
  for (const int kills : {1, 2, 3}) {
    // As many checkpoints later.
    const SteadyClock clock;
    const MonotonicTime deadline = clock.Now() + kPatience;
    const auto written = [this] {
      size_t count = 0;
      const std::string log = Log(0);
      for (size_t at = 0; (at = log.find("event=checkpoint_written", at)) != std::string::npos; ++at) ++count;
      return count;
    };
    const size_t before = written();
    while (written() < before + 2 && clock.Now() < deadline) poll(nullptr, 0, 2);
    first.Signal(SIGKILL);
    ASSERT_TRUE(first.Wait(kPatience).ok()) << kills;
    first = StartWorker(0, coordinator_->address());
  }
  for (Process* worker : {&first, &second}) {
    const absl::StatusOr<int> code = worker->Wait(kPatience);
    ASSERT_TRUE(code.ok() && *code == 0) << Log(0) << Log(1) << coordinator_->Log();
  }
  EXPECT_THAT(Log(0), HasSubstr("event=resumed"));
  const auto digests = Digests();
  for (int fragment = 0; fragment < 2; ++fragment) {
    EXPECT_TRUE(digests.contains({fragment, kRounds})) << fragment;
  }
  ExpectEachSettledOnce();
}

TEST_F(RestartTest, SigtermSuspendsAndTheSameCommandGoesOn) {
  StartCoordinator("fragments: {count: 2}\n");
  Process first = StartWorker(0, coordinator_->address());
  Process second = StartWorker(1, coordinator_->address());
  AwaitLog(0, "event=checkpoint_written");
  first.Signal(SIGTERM);
  first.Signal(SIGTERM);  // Twice in a row is once.
  const absl::StatusOr<int> suspended = first.Wait(kPatience);
  ASSERT_TRUE(suspended.ok() && *suspended == 0) << Log(0);
  // It is still a member.
  const absl::StatusOr<json> workers = coordinator_->Ctl({"worker", "list"});
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_EQ(workers->dump().find("LEFT"), std::string::npos) << workers->dump();
  first = StartWorker(0, coordinator_->address());
  for (Process* worker : {&first, &second}) {
    const absl::StatusOr<int> code = worker->Wait(kPatience);
    ASSERT_TRUE(code.ok() && *code == 0) << Log(0) << Log(1) << coordinator_->Log();
  }
  EXPECT_THAT(Log(0), HasSubstr("goes_on=there"));
  EXPECT_FALSE(Digests().empty());
  ExpectEachSettledOnce();
}

// While it joins, and while it waits for the others.
TEST_F(RestartTest, SigtermBeforeTrainingExitsWithZero) {
  std::filesystem::create_directory(folder_.File("w0.checkpoints"));
  Process joining = StartWorker(0, "127.0.0.1:1");
  ASSERT_TRUE(testing::WaitForFile(folder_.File("w0.checkpoints/LOCK"), kPatience).ok());
  joining.Signal(SIGTERM);
  EXPECT_EQ(joining.Wait(kPatience).value_or(-1), 0) << Log(0);

  StartCoordinator("");
  Process waiting = StartWorker(1, coordinator_->address());
  AwaitLog(1, "event=joined");
  waiting.Signal(SIGTERM);
  EXPECT_EQ(waiting.Wait(kPatience).value_or(-1), 0) << Log(1);
}

// Before the handler is there the signal ends the process by itself.
TEST_F(RestartTest, SigtermRightAfterTheStartEndsItAtOnce) {
  Process starting = StartWorker(0, "127.0.0.1:1");
  poll(nullptr, 0, 5);
  starting.Signal(SIGTERM);
  EXPECT_THAT(starting.Wait(kPatience).value_or(-1), ::testing::AnyOf(0, 128 + SIGTERM)) << Log(0);
}

// What was loaded is handed on, not kept beside what is made of it.
TEST_F(RestartTest, AResumedWorkerNeedsNoMoreMemoryThanAFreshOne) {
  rounds_ = 1000;  // More than it takes.
  StartCoordinator("fragments: {count: 4}\n");
  elements_ = 1'000'000;
  std::filesystem::create_directory(folder_.File("w0.checkpoints"));
  Process other = StartWorker(1, coordinator_->address());
  double peaks[2] = {};
  for (int session = 0; session < 2; ++session) {
    Process worker = StartWorker(0, coordinator_->address());
    // Three of its own, after the one that the suspension left.
    const std::string third = absl::StrFormat("w0.checkpoints/checkpoint-%08d", 4 * session + 2);
    ASSERT_TRUE(testing::WaitForFile(folder_.File(third), kPatience).ok()) << Log(0);
    peaks[session] = PeakMegabytes(worker);
    worker.Signal(SIGTERM);
    ASSERT_EQ(worker.Wait(kPatience).value_or(-1), 0) << Log(0);
  }
  EXPECT_THAT(Log(0), HasSubstr("goes_on=there"));
  EXPECT_GT(peaks[0], 8.0 * 4);  // Eight arrays of its parameters at least, so that the figure means something.
  EXPECT_LT(peaks[1], 1.15 * peaks[0]) << peaks[0];
}

TEST_F(RestartTest, ASecondProcessOnTheFolderNamesTheHolder) {
  StartCoordinator("");
  Process first = StartWorker(0, coordinator_->address());
  AwaitLog(0, "event=joined");
  Process again = StartWorker(0, coordinator_->address());
  EXPECT_NE(again.Wait(kPatience).value_or(0), 0);
  EXPECT_THAT(Log(0), HasSubstr(absl::StrFormat("is held by \"worker w0, pid %d\"", first.pid())));
}

}  // namespace
}  // namespace diloco
