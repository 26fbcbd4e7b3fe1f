#include "coordinator/service/access.h"

#include "common/base/check.h"

namespace diloco {

Access AccessOf(Method method) {
  // No default: the compiler asks for the row of a new method.
  switch (method) {
    case Method::kDescribeRun:
    case Method::kProbe:
      return Access::kAnyRole;
    case Method::kJoin:
    case Method::kSession:
    case Method::kUpload:
    case Method::kSubscribe:
    case Method::kFetchSnapshot:
    case Method::kSeed:
      return Access::kTraining;
    case Method::kGetStatus:
    case Method::kListRounds:
    case Method::kDescribeRound:
    case Method::kListWorkers:
    case Method::kDescribeWorker:
    case Method::kListCheckpoints:
    case Method::kGetConfig:
    case Method::kWatchEvents:
      return Access::kReading;
    case Method::kSaveCheckpoint:
    case Method::kDrainWorker:
    case Method::kEvictWorker:
    case Method::kAdmitWorker:
    case Method::kRecoverConsensus:
    case Method::kPauseRun:
    case Method::kResumeRun:
    case Method::kStopRun:
    case Method::kExtendRun:
    case Method::kSetConfig:
      return Access::kChanging;
  }
  DILOCO_CHECK(false);
  return Access::kChanging;
}

bool Allows(Access access, Role role) {
  switch (access) {
    case Access::kAnyRole:
      return role != Role::kCoordinator;
    case Access::kTraining:
      return role == Role::kWorker;
    case Access::kReading:
      return role == Role::kViewer || role == Role::kAdmin;
    case Access::kChanging:
      return role == Role::kAdmin;
  }
  DILOCO_CHECK(false);
  return false;
}

const char* WhoIsAllowed(Access access) {
  switch (access) {
    case Access::kAnyRole:
      return "a worker, a viewer or an admin";
    case Access::kTraining:
      return "a worker";
    case Access::kReading:
      return "a viewer or an admin";
    case Access::kChanging:
      return "an admin";
  }
  DILOCO_CHECK(false);
  return "";
}

}  // namespace diloco
