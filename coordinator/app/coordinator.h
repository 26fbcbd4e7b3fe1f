// The whole coordinator in one object: configuration, store, driver, service, HTTP port, put together in the order that
// durability asks for and taken apart in reverse. What main() runs, and tests run in their own process.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/net/host_port.h"
#include "coordinator/app/options.h"

namespace diloco {

class Coordinator {
 public:
  // Reads the configuration, locks and recovers the data folder, and only then opens the port; ready when this returns.
  // (The HTTP port opens before the recovery, which may be long: the process is live, and not ready.)
  // Errors: kInvalidArgument, the configuration or an address; kAlreadyExists, a port in use; kFailedPrecondition,
  // another process has the folder, or it holds another run; kDataLoss, the journal is damaged.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(const CoordinatorOptions& options);
  // Stops everything, in order.
  ~Coordinator();

  const HostPort& listen_address() const;

  // Waits for RequestStop, for the end of the run when told to exit then, or for a fatal error, and stops: NOT_SERVING,
  // no new calls, open ones drained within a deadline, the store closed. Returns the fatal error, else OK. Once.
  // A consensus that an operator replaced: stops likewise, recovers the data folder, and serves again at the same
  // address.
  absl::Status Wait();
  // Thread-safe.
  void RequestStop();

 private:
  class Impl;
  explicit Coordinator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace diloco
