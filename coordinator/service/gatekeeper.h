// Who may make which call. With TLS the connection's certificate says who calls, and AccessOf what that allows; on a
// plaintext listener everybody is believed. Each caller has limits of its own. What is refused is counted and logged,
// and each new connection is logged.
#pragma once

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/base/allowance.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/coordinator_metrics.h"
#include "common/tls/identity.h"
#include "coordinator/service/call_limits.h"
#include "coordinator/service/method.h"
#include "coordinator/service/refusal.h"

namespace diloco {

class Gatekeeper;

// Who makes one call; lives as long as the call, and what is left of it may outlive the gatekeeper. Thread-safe.
class Caller {
 public:
  Caller(Gatekeeper* gate, Method method, std::string peer, std::optional<Identity> identity)
      : gate_(gate), method_(method), peer_(std::move(peer)), identity_(std::move(identity)) {}
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // For each message that names a worker. Errors: kPermissionDenied.
  absl::Status MaySpeakFor(std::string_view worker) const;

  // Bytes that are taken in and not answered yet. Errors: kResourceExhausted; then there is nothing to give back.
  absl::Status TakeBytes(size_t bytes) const;
  void GiveBytes(size_t bytes) const;

  // "spiffe://RUN/worker/NAME"; empty: not known, on a plaintext listener or because the certificate does not say.
  std::string Uri() const { return identity_.has_value() ? identity_->Uri() : ""; }

 private:
  friend class Gatekeeper;
  // What the limits are counted by.
  std::string Key() const { return identity_.has_value() ? identity_->Uri() : peer_; }

  Gatekeeper* const gate_;
  const Method method_;
  const std::string peer_;
  const std::optional<Identity> identity_;  // nullopt: unknown.
  std::shared_ptr<CallLimits> counted_by_;  // Set: it is among the caller's open calls.
};

// Thread-safe.
class Gatekeeper {
 public:
  struct Options {
    std::string run_id;
    bool tls = false;  // Else everybody is believed.
    CallLimits::Options limits;
  };
  Gatekeeper(Options options, CoordinatorMetrics* metrics)
      : options_(std::move(options)), metrics_(*metrics), limits_(std::make_shared<CallLimits>(options_.limits)) {}

  // Before anything else of a call. Errors: kUnauthenticated, the certificate does not say whose it is;
  // kPermissionDenied, it is of another run, or of a role that may not make this call; kResourceExhausted, the caller
  // is over a limit.
  absl::StatusOr<std::shared_ptr<const Caller>> Admit(Method method, const grpc::ServerContextBase& context);

  // A handshake failed; `text` is gRPC's. Nobody knows of whom.
  void HandshakeFailed(std::string_view text);

 private:
  friend class Caller;
  // Connections whose first call was logged; more than these are logged again.
  static constexpr size_t kMaxConnectionsKnown = 4096;
  // Lines of the log about what peers provoke: refusals, and new connections.
  static constexpr Allowance::Options kRefusalLines = {.burst = 20, .per_second = 1};
  static constexpr Allowance::Options kConnectionLines = {.burst = 2000, .per_second = 10};

  absl::Status Authorize(const Caller& caller);
  absl::Status Refuse(Refusal why, const Caller& caller, const absl::Status& status);
  absl::Status RefuseOver(CallLimit limit, const Caller& caller);
  void Log(const Caller& caller, const absl::Status& status);
  void LogFirstCall(const Caller& caller);
  // Whether a line about a refusal may be written now; if so how many were kept back before it.
  std::optional<int64_t> TakeLine();

  const Options options_;
  CoordinatorMetrics& metrics_;
  const SteadyClock clock_;
  const std::shared_ptr<CallLimits> limits_;
  Mutex mutex_;
  Allowance refusal_lines_ ABSL_GUARDED_BY(mutex_) = {kRefusalLines, clock_.Now()};
  Allowance connection_lines_ ABSL_GUARDED_BY(mutex_) = {kConnectionLines, clock_.Now()};
  int64_t kept_back_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace diloco
