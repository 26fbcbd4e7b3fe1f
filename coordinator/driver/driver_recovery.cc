// Taking over what the store recovered, before the driver runs.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/config/run_settings_proto.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/thread_pool.h"
#include "coordinator/driver/wire.h"

namespace diloco {

absl::Status Driver::Impl::Recover(RecoveredState recovered) {
  if (recovered.run == nullptr) {
    return absl::OkStatus();
  }
  DILOCO_ASSIGN_OR_RETURN(const RunConfig stored,
                          ParseRunConfig(recovered.run->config_yaml(), "the data folder's configuration"));
  DILOCO_RETURN_IF_ERROR(CheckSameRun(stored, options_.config));
  DILOCO_ASSIGN_OR_RETURN(RecoveredRun run, RebuildRun(recovered, options_.config, ParallelForOn(world_.pool)));
  v1::RunRecord record = *recovered.run;
  DILOCO_RETURN_IF_ERROR(RecoverSettings(recovered, run, &record));
  if (const Digest was = Digest::FromBytes(record.config_digest().value()); was != config_digest_) {
    world_.observer->OnConfigurationChanged(was, config_digest_);
    record.set_config_yaml(options_.config_yaml);
    *record.mutable_config_digest() = DigestToProto(config_digest_);
    DILOCO_RETURN_IF_ERROR(world_.store->AppendRun(record));
  }
  RoundOptions rounds = OptionsNow(run.layout.fragment_count());
  rounds.stopped = record.stopped();
  DILOCO_ASSIGN_OR_RETURN(machine_, RoundMachine::Restore(rounds, run.rounds, Now()));
  if (record.paused()) machine_.Hold(HeldBy::kOperator);
  run_ = std::make_unique<LaidOutRun>(std::move(run.layout), std::move(record), Config().rounds.quorum,
                                      run.snapshot_version);
  PublishSettings(run_->record.changes());
  if (options_.config.wire.downlink_feedback()) {
    run_->residuals.emplace(*run_->layout, run.snapshot_version, run.rounds.next_round, run.residual);
  }
  for (const RecoveredRounds::Member& member : run.rounds.members) {
    members_[member.worker] = {.incarnation = member.incarnation,
                               .first_round = member.first_round,
                               .left = member.left,
                               .departure_durable = member.left,
                               .draining = member.draining,
                               .drain_durable = member.draining,
                               .evicted = member.evicted,
                               .resumes = member.resumes};
  }
  for (const v1::Evaluation& evaluation : recovered.evaluations) {
    if (evaluations_.empty() || evaluation.version() > evaluations_.front().version()) {
      evaluations_.push_front(evaluation);
      evaluated_version_ = evaluation.version();
    }
  }
  while (evaluations_.size() > kMaxEvaluations) {
    evaluations_.pop_back();
  }
  if (run.arrays != nullptr) {
    DILOCO_RETURN_IF_ERROR(RestoreConsensus(std::move(run), recovered));
  }
  const std::vector<SavedCheckpoint> saved = FindCheckpoints(world_.files, options_.checkpoint_folder);
  if (!saved.empty()) {
    checkpoint_path_ = saved.front().path;
    checkpoint_version_ = saved.front().version;
  }
  reported_phase_ = machine_.phase();
  world_.observer->OnPhase(reported_phase_);
  ReportMembers();
  world_.observer->OnSettings(Config());
  if (IsPaused()) world_.observer->OnRunPaused();
  return absl::OkStatus();
}

// The newest word counts: what an operator set in mid-run, or the file of a start where it says something else than the
// file before it. Such a file is a change like any other, from here on.
absl::Status Driver::Impl::RecoverSettings(const RecoveredState& recovered, const RecoveredRun& run,
                                           v1::RunRecord* record) {
  DILOCO_ASSIGN_OR_RETURN(const RunConfig stored,
                          ParseRunConfig(record->config_yaml(), "the data folder's configuration"));
  DILOCO_ASSIGN_OR_RETURN(settings_, RunSettingsFromProto(options_.config, record->changes()));
  const std::vector<Setting> differing = DifferingSettings(stored, options_.config);
  const int64_t has = record->changes().empty() ? stored.run.rounds : Config().run.rounds;
  const bool is_final = record->stopped() || recovered.end != nullptr;
  const int64_t wants = options_.config.run.rounds;
  if (wants != stored.run.rounds && recovered.snapshot != nullptr && (is_final ? wants != has : wants < has)) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the data folder holds a run of %d rounds%s, run.rounds says %d; put it back%s", has,
                        is_final ? " that has ended or is stopped" : "", wants,
                        is_final ? "" : ", `dilococtl run stop` ends a run early"));
  }
  if (!differing.empty()) {
    const int64_t committed = *std::min_element(run.rounds.next_round.begin(), run.rounds.next_round.end());
    DILOCO_RETURN_IF_ERROR(
        AddChanges(ChangesOf(differing, run.layout, committed, record->changes()), stored, committed, record));
    DILOCO_ASSIGN_OR_RETURN(settings_, RunSettingsFromProto(options_.config, record->changes()));
  }
  // What was checked against another file is checked again, now that all of it comes together.
  return ParseRunConfig(EffectiveYaml(options_.config_yaml, settings_), "the configuration with what was changed since")
      .status();
}

absl::Status Driver::Impl::RestoreConsensus(RecoveredRun run, const RecoveredState& recovered) {
  DILOCO_ASSIGN_OR_RETURN(snapshot_, world_.store->NewestSnapshot());
  std::optional<v1::StepScalars> scalars;
  if (recovered.snapshot->has_scalars()) {
    scalars = recovered.snapshot->scalars();
  }
  const int64_t version = run.arrays->fragments.front().version();
  if (version == 0) {
    DigestBuilder seed;
    for (const Consensus& fragment : run.arrays->fragments) {
      seed.Add(fragment.parameters());
    }
    seed_digest_ = seed.Finish();
  }
  for (const auto& delta : recovered.deltas) {
    run_->log.Publish(delta);
    run_->rounds.AddRecovered(*delta);
    journaled_.push_back(delta);
    if (delta->round < version) {
      scalars = delta->commit.scalars();
    }
  }
  int64_t newest = version - 1;
  for (const auto& delta : recovered.deltas) newest = std::max(newest, delta->round);
  world_.observer->OnRecovered(snapshot_->header.version(),
                               snapshot_->header.consensus_bytes() + snapshot_->header.residual_bytes(), newest);
  run_->keeper.Adopt(std::move(run.arrays), std::move(run.digests), std::move(run.applied), std::move(scalars));
  for (const auto& delta : recovered.deltas) {
    if (delta->round >= version) {
      run_->keeper.Add(delta);
    }
  }
  if (recovered.end != nullptr) {
    end_ = *recovered.end;
    run_->log.PublishEnd(EndMessage(*end_));
  }
  mailbox_->Post([this] { AdvanceConsensus(); });
  return absl::OkStatus();
}

}  // namespace diloco
