#include "tests/sim/check/folder_scan.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "diloco/v1/worker.pb.h"

namespace diloco::sim {
namespace {

constexpr size_t kBlock = 4096;
constexpr uint32_t kKindRun = 1;
constexpr uint32_t kKindDelta = 4;
constexpr uint32_t kKindEnd = 5;
constexpr std::string_view kCommit =
    "\x89"
    "DLCMIT\n";
constexpr std::string_view kCommitEnd = "\nDLEND\x8F\xA5";
constexpr std::string_view kRecord =
    "\x89"
    "DLR";

template <typename Integer>
Integer Load(std::string_view bytes, size_t at) {
  Integer value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

size_t NextBlock(size_t at) { return (at + kBlock - 1) / kBlock * kBlock; }

std::string ReadAll(FileSystem* files, const std::string& path) {
  const auto file = files->OpenForRead(path);
  if (!file.ok()) return "";
  std::string bytes((*file)->Size().value_or(0), '\0');
  const auto read = (*file)->ReadAt(0, bytes.data(), bytes.size());
  bytes.resize(read.value_or(0));
  return bytes;
}

// What snapshots of an older generation hold is no part of the run any more.
bool EnterGeneration(uint32_t generation, FolderScan* scan) {
  if (generation > scan->generation) scan->snapshots.clear();
  scan->generation = std::max(scan->generation, generation);
  return generation == scan->generation;
}

void AddGroup(uint32_t kind, std::vector<std::string> records, std::string payload, FolderScan* scan) {
  if (kind == kKindEnd) scan->end = records.empty() ? payload : records.front();
  v1::RunRecord run;
  if (kind == kKindRun && run.ParseFromString(records.empty() ? payload : records.front())) {
    EnterGeneration(run.generation(), scan);
  }
  if (kind != kKindDelta) return;
  v1::SubscribeResponse message;
  if (!message.ParseFromString(payload) || !message.has_commit()) return;
  records.push_back(std::move(payload));
  scan->deltas[{static_cast<int>(message.commit().fragment()), message.commit().round()}] = std::move(records);
}

void ScanJournal(std::string_view bytes, FolderScan* scan) {
  size_t at = kBlock;
  std::vector<std::string> records;
  while (at + 16 <= bytes.size()) {
    if (bytes.substr(at, kRecord.size()) == kRecord) {
      const size_t size = Load<uint32_t>(bytes, at + 4);
      if (at + 16 + size > bytes.size()) return;
      records.emplace_back(bytes.substr(at + 16, size));
      at += 16 + size;
      continue;
    }
    at = NextBlock(at);
    if (at + kBlock > bytes.size()) return;
    const std::string_view block = bytes.substr(at, kBlock);
    if (!block.starts_with(kCommit) || block.substr(kBlock - kCommitEnd.size()) != kCommitEnd) {
      return;
    }
    AddGroup(Load<uint32_t>(block, 12), std::move(records), std::string(block.substr(56, Load<uint32_t>(block, 48))),
             scan);
    records.clear();
    at += kBlock;
  }
}

// Paths of whole files, by the digits of their names.
std::map<std::string, std::string> FilesOf(const std::vector<std::string>& names, const std::string& folder,
                                           std::string_view prefix) {
  std::map<std::string, std::string> found;
  for (const std::string& name : names) {
    if (!name.starts_with(prefix) || name.ends_with(".tmp")) continue;
    found[name.substr(prefix.size())] = absl::StrCat(folder, "/", name);
  }
  return found;
}

void ScanSnapshot(std::string_view bytes, FolderScan* scan) {
  if (bytes.size() < kBlock) return;
  const size_t record_bytes = Load<uint64_t>(bytes, 24);
  FolderScan::Snapshot snapshot;
  if (kBlock + record_bytes > bytes.size() ||
      !snapshot.record.ParseFromArray(bytes.data() + kBlock, static_cast<int>(record_bytes)) ||
      !EnterGeneration(snapshot.record.run().generation(), scan)) {
    return;
  }
  snapshot.raw = bytes.substr(NextBlock(kBlock + record_bytes), snapshot.record.consensus_bytes());
  scan->snapshots[snapshot.record.version()] = std::move(snapshot);
}

}  // namespace

FolderScan ScanFolder(FileSystem* files, const std::string& folder) {
  FolderScan scan;
  const std::vector<std::string> names = files->List(folder).value_or(std::vector<std::string>());
  std::string oldest;  // Digits of the oldest snapshot of the newest generation.
  for (const auto& [digits, path] : FilesOf(names, folder, "snapshot-")) {
    const uint32_t generation = scan.generation;
    ScanSnapshot(ReadAll(files, path), &scan);
    if (oldest.empty() || scan.generation > generation) oldest = digits;
  }
  // What is older than that snapshot's journal, or than the one that goes on where it has none, is of the past.
  const std::map<std::string, std::string> journals = FilesOf(names, folder, "journal-");
  auto from = journals.upper_bound(oldest);
  if (from != journals.begin()) --from;
  for (; from != journals.end(); ++from) ScanJournal(ReadAll(files, from->second), &scan);
  return scan;
}

}  // namespace diloco::sim
