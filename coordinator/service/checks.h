// PURE: the form of requests, checked before they reach the driver: names, sizes, counts, ranges. What they mean for
// the run is the driver's to say. Errors: kInvalidArgument.
#pragma once

#include <string>

#include "absl/status/status.h"

#include "common/base/name.h"
#include "diloco/v1/admin.pb.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

absl::Status CheckForm(const v1::DescribeRunRequest& request);
absl::Status CheckForm(const v1::JoinRequest& request);
absl::Status CheckForm(const v1::SessionRequest& request);
// All but the checksum. What is wrong with the contribution itself is no error of the call: it gets a verdict.
absl::Status CheckForm(const v1::UploadRequest& request);
absl::Status CheckForm(const v1::SubscribeRequest& request);
absl::Status CheckForm(const v1::FetchSnapshotRequest& request);
// One piece, without its place among the others.
absl::Status CheckForm(const v1::SeedRequest& request);

absl::Status CheckForm(const v1::ProbeRequest& request);
absl::Status CheckForm(const v1::SetConfigRequest& request);

// The administrators' requests carry a run id, and nothing else of any length.
template <typename Request>
absl::Status CheckAdminForm(const Request& request) {
  v1::DescribeRunRequest same;
  same.set_run_id(request.run_id());
  return CheckForm(same);
}

// Those that are about one worker carry its id too.
template <typename Request>
absl::Status CheckWorkerForm(const Request& request) {
  if (const absl::Status status = CheckAdminForm(request); !status.ok()) return status;
  return ValidateName("worker id", request.worker_id());
}

// False: the payload was damaged on its way.
bool PayloadIsGood(const v1::UploadRequest& request);
bool PayloadIsGood(const v1::SeedRequest& request);

}  // namespace diloco
