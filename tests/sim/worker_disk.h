// A worker's disk, through all the lives of its process: its checkpoints, and which of them the test knows to be good.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/crash_points.h"
#include "tests/sim/disk.h"
#include "tests/sim/random.h"

namespace diloco::sim {

class WorkerDisk {
 public:
  static constexpr char kFolder[] = "own/checkpoints";

  explicit WorkerDisk(Random* random);

  FileSystem* files() { return &disk_; }

  // ---- Faults ----

  // The process dies at the `nth` change from now, from 0: in the midst of a checkpoint.
  void DieAt(uint64_t nth) { points_.ArmAt(nth); }
  void Disarm() { points_.Disarm(); }
  // It has done so.
  bool has_died() const { return died_; }
  // One byte of the newest checkpoint becomes another.
  void DamageNewest();
  // The process has ended.
  void EndProcess(bool power_cut, Disk::Unsynced unsynced);

  // ---- What the test knows ----

  // A checkpoint of the state after so many inner steps is about to be written; the newest one has been.
  void NoteBegun(int64_t step) { attempts_.push_back({.step = step, .path = "", .contents = ""}); }
  void NoteWritten();
  // `step`: of the checkpoint that a process goes on from; nullopt: it found none. Returns the rule that this breaks.
  std::optional<std::string> CheckLoaded(std::optional<int64_t> step);

 private:
  struct Attempt {
    int64_t step = 0;
    std::string path;      // Empty: it was not acknowledged, and may be there or not.
    std::string contents;  // As acknowledged.
  };
  std::string NewestPath();

  Random& random_;
  CrashPoints points_;
  Disk disk_;
  bool died_ = false;
  std::vector<Attempt> attempts_;  // Oldest first.
};

}  // namespace diloco::sim
