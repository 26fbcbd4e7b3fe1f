// Measures the way to a coordinator with WorkerService.Probe.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "diloco/v1/worker.grpc.pb.h"

namespace diloco {

// One probe: a stream, on which each question is asked in turn. Not thread-safe.
class LinkProbe {
 public:
  // `run_id`: empty for whatever run the coordinator has. `limit`: for the whole probe, at most kMaxProbeTime; whatever
  // is not answered by then fails.
  LinkProbe(v1::WorkerService::StubInterface* stub, std::string run_id, absl::Duration limit);
  // Ends the call.
  ~LinkProbe();
  LinkProbe(const LinkProbe&) = delete;
  LinkProbe& operator=(const LinkProbe&) = delete;

  // Errors of all three: those of the call (see worker.proto).
  // The median of some empty exchanges.
  absl::StatusOr<absl::Duration> RoundTrip();
  // Bytes of payload a second, one way, with as much on the way as the link takes, over `time`. The first quarter is
  // not counted: a connection takes a while to reach its rate.
  absl::StatusOr<double> Up(absl::Duration time);
  absl::StatusOr<double> Down(absl::Duration time);

  // Who the coordinator takes the caller for; empty: it does not ask. After an exchange.
  const std::string& identity() const { return identity_; }

 private:
  class Exchanges;
  absl::StatusOr<double> Rate(const v1::ProbeRequest& request, absl::Duration time);

  const std::string run_id_;
  std::string identity_;
  std::unique_ptr<Exchanges> exchanges_;
};

}  // namespace diloco
