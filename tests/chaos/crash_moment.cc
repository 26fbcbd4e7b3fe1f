#include "tests/chaos/crash_moment.h"

#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "tests/chaos/coordinator_log.h"

namespace diloco::testing {
namespace {

using FragmentRoundKey = std::pair<int, int64_t>;

struct LogFacts {
  std::string phase;
  std::map<FragmentRoundKey, std::set<std::string>> stored;  // Workers.
  std::set<FragmentRoundKey> merged;
  std::set<FragmentRoundKey> published;
};

LogFacts ReadLog(const std::string& text) {
  LogFacts facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string event = LogField(line, "event");
    if (event == "phase") facts.phase = LogField(line, "phase");
    if (event != "contribution" && event != "round_merged" && event != "round_committed") continue;
    const FragmentRoundKey key = {std::stoi(LogField(line, "fragment")), std::stoll(LogField(line, "round"))};
    if (event == "contribution" && LogField(line, "verdict") == "stored")
      facts.stored[key].insert(LogField(line, "worker"));
    if (event == "round_merged") facts.merged.insert(key);
    if (event == "round_committed") facts.published.insert(key);
  }
  return facts;
}

bool HoldsUnfinishedFile(const std::string& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".tmp") return true;
  }
  return false;
}

}  // namespace

const char* NameOf(CrashState state) {
  switch (state) {
    case CrashState::kSeeding:
      return "seeding";
    case CrashState::kWaiting:
      return "waiting";
    case CrashState::kCollecting:
      return "collecting";
    case CrashState::kMerging:
      return "merging";
    case CrashState::kCommitting:
      return "committing";
    case CrashState::kNotPublished:
      return "not published";
    case CrashState::kSnapshotting:
      return "snapshotting";
    case CrashState::kEnding:
      return "ending";
    case CrashState::kEnded:
      return "ended";
  }
  return "";
}

std::set<CrashState> StatesAtCrash(Cluster& cluster, int workers, int64_t rounds, uint64_t log_offset) {
  std::set<CrashState> states;
  if (HoldsUnfinishedFile(cluster.coordinator().data_folder())) states.insert(CrashState::kSnapshotting);
  const absl::StatusOr<JournalReplay> replay = cluster.Replay();
  if (!replay.ok()) {
    states.insert(CrashState::kSeeding);
    return states;
  }
  const LogFacts log = ReadLog(cluster.coordinator().Log().substr(log_offset));
  if (log.phase == "waiting_for_workers" || log.phase == "seeding") {
    states.insert(CrashState::kWaiting);
    return states;
  }
  bool all_committed = true;
  for (int f = 0; f < replay->fragments(); ++f) {
    const FragmentRoundKey oldest = {f, replay->version(f)};
    const FragmentRoundKey newest = {f, replay->version(f) - 1};
    if (log.merged.contains(newest) && !log.published.contains(newest)) states.insert(CrashState::kNotPublished);
    if (oldest.second == rounds) continue;
    all_committed = false;
    const auto stored = log.stored.find(oldest);
    if (log.merged.contains(oldest)) {
      states.insert(CrashState::kCommitting);
    } else if (stored != log.stored.end() && static_cast<int>(stored->second.size()) == workers) {
      states.insert(CrashState::kMerging);
    } else {
      states.insert(CrashState::kCollecting);
    }
  }
  if (replay->ended()) {
    states.insert(CrashState::kEnded);
  } else if (all_committed) {
    states.insert(CrashState::kEnding);
  }
  return states;
}

}  // namespace diloco::testing
