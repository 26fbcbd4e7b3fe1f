// What SyncCore does with snapshots, global deltas and the end record.
#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/config/run_settings_proto.h"
#include "common/log/log.h"
#include "common/outer/method.h"
#include "common/outer/step_scalars_proto.h"
#include "common/schedule/outer_schedule.h"
#include "worker/sync/sync_core.h"

namespace diloco {
namespace {

ContributionFate FateOf(v1::Settlement settlement) {
  switch (settlement) {
    case v1::SETTLEMENT_MERGED:
      return ContributionFate::kMerged;
    case v1::SETTLEMENT_DROPPED_REFUSED:
      return ContributionFate::kRefused;
    default:
      return ContributionFate::kDropped;
  }
}

}  // namespace

void SyncCore::Download(const DownloadEvent& event) {
  for (const DownloadEffect& effect : download_.Step(event, now_)) {
    std::visit([this](const auto& e) { Carry(e); }, effect);
  }
}

void SyncCore::Carry(const FetchSnapshot& effect) {
  snapshot_.emplace(config_.run.id, &layout_, FindOuterOptimizer(config_.outer.optimizer));
  v1::FetchSnapshotRequest request;
  request.set_run_id(config_.run.id);
  request.set_worker_id(options_.worker_id);
  request.set_incarnation(options_.incarnation);
  if (!fragments_.empty()) {
    request.mutable_held()->set_generation(options_.generation);
    for (const FragmentSync& fragment : fragments_) request.mutable_held()->add_versions(fragment.received());
  }
  network_->FetchSnapshot(effect.call, std::move(request));
}

void SyncCore::Carry(const OpenSubscription& effect) {
  v1::SubscribeRequest request;
  request.set_run_id(config_.run.id);
  request.set_worker_id(options_.worker_id);
  request.set_incarnation(options_.incarnation);
  request.set_generation(options_.generation);
  for (size_t f = 0; f < assemblers_.size(); ++f) {
    assemblers_[f].Restart(effect.next_rounds[f]);
    arriving_since_[f].reset();
    request.add_next_rounds(effect.next_rounds[f]);
  }
  network_->OpenSubscription(effect.call, std::move(request));
}

void SyncCore::Carry(const CancelDownload& effect) { network_->CancelDownload(effect.call); }

absl::Status SyncCore::Damaged(uint64_t call, const absl::Status& status) {
  if (!absl::IsDataLoss(status)) {
    return status;
  }
  LogWarning("download_damaged", {{"reason", status.ToString()}});
  Download(DownloadClosed{call, absl::StatusCode::kDataLoss});
  return absl::OkStatus();
}

absl::Status SyncCore::On(const DownloadFinished& event) {
  if (!download_.IsCurrent(event.call)) {
    return absl::OkStatus();
  }
  if (event.status.ok() && snapshot_) {
    return TakeSnapshot(event.call);
  }
  LogInfo("download_closed", {{"reason", event.status.ToString()}});
  snapshot_.reset();
  Download(DownloadClosed{event.call, event.status.code()});
  return absl::OkStatus();
}

absl::Status SyncCore::On(const SnapshotItemRead& event) {
  if (!download_.IsCurrent(event.call)) {
    return absl::OkStatus();
  }
  exchange_->NoteContact();
  Download(DownloadProgress{event.call});
  DILOCO_RETURN_IF_ERROR(TakeSettings(event.item.header().settings()));
  if (const absl::Status status = snapshot_->Add(event.item); !status.ok()) {
    snapshot_.reset();
    return Damaged(event.call, status);
  }
  network_->ReadNext(event.call);
  return absl::OkStatus();
}

absl::Status SyncCore::TakeSettings(const v1::RunSettings& settings) {
  if (settings.changes().empty()) return absl::OkStatus();
  if (settings.run_id() != config_.run.id) {
    return absl::InvalidArgumentError(absl::StrFormat("settings of run \"%s\"; this worker is in run \"%s\"",
                                                      absl::CHexEscape(settings.run_id()), config_.run.id));
  }
  DILOCO_ASSIGN_OR_RETURN(RunSettings taken, RunSettingsFromProto(config_, settings.changes()));
  if (taken.changes() == settings_.changes()) {
    return absl::OkStatus();
  }
  settings_ = std::move(taken);
  schedule_.SetRounds(settings_.newest().run.rounds);
  LogInfo("settings_changed",
          {{"rounds", settings_.newest().run.rounds}, {"newest_from_round", settings_.changes().back().from_round}});
  exchange_->PublishSettings(std::make_shared<const RunSettings>(settings_));
  return absl::OkStatus();
}

absl::Status SyncCore::TakeSnapshot(uint64_t call) {
  absl::StatusOr<Snapshot> snapshot = snapshot_->Finish();
  snapshot_.reset();
  if (!snapshot.ok()) {
    return Damaged(call, snapshot.status());
  }
  if (snapshot->version > schedule_.rounds()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("snapshot of version %d in a run of %d rounds", snapshot->version, schedule_.rounds()));
  }
  LogInfo("snapshot_taken", {{"version", snapshot->version}});
  Adopt(*std::move(snapshot));
  std::vector<int64_t> next_rounds;
  for (const FragmentSync& fragment : fragments_) {
    next_rounds.push_back(fragment.received());
  }
  Download(SnapshotTaken{call, std::move(next_rounds)});
  return ApplyAllowed();
}

// A fragment never goes back: one that is ahead of the snapshot stays where it is.
void SyncCore::Adopt(Snapshot snapshot) {
  // Of the next outer step. Before the first one nobody has told any.
  const StepScalars scalars = snapshot.scalars.has_value()
                                  ? OneStepLater(*snapshot.scalars)
                                  : ComputeStepScalars(settings_.At(0), 0, 0, static_cast<double>(config_.run.workers));
  if (snapshot.scalars.has_value() && snapshot.version > scalars_version_) {
    scalars_version_ = snapshot.version;
    newest_scalars_ = snapshot.scalars;
  }
  const bool first = fragments_.empty();
  for (size_t f = 0; f < snapshot.fragments.size(); ++f) {
    if (first) {
      fragments_.emplace_back(FragmentOptions(static_cast<int>(f), scalars), std::move(snapshot.fragments[f]));
    } else if (snapshot.version > fragments_[f].received()) {
      fragments_[f].Resync(std::move(snapshot.fragments[f]), scalars, snapshot.settled_rounds[f]);
    } else {
      continue;
    }
    // Whether they were merged is not known.
    SettleUpTo(snapshot.settled_rounds[f], static_cast<int>(f), ContributionFate::kMerged, ContributionFate::kMerged);
    Announce(static_cast<int>(f));
  }
}

absl::Status SyncCore::On(const SubscriptionItemRead& event) {
  if (!download_.IsCurrent(event.call)) {
    return absl::OkStatus();
  }
  exchange_->NoteContact();
  Download(DownloadProgress{event.call});
  const auto assembler = [this](uint32_t fragment) -> DeltaAssembler* {
    return fragment < assemblers_.size() ? &assemblers_[fragment] : nullptr;
  };
  absl::Status status = absl::DataLossError("subscription: a message that names no fragment of the layout");
  switch (event.item.item_case()) {
    case v1::SubscribeResponse::kChunk:
      if (DeltaAssembler* to = assembler(event.item.chunk().fragment())) {
        status = to->AddChunk(event.item.chunk());
        downloaded_bytes_ += event.item.chunk().payload().size();
        auto& since = arriving_since_[event.item.chunk().fragment()];
        if (!since) since = now_;
      }
      break;
    case v1::SubscribeResponse::kSettled:
      if (DeltaAssembler* to = assembler(event.item.settled().fragment())) {
        status = to->AddSettled(event.item.settled());
      }
      break;
    case v1::SubscribeResponse::kCommit:
      if (assembler(event.item.commit().fragment()) != nullptr) {
        return TakeCommit(event.call, event.item.commit());
      }
      break;
    case v1::SubscribeResponse::kEnd:
      return TakeEnd(event.call, event.item.end());
    case v1::SubscribeResponse::kRunSettings:
      DILOCO_RETURN_IF_ERROR(TakeSettings(event.item.run_settings()));
      status = absl::OkStatus();
      break;
    case v1::SubscribeResponse::kResync:
      LogWarning("resync", {{"reason", event.item.resync().reason()}});
      Download(ResyncAsked{event.call});
      return absl::OkStatus();
    case v1::SubscribeResponse::ITEM_NOT_SET:
      break;
  }
  if (!status.ok()) {
    return Damaged(event.call, status);
  }
  network_->ReadNext(event.call);
  return absl::OkStatus();
}

absl::Status SyncCore::TakeCommit(uint64_t call, const v1::GlobalDeltaCommit& commit) {
  const int fragment = static_cast<int>(commit.fragment());
  absl::StatusOr<GlobalDelta> delta = assemblers_[commit.fragment()].AddCommit(commit);
  if (!delta.ok()) {
    return Damaged(call, delta.status());
  }
  ++downloads_;
  download_time_ += now_ - std::exchange(arriving_since_[commit.fragment()], std::nullopt).value_or(now_);
  Download(DeltaTaken{call, fragment, commit.round()});
  network_->ReadNext(call);
  for (const v1::SettledContribution& settled : delta->settled.settled()) {
    SettleOwn(settled);
  }
  std::erase_if(abstentions_, [&](const RoundAbstention& abstention) {
    return abstention.fragment == fragment && abstention.round <= commit.round();
  });
  if (commit.round() >= scalars_version_) {
    scalars_version_ = commit.round() + 1;
    newest_scalars_ = StepScalarsFromProto(commit.scalars());
  }
  fragments_[commit.fragment()].Hold(*std::move(delta));
  Upload(AverageArrived{fragment});
  return ApplyAllowed();
}

absl::Status SyncCore::On(const ConsensusWanted&) {
  if (fragments_.empty() || !options_.on_consensus_wanted) {
    return absl::OkStatus();
  }
  FullConsensus full;
  for (const FragmentSync& fragment : fragments_) {
    full.version = std::max(full.version, fragment.received());
    // One that goes on from a checkpoint and has received nothing since: as good as the newest, for what is expected.
    if (full.version > 0) full.scalars = fragment.next_scalars();
    DILOCO_ASSIGN_OR_RETURN(Consensus newest, fragment.Newest());
    full.fragments.push_back(std::move(newest));
  }
  if (scalars_version_ == full.version) full.scalars = newest_scalars_;
  options_.on_consensus_wanted(std::move(full));
  return absl::OkStatus();
}

absl::Status SyncCore::TakeEnd(uint64_t call, const v1::EndRecord& end) {
  if (end.run_id() != config_.run.id || end.consensus_digests_size() != layout_.fragment_count() ||
      end.rounds() != Published()) {
    return Damaged(call, absl::DataLossError(absl::StrFormat("end record of run \"%s\" after %d rounds: this worker "
                                                             "has received %d rounds of run \"%s\"",
                                                             end.run_id(), end.rounds(), Published(), config_.run.id)));
  }
  LogInfo("run_ended", {{"rounds", end.rounds()}});
  Download(EndTaken{call});
  for (const v1::SettledContribution& settled : end.settled()) {
    SettleOwn(settled);
  }
  end_ = end;
  return ApplyAllowed();
}

void SyncCore::SettleOwn(const v1::SettledContribution& settled) {
  if (settled.id().worker_id() != options_.worker_id) {
    return;
  }
  if (settled.settlement() != v1::SETTLEMENT_MERGED) {
    LogWarning("contribution_dropped", {{"fragment", settled.id().fragment()},
                                        {"round", settled.id().round()},
                                        {"reason", v1::Settlement_Name(settled.settlement())}});
  }
  SettleUpTo(settled.id().round(), static_cast<int>(settled.id().fragment()), FateOf(settled.settlement()),
             ContributionFate::kDropped);
}

// Contributions of a fragment settle in round order: what a newer one overtook is not taken any more.
void SyncCore::SettleUpTo(int64_t round, int fragment, ContributionFate of_round, ContributionFate of_older) {
  for (const int64_t held : store_.Rounds(fragment)) {
    if (held <= round) {
      Upload(ContributionSettled{held, fragment});
      store_.Settle(held, fragment, held == round ? of_round : of_older);
    }
  }
}

}  // namespace diloco
