// What an operator does to members: drain, evict, admit.
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/wire.h"
#include "coordinator/round/membership.h"

namespace diloco {

absl::Status Driver::Impl::NoSuchWorker(const std::string& worker) {
  return absl::NotFoundError(
      absl::StrFormat("the run has no worker \"%s\"; `worker list` shows which ones it has", BoundedReason(worker)));
}

absl::StatusOr<Driver::Impl::MemberInfo*> Driver::Impl::MemberOf(const std::string& run_id, const std::string& worker) {
  DILOCO_RETURN_IF_ERROR(CheckAdminRun(run_id));
  const auto it = members_.find(worker);
  if (it == members_.end()) {
    return NoSuchWorker(worker);
  }
  return &it->second;
}

void Driver::Impl::DrainWorker(const v1::DrainWorkerRequest& request,
                               const PendingReply<v1::DrainWorkerResponse>& reply) {
  const std::string& worker = request.worker_id();
  const absl::StatusOr<MemberInfo*> member = MemberOf(request.run_id(), worker);
  if (!member.ok()) {
    reply(member.status());
    return;
  }
  if ((*member)->evicted || (*member)->left) {
    reply(absl::FailedPreconditionError(absl::StrFormat("worker \"%s\" %s; there is nothing to drain", worker,
                                                        (*member)->evicted ? "is evicted" : "has left")));
    return;
  }
  if (machine_.phase() == RunPhase::kEnded) {
    reply(absl::FailedPreconditionError("the run has ended, so that its workers leave by themselves"));
    return;
  }
  Step(DrainAsked{worker});
  v1::DrainWorkerResponse response;
  response.set_worker_id(worker);
  ReplyWhenDurable(reply, std::move(response));
}

void Driver::Impl::EvictWorker(const v1::EvictWorkerRequest& request,
                               const PendingReply<v1::EvictWorkerResponse>& reply) {
  const std::string& worker = request.worker_id();
  if (const auto member = MemberOf(request.run_id(), worker); !member.ok()) {
    reply(member.status());
    return;
  }
  dropped_by_eviction_ = 0;
  Step(EvictionAsked{worker});
  v1::EvictWorkerResponse response;
  response.set_worker_id(worker);
  response.set_contributions_dropped(static_cast<uint32_t>(dropped_by_eviction_));
  ReplyWhenDurable(reply, std::move(response));
}

void Driver::Impl::AdmitWorker(const v1::AdmitWorkerRequest& request,
                               const PendingReply<v1::AdmitWorkerResponse>& reply) {
  const std::string& worker = request.worker_id();
  const absl::StatusOr<MemberInfo*> member = MemberOf(request.run_id(), worker);
  if (!member.ok()) {
    reply(member.status());
    return;
  }
  if (!(*member)->evicted) {
    reply(absl::FailedPreconditionError(
        absl::StrFormat("worker \"%s\" is not evicted, so that nothing keeps it from joining", worker)));
    return;
  }
  Step(EvictionLifted{worker});
  v1::AdmitWorkerResponse response;
  response.set_worker_id(worker);
  ReplyWhenDurable(reply, std::move(response));
}

void Driver::Impl::Carry(const RecordDrain& effect) {
  MemberInfo& info = members_.at(effect.worker);
  info.draining = true;
  world_.observer->OnWorkerDraining(effect.worker);
  SubmitStore(
      [store = world_.store, record = MemberRecordOf(effect.worker, info)] { return store->AppendMember(record); },
      [this, effect] {
        MemberInfo& member = members_.at(effect.worker);
        member.drain_durable = member.draining;
        directives_stale_ = true;
      });
}

void Driver::Impl::Carry(const RecordEviction& effect) {
  MemberInfo& info = members_.at(effect.worker);
  info.evicted = true;
  info.left = info.draining = info.drain_durable = false;
  dropped_by_eviction_ = effect.dropped;
  snapshot_readers_.erase(effect.worker);
  DiscardIncomplete(effect.worker, 0);
  sessions_.CloseOf(effect.worker, NotAMember(effect.worker));
  if (run_ != nullptr) {
    run_->log.EndOf(effect.worker);
  }
  world_.observer->OnWorkerEvicted(effect.worker, effect.dropped);
  SubmitStore(
      [store = world_.store, record = MemberRecordOf(effect.worker, info)] { return store->AppendMember(record); },
      [] {});
}

void Driver::Impl::Carry(const RecordReadmission& effect) {
  MemberInfo& info = members_.at(effect.worker);
  info.evicted = false;
  info.left = info.departure_durable = true;  // Nobody waits for its leave: the worker is gone.
  world_.observer->OnWorkerReadmitted(effect.worker);
  SubmitStore(
      [store = world_.store, record = MemberRecordOf(effect.worker, info)] { return store->AppendMember(record); },
      [] {});
}

absl::Status Driver::Impl::NotAMember(const std::string& worker) const {
  const auto it = members_.find(worker);
  if (it != members_.end() && it->second.evicted) {
    return absl::PermissionDeniedError(EvictionText(worker));
  }
  return absl::AbortedError(
      absl::StrFormat("worker \"%s\" is not a member under this incarnation; join again", worker));
}

}  // namespace diloco
