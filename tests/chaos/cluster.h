// A coordinator and its workers, each a process of its own on this machine, that a test disturbs; and the oracle that
// says afterwards whether the run is what it should be.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "nlohmann/json.hpp"
#include "tests/chaos/folder_copy.h"
#include "tests/chaos/journal_replay.h"
#include "tests/chaos/mounted_disk.h"
#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"

namespace diloco::testing {

struct ClusterOptions {
  std::string config_yaml;
  int workers = 2;
  int64_t elements = 20000;
  int tensors = 6;
  absl::Duration step_time = absl::Milliseconds(10);
  CoordinatorProcess::Options coordinator;
  std::vector<std::string> worker_environment;
  bool checkpoints = false;  // Of the workers, each round: one that was killed resumes.
  int64_t disk_bytes = 0;    // Of a disk for the coordinator's data folder; 0: it lies where all else does.
};

class Cluster {
 public:
  explicit Cluster(ClusterOptions options);
  // When the test has failed the folder stays, and its name is printed.
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // The coordinator, and every worker.
  absl::Status Start();
  absl::Status StartCoordinator() { return coordinator_.Start(); }
  // A new process, which reaches the coordinator directly or through `address`, with `launcher` before its command
  // line.
  void StartWorker(int worker);
  void StartWorkerThrough(int worker, const std::string& address, const std::vector<std::string>& launcher = {});
  // kill -9.
  void KillWorker(int worker);
  Process& worker(int worker) { return *workers_.at(static_cast<size_t>(worker)).process; }
  int workers() const { return options_.workers; }
  static std::string IdOf(int worker);

  CoordinatorProcess& coordinator() { return coordinator_; }
  const std::optional<MountedDisk>& disk() const { return disk_; }  // Absent: not asked for, or not allowed here.
  // Rounds that every fragment has committed; -1: the coordinator did not answer.
  int64_t RoundsCommitted() const;
  // Looks every 50 ms until `holds`. Errors: kDeadlineExceeded, with the coordinator's log.
  absl::Status Await(const std::function<bool()>& holds, absl::Duration deadline = kPatience) const;
  // Waits until that many rounds are committed. Errors: kDeadlineExceeded.
  absl::Status AwaitRounds(int64_t rounds, absl::Duration deadline = kPatience) const;
  // Every worker ends by itself, with 0. Errors: what did not, with its log.
  absl::Status AwaitEnd(absl::Duration deadline = kPatience);

  // The first round from `round` on whose global delta, of fragment 0, merged all workers; -1: none yet.
  int64_t RoundOfEverybody(int64_t round);
  // Waits for such a round. Errors: kDeadlineExceeded.
  absl::Status AwaitEverybody(int64_t round, absl::Duration deadline = 2 * kPatience);

  // What a worker's processes traced, oldest first; each line has its process's number as "process".
  std::vector<nlohmann::json> TraceOf(int worker) const;
  std::string LogOf(int worker) const;

  // What is durable, now.
  absl::StatusOr<JournalReplay> Replay() { return JournalReplay::Read(copy_.CatchUp()); }
  // The oracle: the journal replays without a contradiction, and every version that any worker ever had is in it, with
  // the same digest. Errors: what is not so.
  absl::Status CheckNothingLost();
  // And the run has ended: so says the journal, and each worker whose process ended by itself has the final consensus.
  absl::Status CheckEndedWell();

  const TempFolder& folder() const { return folder_; }

 private:
  struct Worker {
    std::optional<Process> process;
    int started = 0;  // Processes.
  };

  const ClusterOptions options_;
  const TempFolder folder_;
  CoordinatorProcess coordinator_;
  const std::optional<MountedDisk> disk_;  // Before what watches the folder.
  FolderCopy copy_;
  std::vector<Worker> workers_;
};

}  // namespace diloco::testing
