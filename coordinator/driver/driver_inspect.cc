// What an operator asks of one worker, and of the checkpoints on the disk.
#include <algorithm>
#include <utility>

#include "common/base/limits.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/wire.h"

namespace diloco {
namespace {

bool Contains(const std::vector<std::string>& workers, const std::string& worker) {
  return std::find(workers.begin(), workers.end(), worker) != workers.end();
}

}  // namespace

v1::WorkerRound Driver::Impl::RoundOf(const RoundView& view, const std::string& worker) const {
  v1::WorkerRound round;
  round.set_round(view.round);
  round.set_fragment(static_cast<uint32_t>(view.fragment));
  const ContributionId id{.worker = worker, .fragment = view.fragment, .round = view.round};
  const ContributionShape* const shape = staging_.ShapeOf(id);
  if (shape != nullptr) {
    round.set_received_bytes(staging_.ReceivedBytes(id));
    round.set_total_bytes(shape->total_bytes);
  }
  if (Contains(view.present, worker)) {
    round.set_state(v1::WORKER_ROUND_STATE_PRESENT);
  } else if (Contains(view.abstained, worker)) {
    round.set_state(v1::WORKER_ROUND_STATE_ABSTAINED);
  } else if (shape != nullptr) {
    round.set_state(v1::WORKER_ROUND_STATE_RECEIVING);
  } else {
    round.set_state(Contains(view.awaited, worker) ? v1::WORKER_ROUND_STATE_AWAITED
                                                   : v1::WORKER_ROUND_STATE_NOT_AWAITED);
  }
  return round;
}

void Driver::Impl::DescribeWorker(const v1::DescribeWorkerRequest& request,
                                  const PendingReply<v1::DescribeWorkerResponse>& reply) {
  const std::string& worker = request.worker_id();
  if (const absl::Status status = CheckAdminRun(request.run_id()); !status.ok()) {
    reply(status);
    return;
  }
  const std::vector<MemberView> members = machine_.Members();
  const auto view = std::find_if(members.begin(), members.end(),
                                 [&worker](const MemberView& member) { return member.worker == worker; });
  if (view == members.end()) {
    reply(NoSuchWorker(worker));
    return;
  }
  v1::DescribeWorkerResponse response;
  response.set_run_id(options_.config.run.id);
  *response.mutable_summary() = SummaryOf(*view);
  *response.mutable_lease() = DurationToProto(Config().rounds.lease);
  response.set_first_round(view->first_round);
  std::vector<RoundView> open = OpenRounds();
  std::stable_sort(open.begin(), open.end(), [](const RoundView& a, const RoundView& b) { return a.round < b.round; });
  open.resize(std::min(open.size(), kMaxWorkerRounds));
  for (const RoundView& round : open) {
    *response.add_rounds() = RoundOf(round, worker);
  }
  const int fragments = run_ == nullptr ? 0 : run_->layout->fragment_count();
  int64_t settled = fragments == 0 ? -1 : machine_.SettledRound(worker, 0);
  for (int fragment = 1; fragment < fragments; ++fragment) {
    settled = std::min(settled, machine_.SettledRound(worker, fragment));
  }
  response.set_settled_round(settled);
  reply(std::move(response));
}

void Driver::Impl::ListCheckpoints(const v1::ListCheckpointsRequest& request,
                                   const PendingReply<v1::ListCheckpointsResponse>& reply) {
  if (const absl::Status status = CheckAdminRun(request.run_id()); !status.ok()) {
    reply(status);
    return;
  }
  Submit(
      world_.pool,
      [files = world_.files, folder = options_.checkpoint_folder] { return FindCheckpoints(files, folder); },
      [reply, run = options_.config.run.id](const std::vector<SavedCheckpoint>& found) {
        v1::ListCheckpointsResponse response;
        response.set_run_id(run);
        for (size_t i = 0; i < std::min(found.size(), kMaxListedCheckpoints); ++i) {
          v1::CheckpointSummary& summary = *response.add_checkpoints();
          summary.set_path(found[i].path);
          summary.set_version(found[i].version);
          summary.set_size_bytes(found[i].size_bytes);
          *summary.mutable_age() = DurationToProto(found[i].age);
        }
        reply(std::move(response));
      });
}

}  // namespace diloco
