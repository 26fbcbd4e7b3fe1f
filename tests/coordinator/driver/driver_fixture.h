// A driver with everything around it under the test's control: clock, executors, store in a temporary folder.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/layout/layout.h"
#include "coordinator/driver/driver.h"
#include "tests/support/temp_folder.h"

namespace diloco {

// Time that only the test moves. Thread-safe.
class FakeClock final : public Clock {
 public:
  MonotonicTime Now() const override { return {nanoseconds_.load()}; }
  void Advance(absl::Duration by) { nanoseconds_ += absl::ToInt64Nanoseconds(by); }

 private:
  std::atomic<int64_t> nanoseconds_ = 1'000'000'000;
};

// Runs tasks when the test says so, in its thread.
class ManualExecutor final : public Executor {
 public:
  void Submit(std::function<void()> task) override { tasks_.push_back(std::move(task)); }
  // False when there is none.
  bool RunOne();
  size_t size() const { return tasks_.size(); }
  // As a crash does.
  void Discard() { tasks_.clear(); }

 private:
  std::deque<std::function<void()>> tasks_;
};

// The operating system's files without waiting for the disk: what was written survives the end of a driver, as it does
// a killed process. Changes fail when told to.
class TestFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForAppend(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override;
  absl::Status Truncate(const std::string& path, uint64_t size) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status CreateFolder(const std::string& folder) override;
  absl::Status SyncFolder(const std::string& folder) override;
  absl::StatusOr<uint64_t> FreeBytes(const std::string&) override { return uint64_t{8192}; }
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(const std::string& path, const std::string& holder) override;

  // One line a change: "create PATH", "append PATH", "sync PATH", "truncate PATH", "rename PATH", "remove PATH",
  // "sync-folder PATH".
  std::vector<std::string> changes;
  // Those lines that begin with `prefix`, from the `nth` on (from 0) and `times` of them, fail with `status`; an append
  // has then written a half.
  void Fail(std::string prefix, int nth, int times, absl::Status status);

  // Notes the change; the error that it is to fail with, if any. For the files. From any
  // thread.
  absl::Status Change(const std::string& line);

 private:
  Mutex mutex_;  // Of what Change touches, while threads run.
  std::string failing_;
  int before_ = 0;
  int times_ = 0;
  absl::Status status_;
};

// What the driver told the world.
class RecordingObserver final : public DriverObserver {
 public:
  void OnPhase(RunPhase phase) override { phases.push_back(phase); }
  void OnConfigurationChanged(const Digest&, const Digest&) override { ++configuration_changes; }
  void OnMembers(const MemberCounts& counts) override { members = counts; }
  void OnWorkerLost(const std::string& worker) override { lost.push_back(worker); }
  void OnContribution(const ContributionId&, Verdict verdict, const std::string& reason) override {
    ++verdicts[verdict];
    reasons.push_back(reason);
  }
  void OnRoundWaiting(int, int64_t, const std::string& reason) override { waiting.push_back(reason); }
  void OnCommitted(int, int64_t, absl::Duration, int merged, int dropped, const std::string&) override {
    ++committed;
    merged_total += merged;
    dropped_total += dropped;
  }
  void OnOldestRound(const std::optional<OldestRound>& round) override { oldest = round; }
  void OnSettled(v1::Settlement settlement, bool late) override { ++settled[{settlement, late}]; }
  void OnJournaled(absl::Duration) override { ++journaled; }
  void OnJournalSize(uint64_t bytes) override { journal_bytes = bytes; }
  void OnSnapshot(int64_t version, absl::Duration, uint64_t) override { snapshots.push_back(version); }
  void OnCheckpointFailed(const absl::Status&) override { ++checkpoints_failed; }
  void OnCheckpoint(int64_t version, const std::string& path, absl::Duration) override {
    checkpoints.push_back(version);
    checkpoint_path = path;
  }
  void OnDiskRefused(DiskUser user, const std::string& sentence) override {
    ++refusals[user];
    refusal = sentence;
  }
  void OnHold(HoldCause cause, const std::string& reason) override {
    hold = reason;
    hold_cause = cause;
  }
  void OnStartAgain(const std::string& reason) override { start_again = reason; }
  void OnFatal(const absl::Status& status) override { fatal = status; }
  void OnRunFinished() override { finished = true; }

  std::vector<RunPhase> phases;
  int configuration_changes = 0;
  MemberCounts members;
  std::vector<std::string> lost;
  std::map<Verdict, int> verdicts;
  std::vector<std::string> reasons;
  std::vector<std::string> waiting;
  int committed = 0;
  int merged_total = 0;
  int dropped_total = 0;
  std::optional<OldestRound> oldest;
  std::map<std::pair<v1::Settlement, bool>, int> settled;  // By settlement, and whether late.
  int journaled = 0;
  uint64_t journal_bytes = 0;
  int checkpoints_failed = 0;
  HoldCause hold_cause = HoldCause::kDisk;
  std::vector<int64_t> snapshots;
  std::vector<int64_t> checkpoints;
  std::string checkpoint_path;
  std::map<DiskUser, int> refusals;
  std::string refusal;
  std::string hold;
  std::string start_again;
  absl::Status fatal;
  std::atomic<bool> finished = false;
};

// A run's configuration; more YAML lines may follow.
std::string RunYaml(int workers, int rounds, const std::string& uplink, const std::string& downlink,
                    const std::string& more = "");

// Two layers of 5 and 6 elements, so two fragments with short blocks.
std::vector<TensorSpec> TwoFragments();

// The answer of a request once it came.
template <typename Response>
using Answer = std::shared_ptr<std::optional<absl::StatusOr<Response>>>;
template <typename Response>
Reply<Response> Into(Answer<Response>* answer) {
  *answer = std::make_shared<std::optional<absl::StatusOr<Response>>>();
  return [slot = *answer](absl::StatusOr<Response> response) {
    DILOCO_CHECK(!slot->has_value());
    slot->emplace(std::move(response));
  };
}

// One coordinator on a data folder, in the test's thread.
class Coordinator {
 public:
  explicit Coordinator(std::string yaml);
  ~Coordinator() { Crash(); }

  // Opens the store and the driver. Also after Crash().
  absl::Status Start();
  // Drops the driver, the store and every task that has not run.
  void Crash();
  // Another configuration for the next start.
  void SetYaml(std::string yaml);

  // One small piece of work: what the driver has queued, or one task of an executor. False: nothing to do.
  bool PumpOne();
  void Pump();
  // The driver alone; work for the executors piles up.
  void PumpDriver() { driver->RunUntilIdle(); }

  // Sends a request, pumps, and returns its answer, which must have come.
  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(void (Driver::*method)(Request, Reply<Response>), Request request) {
    Answer<Response> answer;
    (driver.get()->*method)(std::move(request), Into(&answer));
    Pump();
    DILOCO_CHECK(answer->has_value());
    return **answer;
  }

  const RunConfig& config() const { return config_; }
  const std::string& data() const { return folder_.path(); }

  FakeClock clock;
  TestFileSystem files;
  ManualExecutor disk;
  ManualExecutor pool;
  RecordingObserver observer;
  std::unique_ptr<Store> store;
  std::unique_ptr<Driver> driver;

 private:
  testing::TempFolder folder_;
  std::string yaml_;
  RunConfig config_;
};

}  // namespace diloco
