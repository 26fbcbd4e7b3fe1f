// What readers get: subscriptions, snapshots, status.
#include <algorithm>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/wire.h"

namespace diloco {

void Driver::Impl::Subscribe(const v1::SubscribeRequest& request, const std::shared_ptr<DeltaQueue>& queue,
                             const PendingReply<std::monostate>& reply) {
  absl::Status status = HearMember(request.run_id(), request.worker_id(), request.incarnation());
  if (status.ok()) {
    v1::HeldConsensus held;
    held.set_generation(request.has_generation() ? request.generation() : run_->record.generation());
    *held.mutable_versions() = request.next_rounds();
    status = HearHeld(request.worker_id(), held);
  }
  if (status.ok()) {
    status = CheckHandsOut();
  }
  if (status.ok()) {
    status =
        run_->log.Subscribe(request.worker_id(), request.next_rounds(), queue, [&reply] { reply(std::monostate{}); });
  }
  if (!status.ok()) {
    reply(status);
    return;
  }
  snapshot_readers_.erase(request.worker_id());
}

void Driver::Impl::Unsubscribe(const std::shared_ptr<DeltaQueue>& queue) {
  if (run_ != nullptr) {
    run_->log.Unsubscribe(queue.get());
  }
}

void Driver::Impl::OpenSnapshot(const v1::FetchSnapshotRequest& request, const PendingReply<SnapshotSource>& reply) {
  if (const absl::Status status = HearMember(request.run_id(), request.worker_id(), request.incarnation());
      !status.ok()) {
    reply(status);
    return;
  }
  if (request.has_held()) {
    if (const absl::Status status = HearHeld(request.worker_id(), request.held()); !status.ok()) {
      reply(status);
      return;
    }
  }
  if (const absl::Status status = CheckHandsOut(); !status.ok()) {
    reply(status);
    return;
  }
  if (!snapshot_) {
    reply(absl::FailedPreconditionError("the run is not seeded yet; wait for the seeder"));
    return;
  }
  const v1::SnapshotRecord& record = snapshot_->header;
  snapshot_readers_[request.worker_id()] = record.version();
  SnapshotSource source{.header = {}, .path = snapshot_->path, .consensus_offset = snapshot_->consensus_offset};
  source.header.set_run_id(record.run().run_id());
  source.header.set_version(record.version());
  *source.header.mutable_layout_digest() = record.run().layout_digest();
  source.header.set_total_bytes(record.consensus_bytes());
  *source.header.mutable_consensus_digests() = record.consensus_digests();
  for (const v1::SettledMarks& marks : record.settled_marks()) {
    if (marks.worker_id() == request.worker_id()) {
      *source.header.mutable_settled_rounds() = marks.rounds();
    }
  }
  if (source.header.settled_rounds_size() == 0) {
    source.header.mutable_settled_rounds()->Resize(run_->layout->fragment_count(), -1);
  }
  if (record.has_scalars()) {
    *source.header.mutable_scalars() = record.scalars();
  }
  source.header.mutable_settings()->set_run_id(record.run().run_id());
  *source.header.mutable_settings()->mutable_changes() = run_->durable_changes;
  reply(std::move(source));
}

absl::Status Driver::Impl::CheckAdminRun(const std::string& run_id) const {
  return run_id.empty() ? absl::OkStatus() : CheckRun(run_id);
}

v1::WorkerState Driver::Impl::StateOf(const MemberView& member) const {
  switch (member.state) {
    case MemberState::kAlive:
      break;
    case MemberState::kLost:
      return v1::WORKER_STATE_LOST;
    case MemberState::kLeft:
      return v1::WORKER_STATE_LEFT;
    case MemberState::kEvicted:
      return v1::WORKER_STATE_EVICTED;
  }
  if (member.draining) {
    return v1::WORKER_STATE_DRAINING;
  }
  const auto info = members_.find(member.worker);
  return info != members_.end() && info->second.suspended ? v1::WORKER_STATE_SUSPENDED : v1::WORKER_STATE_ALIVE;
}

MemberCounts Driver::Impl::CountMembers() const {
  MemberCounts counts;
  for (const MemberView& member : machine_.Members()) {
    const v1::WorkerState state = StateOf(member);
    counts.alive += state == v1::WORKER_STATE_ALIVE ? 1 : 0;
    counts.draining += state == v1::WORKER_STATE_DRAINING ? 1 : 0;
    counts.suspended += state == v1::WORKER_STATE_SUSPENDED ? 1 : 0;
    counts.lost += state == v1::WORKER_STATE_LOST ? 1 : 0;
    counts.left += state == v1::WORKER_STATE_LEFT ? 1 : 0;
    counts.evicted += state == v1::WORKER_STATE_EVICTED ? 1 : 0;
    counts.participating += member.participating ? 1 : 0;
  }
  return counts;
}

uint32_t Driver::Impl::WorkersAlive() const {
  const std::vector<MemberView> members = machine_.Members();
  return static_cast<uint32_t>(std::count_if(
      members.begin(), members.end(), [](const MemberView& member) { return member.state == MemberState::kAlive; }));
}

std::vector<RoundView> Driver::Impl::OpenRounds() const {
  std::vector<RoundView> open;
  for (int fragment = 0; run_ != nullptr && fragment < run_->layout->fragment_count(); ++fragment) {
    for (RoundView& view : machine_.OpenRounds(fragment, Now())) {
      open.push_back(std::move(view));
    }
  }
  return open;
}

void Driver::Impl::GetStatus(const v1::GetStatusRequest& request, const PendingReply<v1::GetStatusResponse>& reply) {
  if (const absl::Status status = CheckAdminRun(request.run_id()); !status.ok()) {
    reply(status);
    return;
  }
  v1::GetStatusResponse response;
  response.set_run_id(options_.config.run.id);
  response.set_state(State());
  response.set_reason(Reason());
  response.set_method(options_.config.method);
  response.set_rounds_committed(machine_.OldestOpenRound());
  response.set_rounds_total(Config().run.rounds);
  response.set_workers_alive(WorkersAlive());
  response.set_workers_expected(static_cast<uint32_t>(options_.config.run.workers));
  if (run_ != nullptr) {
    response.set_parameters(static_cast<uint64_t>(run_->layout->element_count()));
    response.set_fragments(static_cast<uint32_t>(run_->layout->fragment_count()));
    response.set_sent_bytes(run_->log.sent_bytes());
  }
  *response.mutable_uptime() = DurationToProto(world_.clock->Now() - started_);
  for (const v1::Evaluation& evaluation : evaluations_) {
    *response.add_evaluations() = evaluation;
  }
  response.set_received_bytes(received_bytes_);
  response.set_software_version(DILOCO_VERSION);
  response.set_snapshot_version(snapshot_ ? snapshot_->header.version() : -1);
  response.set_checkpoint_path(checkpoint_path_);
  response.set_checkpoint_version(checkpoint_version_);
  response.set_quorum(static_cast<uint32_t>(Config().rounds.quorum));
  for (const RoundView& view : OpenRounds()) {
    if (view.round == machine_.OldestOpenRound()) {
      response.set_quorum(static_cast<uint32_t>(view.quorum));
    }
  }
  response.set_workers_participating(static_cast<uint32_t>(CountMembers().participating));
  reply(std::move(response));
}

void Driver::Impl::ListRounds(const v1::ListRoundsRequest& request, const PendingReply<v1::ListRoundsResponse>& reply) {
  if (const absl::Status status = CheckAdminRun(request.run_id()); !status.ok()) {
    reply(status);
    return;
  }
  const size_t limit =
      request.limit() == 0 ? kDefaultListedRounds : std::min<size_t>(request.limit(), kMaxRoundSummaries);
  v1::ListRoundsResponse response;
  response.set_run_id(options_.config.run.id);
  if (run_ != nullptr) {
    for (v1::RoundSummary& summary : run_->rounds.List(OpenRounds(), Now(), limit)) {
      *response.add_rounds() = std::move(summary);
    }
  }
  reply(std::move(response));
}

void Driver::Impl::DescribeRound(const v1::DescribeRoundRequest& request,
                                 const PendingReply<v1::DescribeRoundResponse>& reply) {
  if (const absl::Status status = CheckAdminRun(request.run_id()); !status.ok()) {
    reply(status);
    return;
  }
  std::optional<v1::DescribeRoundResponse> response =
      run_ == nullptr ? std::nullopt : run_->rounds.Describe(OpenRounds(), request.round(), Now());
  if (!response) {
    reply(absl::NotFoundError(
        absl::StrFormat("round %d is neither open nor retained; `round list` shows which ones are", request.round())));
    return;
  }
  response->set_run_id(options_.config.run.id);
  reply(*std::move(response));
}

v1::WorkerSummary Driver::Impl::SummaryOf(const MemberView& member) const {
  v1::WorkerSummary summary;
  summary.set_worker_id(member.worker);
  summary.set_state(StateOf(member));
  summary.set_incarnation(member.incarnation);
  *summary.mutable_last_heard() = DurationToProto(Now() - member.last_heard);
  summary.set_participating(member.participating);
  summary.set_evaluator(member.worker == machine_.Evaluator());
  if (const auto info = members_.find(member.worker); info != members_.end()) {
    summary.set_software_version(info->second.software_version);
    if (info->second.progress) {
      *summary.mutable_progress() = *info->second.progress;
    }
  }
  return summary;
}

void Driver::Impl::ListWorkers(const v1::ListWorkersRequest& request,
                               const PendingReply<v1::ListWorkersResponse>& reply) {
  if (const absl::Status status = CheckAdminRun(request.run_id()); !status.ok()) {
    reply(status);
    return;
  }
  v1::ListWorkersResponse response;
  response.set_run_id(options_.config.run.id);
  for (const MemberView& member : machine_.Members()) {
    *response.add_workers() = SummaryOf(member);
  }
  reply(std::move(response));
}

void Driver::Impl::SaveCheckpoint(const v1::SaveCheckpointRequest& request,
                                  const PendingReply<v1::SaveCheckpointResponse>& reply) {
  if (const absl::Status status = CheckAdminRun(request.run_id()); !status.ok()) {
    reply(status);
    return;
  }
  if (!snapshot_) {
    reply(absl::FailedPreconditionError("the run is not seeded yet, there is nothing to save"));
    return;
  }
  save_replies_.push_back(reply);
  AdvanceConsensus();
}

}  // namespace diloco
