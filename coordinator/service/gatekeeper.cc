#include "coordinator/service/gatekeeper.h"

#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "common/rpc/credentials.h"
#include "coordinator/service/access.h"

namespace diloco {
namespace {

const char* NameOf(Method method) { return kMethodNames[static_cast<size_t>(method)]; }

}  // namespace

absl::Status Caller::MaySpeakFor(std::string_view worker) const {
  if (!identity_.has_value() || identity_->name == worker) return absl::OkStatus();
  return gate_->Refuse(
      Refusal::kWorkerId, *this,
      absl::PermissionDeniedError(absl::StrFormat(
          "a message for worker \"%s\" with the certificate of %s: a worker speaks for itself alone", worker, Uri())));
}

Caller::~Caller() {
  if (counted_by_ != nullptr) counted_by_->End(Key(), SteadyClock().Now());
}

absl::Status Caller::TakeBytes(size_t bytes) const {
  return counted_by_->Take(Key(), bytes) ? absl::OkStatus() : gate_->RefuseOver(CallLimit::kBytesInFlight, *this);
}

void Caller::GiveBytes(size_t bytes) const { counted_by_->Give(Key(), bytes); }

absl::StatusOr<std::shared_ptr<const Caller>> Gatekeeper::Admit(Method method, const grpc::ServerContextBase& context) {
  std::optional<Identity> identity;
  absl::Status unknown;
  if (options_.tls) {
    absl::StatusOr<Identity> found = PeerIdentity(*context.auth_context());
    unknown = found.status();
    if (found.ok()) identity = *std::move(found);
  }
  const auto caller = std::make_shared<Caller>(this, method, context.peer(), std::move(identity));
  LogFirstCall(*caller);
  if (const std::optional<CallLimit> over = limits_->Begin(caller->Key(), clock_.Now())) {
    return RefuseOver(*over, *caller);
  }
  caller->counted_by_ = limits_;
  DILOCO_RETURN_IF_ERROR(unknown.ok() ? Authorize(*caller) : Refuse(Refusal::kNoIdentity, *caller, unknown));
  return caller;
}

absl::Status Gatekeeper::Authorize(const Caller& caller) {
  if (!options_.tls) return absl::OkStatus();
  if (caller.identity_->run != options_.run_id) {
    return Refuse(Refusal::kOtherRun, caller,
                  absl::PermissionDeniedError(
                      absl::StrFormat("the certificate is of %s; this is run \"%s\"", caller.Uri(), options_.run_id)));
  }
  const Access access = AccessOf(caller.method_);
  if (!Allows(access, caller.identity_->role)) {
    return Refuse(
        Refusal::kRole, caller,
        absl::PermissionDeniedError(absl::StrFormat("%s is for %s; the certificate is of %s", NameOf(caller.method_),
                                                    WhoIsAllowed(access), caller.Uri())));
  }
  return absl::OkStatus();
}

void Gatekeeper::HandshakeFailed(std::string_view text) {
  metrics_.authentication_failures[static_cast<size_t>(Refusal::kHandshake)]->Increment();
  const std::optional<int64_t> kept_back = TakeLine();
  if (!kept_back.has_value()) return;
  LogWarning("handshake_failed", {{"kept_back", *kept_back}, {"text", text}});
}

absl::Status Gatekeeper::Refuse(Refusal why, const Caller& caller, const absl::Status& status) {
  metrics_.authentication_failures[static_cast<size_t>(why)]->Increment();
  Log(caller, status);
  return status;
}

absl::Status Gatekeeper::RefuseOver(CallLimit limit, const Caller& caller) {
  metrics_.calls_limited[static_cast<size_t>(limit)]->Increment();
  const absl::Status status = OverLimit(limit, options_.limits, caller.Key());
  Log(caller, status);
  return status;
}

void Gatekeeper::Log(const Caller& caller, const absl::Status& status) {
  const std::optional<int64_t> kept_back = TakeLine();
  if (!kept_back.has_value()) return;
  LogWarning("call_refused", {{"method", NameOf(caller.method_)},
                              {"peer", caller.peer_},
                              {"identity", caller.Uri()},
                              {"kept_back", *kept_back},
                              {"reason", status.message()}});
}

void Gatekeeper::LogFirstCall(const Caller& caller) {
  if (!options_.tls) return;
  {
    MutexLock lock(&mutex_);
    if (known_.size() >= kMaxConnectionsKnown) known_.clear();
    if (!known_.insert(caller.peer_).second || !connection_lines_.Take(clock_.Now())) return;
  }
  LogInfo("connected", {{"peer", caller.peer_}, {"identity", caller.Uri()}});
}

std::optional<int64_t> Gatekeeper::TakeLine() {
  MutexLock lock(&mutex_);
  if (!refusal_lines_.Take(clock_.Now())) {
    ++kept_back_;
    return std::nullopt;
  }
  return std::exchange(kept_back_, 0);
}

}  // namespace diloco
