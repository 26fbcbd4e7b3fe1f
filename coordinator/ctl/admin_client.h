// The administrators' plane as plain calls, each with a deadline.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/rpc/coordinator_link.h"
#include "diloco/v1/admin.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace diloco {

// Errors of every call: kUnavailable or kDeadlineExceeded, with the address, when the coordinator cannot be reached
// within the timeout; what CoordinatorLink::Diagnose finds to be wrong with either end's certificate; else what the
// service says (see admin.proto). Thread-safe.
class AdminClient {
 public:
  // `channel`: one over `link`. `run_id`: empty for whatever run the coordinator has.
  AdminClient(const std::shared_ptr<grpc::Channel>& channel, CoordinatorLink link, std::string run_id,
              absl::Duration timeout);
  ~AdminClient();

  absl::StatusOr<v1::GetStatusResponse> GetStatus() const;
  // `limit`: 0 for the service's default.
  absl::StatusOr<v1::ListRoundsResponse> ListRounds(uint32_t limit) const;
  absl::StatusOr<v1::DescribeRoundResponse> DescribeRound(int64_t round) const;
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers() const;
  absl::StatusOr<v1::GetConfigResponse> GetConfig() const;
  absl::StatusOr<v1::DescribeWorkerResponse> DescribeWorker(const std::string& worker) const;
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints() const;
  absl::StatusOr<v1::SaveCheckpointResponse> SaveCheckpoint() const;
  absl::StatusOr<v1::DrainWorkerResponse> DrainWorker(const std::string& worker) const;
  absl::StatusOr<v1::EvictWorkerResponse> EvictWorker(const std::string& worker) const;
  absl::StatusOr<v1::AdmitWorkerResponse> AdmitWorker(const std::string& worker) const;
  // The run id is filled in.
  absl::StatusOr<v1::RecoverConsensusResponse> RecoverConsensus(const v1::RecoverConsensusRequest& request) const;
  absl::StatusOr<v1::PauseRunResponse> PauseRun() const;
  absl::StatusOr<v1::ResumeRunResponse> ResumeRun() const;
  absl::StatusOr<v1::StopRunResponse> StopRun() const;
  absl::StatusOr<v1::ExtendRunResponse> ExtendRun(int64_t rounds) const;
  // The run id is filled in.
  absl::StatusOr<v1::SetConfigResponse> SetConfig(const v1::SetConfigRequest& request) const;
  // Calls `take` with each event until it returns false or the stream ends, which of one that follows is kUnavailable.
  // The run id is filled in. While it follows, nothing limits how long no event comes; else the timeout does.
  absl::Status WatchEvents(v1::WatchEventsRequest request,
                           const std::function<bool(const v1::WatchEventsResponse&)>& take) const;

 private:
  class Caller;  // Keeps gRPC's headers out of every command.
  const std::unique_ptr<const Caller> caller_;
};

}  // namespace diloco
