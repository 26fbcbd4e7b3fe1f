// The coordinator's disk is full, read-only or broken under a real run: what was published is found again, what was not
// durable was not published, and the run ends with the consensus that its journal says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "tests/chaos/is_ok.h"
#include "tests/chaos/journal_replay.h"
#include "tests/chaos/mounted_disk.h"
#include "tests/chaos/preload.h"
#include "tests/support/coordinator_process.h"
#include "tests/support/line_watch.h"
#include "tests/support/process.h"

namespace diloco::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int kWorkers = 2;
constexpr int kRounds = 60;  // More than go by while a test looks.
constexpr int kFragments = 2;

std::string Config() {
  return absl::StrFormat(
      "run: {id: disk, workers: %d, rounds: %d}\n"
      "method: eager\n"
      "inner_steps: 4\n"
      "fragments: {count: %d}\n"
      "rounds: {heartbeat_interval: 100ms, lease: 20s, snapshot_every: 8}\n",
      kWorkers, kRounds, kFragments);
}

// Not a Cluster: that keeps second names of the data folder's files, which another disk cannot have.
class DiskTest : public ::testing::Test {
 protected:
  DiskTest() : folder_(std::make_unique<TempFolder>()) {}

  std::string data() const { return folder_->File("data"); }
  void Start(std::vector<std::string> environment = {}) {
    coordinator_ = std::make_unique<CoordinatorProcess>(
        folder_->path(), Config(), CoordinatorProcess::Options{.arguments = {}, .environment = std::move(environment)});
    ASSERT_TRUE(IsOk(coordinator_->Start()));
    for (int m = 0; m < kWorkers; ++m) {
      const std::string id = absl::StrCat("w", m);
      absl::StatusOr<Process> worker =
          Process::Start({.arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", coordinator_->address(), "--id", id,
                                        "--worker", std::to_string(m), "--elements", "60000", "--tensors", "4",
                                        "--step-ms", "15", "--trace", folder_->File(id + ".jsonl")},
                          .output_path = folder_->File(id + ".log")});
      ASSERT_TRUE(worker.ok()) << worker.status();
      workers_.push_back(*std::move(worker));
    }
  }
  CoordinatorProcess& coordinator() { return *coordinator_; }

  // Whatever the exit code: it is 6 for a run that is held.
  json Status() const {
    const absl::StatusOr<Finished> finished =
        RunProcess({Program("dilococtl"), "--coordinator", coordinator_->address(), "-o", "json", "status"}, kPatience);
    if (!finished.ok()) return json();
    json status = json::parse(finished->output, nullptr, /*allow_exceptions=*/false);
    if (status.is_object()) status["exit_code"] = finished->exit_code;
    return status;
  }
  static int64_t Rounds(const json& status) {
    return status.is_object() ? std::stoll(status.value("rounds_committed", std::string("0"))) : -1;
  }
  // The first status that `wanted` accepts.
  json Await(const std::function<bool(const json&)>& wanted) const {
    const absl::Time deadline = absl::Now() + kPatience;
    json status;
    do {
      status = Status();
      if (status.is_object() && wanted(status)) return status;
    } while (absl::Now() < deadline);
    ADD_FAILURE() << status.dump() << coordinator_->Log();
    return status;
  }
  json AwaitHeld() const {
    return Await([](const json& status) { return status.at("state") == "RUN_STATE_HOLDING"; });
  }
  json AwaitRounds(int64_t rounds) const {
    return Await([rounds](const json& status) { return Rounds(status) >= rounds; });
  }

  Finished Ctl(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {Program("dilococtl"), "--coordinator", coordinator_->address()});
    absl::StatusOr<Finished> finished = RunProcess(arguments, kPatience);
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.ok() ? *finished : Finished();
  }

  // The workers end well, and all that they ever saw of the consensus beyond version `from` is one history: the
  // journal's, as far back as that is kept.
  void ExpectEndsWell(int64_t from = -1) {
    for (int m = 0; m < kWorkers; ++m) {
      const absl::StatusOr<int> exit_code = workers_[static_cast<size_t>(m)].Wait(2 * kPatience);
      ASSERT_TRUE(exit_code.ok() && *exit_code == 0)
          << exit_code.status() << ReadFile(folder_->File(absl::StrCat("w", m, ".log"))) << coordinator_->Log();
    }
    const absl::StatusOr<JournalReplay> replay = JournalReplay::Read(data());
    ASSERT_TRUE(replay.ok()) << replay.status();
    EXPECT_TRUE(replay->ended());
    std::map<std::pair<int, int64_t>, std::string> seen;
    for (int m = 0; m < kWorkers; ++m) {
      std::istringstream lines(ReadFile(folder_->File(absl::StrCat("w", m, ".jsonl"))));
      for (std::string line; std::getline(lines, line);) {
        const json entry = json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (entry.is_discarded() || entry.at("event") != "consensus") continue;
        const int fragment = entry.at("fragment");
        const int64_t version = entry.at("version");
        const std::string digest = entry.at("digest");
        if (version <= from) continue;
        EXPECT_EQ(seen.try_emplace({fragment, version}, digest).first->second, digest) << line;
        const std::optional<Digest> journaled = replay->DigestOf(fragment, version);
        if (journaled) {
          EXPECT_EQ(journaled->Hex(), digest) << line;
        }
      }
    }
    for (int f = 0; f < kFragments; ++f) {
      EXPECT_EQ(replay->version(f), kRounds);
      EXPECT_TRUE(seen.contains({f, kRounds}));
    }
  }

  std::unique_ptr<TempFolder> folder_;
  std::unique_ptr<CoordinatorProcess> coordinator_;
  std::vector<Process> workers_;
};

TEST_F(DiskTest, AFullDiskHoldsTheRunUntilThereIsSpaceAgain) {
  const absl::StatusOr<MountedDisk> disk = MountedDisk::Memory(data(), 8 << 20);
  if (!disk.ok()) GTEST_SKIP() << disk.status();
  ASSERT_NO_FATAL_FAILURE(Start());
  AwaitRounds(2);
  disk->Fill();
  const json held = AwaitHeld();
  EXPECT_EQ(held.at("exit_code"), 6);
  EXPECT_THAT(held.at("reason").get<std::string>(),
              ::testing::MatchesRegex(absl::StrCat("cannot write to \"", data(),
                                                   "/journal-[0-9]+\": No space left on device \\([0-9]+ bytes free\\)"
                                                   "; tried again in [0-9]+s, and goes on by itself once the disk has "
                                                   "room")));
  httplib::Client http("127.0.0.1", coordinator().http_port());
  EXPECT_EQ(http.Get("/readyz")->status, 200);
  EXPECT_THAT(http.Get("/readyz")->body, HasSubstr("holding: cannot write to"));
  EXPECT_THAT(http.Get("/metrics")->body, HasSubstr("diloco_run_phase{phase=\"holding\"} 1"));
  EXPECT_THAT(coordinator().Log(), HasSubstr("event=holding reason=\"cannot write to"));
  // Held, and alive for longer than a lease would last without heartbeats being taken.
  const json again = Status();
  EXPECT_EQ(Rounds(again), Rounds(held));
  EXPECT_EQ(again.at("workers_alive"), kWorkers);

  disk->Free();
  AwaitRounds(Rounds(held) + 2);
  EXPECT_THAT(http.Get("/readyz")->body, ::testing::StrEq("ready\n"));
  coordinator().Kill();
  ASSERT_TRUE(IsOk(coordinator().Start()));
  EXPECT_GE(Rounds(Status()), Rounds(held) + 2);
  ASSERT_NO_FATAL_FAILURE(ExpectEndsWell());
}

// And killed while it is held: a lock file and a journal are there to start from without a byte of space.
TEST_F(DiskTest, KilledWithAFullDiskItStartsAndIsHeldAgain) {
  const absl::StatusOr<MountedDisk> disk = MountedDisk::Memory(data(), 8 << 20);
  if (!disk.ok()) GTEST_SKIP() << disk.status();
  ASSERT_NO_FATAL_FAILURE(Start());
  AwaitRounds(2);
  disk->Fill();
  const json held = AwaitHeld();
  coordinator().Kill();
  ASSERT_TRUE(IsOk(coordinator().Start()));
  EXPECT_EQ(Rounds(AwaitHeld()), Rounds(held));
  disk->Free();
  ASSERT_NO_FATAL_FAILURE(ExpectEndsWell());
}

TEST_F(DiskTest, AReadOnlyDiskHoldsTheRun) {
  absl::StatusOr<MountedDisk> disk = MountedDisk::Image(data(), folder_->File("image"), 16 << 20);
  if (!disk.ok()) GTEST_SKIP() << disk.status();
  ASSERT_NO_FATAL_FAILURE(Start());
  AwaitRounds(2);
  if (const absl::Status status = disk->BecomeReadOnly(); !status.ok()) GTEST_SKIP() << status;
  // Where the error comes between a write and its sync, the process ends instead, as it has to.
  const absl::StatusOr<std::string> outcome =
      LineWatch(coordinator().log_path(), 0)
          .Next(
              [](const std::string& line) {
                return absl::StrContains(line, "event=holding") || absl::StrContains(line, "may be lost");
              },
              kPatience);
  ASSERT_TRUE(outcome.ok()) << outcome.status() << coordinator().Log();
  int64_t committed = 2;
  if (absl::StrContains(*outcome, "event=holding")) {
    const json held = AwaitHeld();
    committed = Rounds(held);
    EXPECT_THAT(held.at("reason").get<std::string>(), HasSubstr("Read-only file system"));
    EXPECT_THAT(held.at("reason").get<std::string>(), HasSubstr("once the disk can be written to"));
    EXPECT_EQ(held.at("workers_alive"), kWorkers);
    coordinator().Kill();
  } else {
    const absl::StatusOr<int> exit_code = coordinator().process().Wait(kPatience);
    ASSERT_TRUE(exit_code.ok()) << exit_code.status();
    EXPECT_EQ(*exit_code, 1);
  }
  ASSERT_TRUE(IsOk(disk->MountAgain()));
  ASSERT_TRUE(IsOk(coordinator().Start()));
  EXPECT_GE(Rounds(Status()), committed);
  ASSERT_NO_FATAL_FAILURE(ExpectEndsWell());
}

TEST_F(DiskTest, ALostDiskIsRecoveredFromTheWorkerThatIsFurthestAhead) {
  ASSERT_NO_FATAL_FAILURE(Start());
  AwaitRounds(4);
  coordinator().Kill();
  std::filesystem::remove_all(data());
  ASSERT_TRUE(IsOk(coordinator().Start()));
  const json held = AwaitHeld();
  const std::string reason = held.at("reason");
  EXPECT_THAT(reason, HasSubstr("and this data folder has nothing"));
  EXPECT_EQ(held.at("snapshot_version"), "-1");
  // Both come back, and it says who is further ahead.
  const json both = Await([](const json& status) { return status.at("workers_alive") == kWorkers; });
  const std::string advice = both.at("reason");
  const size_t at = advice.find("--from ") + 7;
  const std::string worker = advice.substr(at, advice.find('`', at) - at);
  EXPECT_EQ(Ctl({"run", "recover", "--from", worker}).exit_code, 2);  // There is nobody to ask.
  const Finished recovered = Ctl({"-o", "json", "run", "recover", "--from", worker, "--yes"});
  ASSERT_EQ(recovered.exit_code, 0) << recovered.errors;
  const int64_t version = std::stoll(json::parse(recovered.output).at("version").get<std::string>());
  EXPECT_GE(version, 4);
  const json goes_on = AwaitRounds(version);
  EXPECT_NE(goes_on.at("state"), "RUN_STATE_HOLDING");
  ASSERT_NO_FATAL_FAILURE(ExpectEndsWell(version));
}

TEST_F(DiskTest, AnOlderFolderIsTakenOnlyWhenTheOperatorSaysSo) {
  ASSERT_NO_FATAL_FAILURE(Start());
  AwaitRounds(3);
  coordinator().Kill();
  std::filesystem::copy(data(), folder_->File("copy"), std::filesystem::copy_options::recursive);
  ASSERT_TRUE(IsOk(coordinator().Start()));
  const int64_t copied = Rounds(Status());
  AwaitRounds(copied + 4);
  coordinator().Kill();
  const absl::StatusOr<JournalReplay> replay = JournalReplay::Read(data());
  ASSERT_TRUE(replay.ok()) << replay.status();
  const int64_t lost = std::max(replay->version(0), replay->version(1));
  ASSERT_LT(lost, kRounds) << "the run has ended";
  std::filesystem::remove_all(data());
  std::filesystem::rename(folder_->File("copy"), data());
  ASSERT_TRUE(IsOk(coordinator().Start()));
  EXPECT_LE(Rounds(AwaitHeld()), lost - 4);
  const Finished discarded = Ctl({"run", "recover", "--discard-workers", "--yes"});
  ASSERT_EQ(discarded.exit_code, 0) << discarded.errors;
  ASSERT_NO_FATAL_FAILURE(ExpectEndsWell(lost));
}

TEST_F(DiskTest, AfterAFailedSyncNothingOfTheRoundIsPublishedAndTheProcessEnds) {
  const std::string when = folder_->File("fail");
  ASSERT_NO_FATAL_FAILURE(Start(FailingSync("/journal-", when)));
  AwaitRounds(2);
  WriteFile(when, "");
  const absl::StatusOr<int> exit_code = coordinator().process().Wait(kPatience);
  ASSERT_TRUE(exit_code.ok()) << coordinator().Log();
  EXPECT_EQ(*exit_code, 1);
  EXPECT_FALSE(std::filesystem::exists(when));
  EXPECT_THAT(coordinator().Log(),
              ::testing::ContainsRegex("diloco-coordinator: cannot sync \"[^\"]*/journal-[0-9]+\": "
                                       "Input/output error; what was written since the last "
                                       "sync may be lost"));
  // What the workers have is no more than what the next process finds.
  const absl::StatusOr<JournalReplay> replay = JournalReplay::Read(data());
  ASSERT_TRUE(replay.ok()) << replay.status();
  for (int m = 0; m < kWorkers; ++m) {
    std::istringstream lines(ReadFile(folder_->File(absl::StrCat("w", m, ".jsonl"))));
    for (std::string line; std::getline(lines, line);) {
      const json entry = json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (entry.is_discarded() || entry.at("event") != "consensus") continue;
      EXPECT_LE(entry.at("version").get<int64_t>(), replay->version(entry.at("fragment"))) << line;
    }
  }
  ASSERT_TRUE(IsOk(coordinator().Start()));
  ASSERT_NO_FATAL_FAILURE(ExpectEndsWell());
}

}  // namespace
}  // namespace diloco::testing
