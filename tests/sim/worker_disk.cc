#include "tests/sim/worker_disk.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "tests/sim/heap.h"

namespace diloco::sim {
namespace {

// More than lie in a folder.
constexpr size_t kAttemptsKept = 32;

}  // namespace

WorkerDisk::WorkerDisk(Random* random) : random_(*random), disk_(random, &points_) {
  disk_.SetOnDeath([this] { died_ = true; });
}

std::string WorkerDisk::NewestPath() {
  std::string newest;
  const absl::StatusOr<std::vector<std::string>> names = disk_.List(kFolder);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    if (absl::StartsWith(name, "checkpoint-") && !absl::EndsWith(name, ".tmp")) newest = std::max(newest, name);
  }
  return newest.empty() ? "" : absl::StrCat(kFolder, "/", newest);
}

void WorkerDisk::DamageNewest() {
  const std::string path = NewestPath();
  if (path.empty()) return;
  std::string contents = disk_.Contents(path);
  if (contents.empty()) return;
  contents[static_cast<size_t>(random_.Below(contents.size()))] ^= static_cast<char>(1 << random_.Below(8));
  disk_.SetContents(path, std::move(contents));
}

void WorkerDisk::EndProcess(bool power_cut, Disk::Unsynced unsynced) {
  died_ = false;
  points_.Disarm();
  if (power_cut) {
    disk_.PowerCut(unsynced);
  } else {
    disk_.Kill();
  }
}

void WorkerDisk::NoteWritten() {
  const HeapScope own(kHeapOfTest);
  DILOCO_CHECK(!attempts_.empty());
  attempts_.back().path = NewestPath();
  attempts_.back().contents = disk_.Contents(attempts_.back().path);
  if (attempts_.size() > kAttemptsKept) attempts_.erase(attempts_.begin());
}

std::optional<std::string> WorkerDisk::CheckLoaded(std::optional<int64_t> step) {
  const HeapScope own(kHeapOfTest);
  for (auto attempt = attempts_.rbegin(); attempt != attempts_.rend(); ++attempt) {
    if (step == attempt->step) return std::nullopt;
    // All that were kept may be damaged, and the older ones removed.
    const bool there = !attempt->path.empty() && disk_.Exists(attempt->path);
    if (!there || disk_.Contents(attempt->path) != attempt->contents) continue;
    return absl::StrFormat("\"%s\", of step %d, is as it was written, but the worker goes on from %s", attempt->path,
                           attempt->step, step ? absl::StrCat("step ", *step) : "nothing");
  }
  if (step) return absl::StrFormat("a worker goes on from step %d, which no checkpoint was made of", *step);
  return std::nullopt;
}

}  // namespace diloco::sim
