// The calls that the coordinator serves, for metrics.
#pragma once

#include <cstddef>

namespace diloco {

enum class Method : size_t {
  kDescribeRun,
  kJoin,
  kSession,
  kUpload,
  kSubscribe,
  kFetchSnapshot,
  kSeed,
  kGetStatus,
  kListRounds,
  kDescribeRound,
  kListWorkers,
  kSaveCheckpoint,
  kDrainWorker,
  kEvictWorker,
  kAdmitWorker,
  kRecoverConsensus,
  kDescribeWorker,
  kListCheckpoints,
  kProbe,
  kPauseRun,
  kResumeRun,
  kStopRun,
  kExtendRun,
  kSetConfig,
  kGetConfig,
  kWatchEvents,
};

inline constexpr const char* kMethodNames[] = {
    "DescribeRun", "Join",        "Session",     "Upload",           "Subscribe",      "FetchSnapshot",
    "Seed",        "GetStatus",   "ListRounds",  "DescribeRound",    "ListWorkers",    "SaveCheckpoint",
    "DrainWorker", "EvictWorker", "AdmitWorker", "RecoverConsensus", "DescribeWorker", "ListCheckpoints",
    "Probe",       "PauseRun",    "ResumeRun",   "StopRun",          "ExtendRun",      "SetConfig",
    "GetConfig",   "WatchEvents"};

}  // namespace diloco
