// What an operator does to the run: pause, resume, stop, extend, set. All of it lies in the run's record, which is
// written anew, whole, with each change. The store works in order, so that what follows from a change becomes durable
// after it; and workers are told of it in the subscription, before every global delta that does.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/config/run_settings_proto.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/wire.h"

namespace diloco {
namespace {

using Changes = google::protobuf::RepeatedPtrField<v1::RunChange>;

// That a change of this reach holds from, at the earliest: the newest values stay the newest.
int64_t NewestRoundOf(Reach reach, const Changes& changes) {
  int64_t newest = 0;
  for (const v1::RunChange& change : changes) {
    const bool same = std::any_of(change.settings().begin(), change.settings().end(), [reach](const auto& setting) {
      const absl::StatusOr<Reach> of = ReachOf(setting.key());
      return of.ok() && *of == reach;
    });
    if (same) newest = std::max(newest, change.from_round());
  }
  return newest;
}

v1::RunChange Merged(const v1::RunChange& change, const std::vector<Setting>& newer) {
  std::vector<Setting> merged = SettingsFromProto(change.settings());
  for (const Setting& each : newer) {
    std::erase_if(merged, [&each](const Setting& setting) { return setting.key == each.key; });
    merged.push_back(each);
  }
  return RunChangeToProto({.from_round = change.from_round(), .settings = std::move(merged)});
}

// One that holds from the same round on takes it in, so that changing a run that stands still does not fill the list.
// The first change is how the run began.
void AddChange(const RunChange& change, Changes* changes) {
  const auto same = std::find_if(changes->begin() + 1, changes->end(), [&change](const v1::RunChange& earlier) {
    return earlier.from_round() == change.from_round;
  });
  if (same == changes->end()) {
    *changes->Add() = RunChangeToProto(change);
  } else {
    *same = Merged(*same, change.settings);
  }
}

// The first change takes the second one in, which holds in every round that is still to come.
void ForgetOldest(Changes* changes) {
  changes->at(0) = Merged(changes->at(0), SettingsFromProto(changes->at(1).settings()));
  changes->erase(changes->begin() + 1);
}

}  // namespace

RoundOptions Driver::Impl::OptionsNow(int fragments) const {
  RoundOptions options = RoundOptions::From(Config(), fragments);
  options.stopped = run_ != nullptr && run_->record.stopped();
  return options;
}

bool Driver::Impl::IsPaused() const {
  return run_ != nullptr && run_->record.paused() && machine_.phase() != RunPhase::kEnded;
}

absl::Status Driver::Impl::CheckSteers(const std::string& run_id) const {
  DILOCO_RETURN_IF_ERROR(CheckAdminRun(run_id));
  if (run_ == nullptr) {
    return absl::FailedPreconditionError("no worker has joined the run yet; edit its configuration and start again");
  }
  if (machine_.ended()) {
    return absl::FailedPreconditionError(absl::StrFormat("the run has ended with %d rounds", Config().run.rounds));
  }
  return absl::OkStatus();
}

std::vector<RunChange> Driver::Impl::ChangesOf(const std::vector<Setting>& settings, const Layout& layout,
                                               int64_t committed, const Changes& earlier) const {
  std::vector<RunChange> changes;
  for (const Reach reach : {Reach::kAtOnce, Reach::kByRound}) {
    RunChange change;
    for (const Setting& setting : settings) {
      if (*ReachOf(setting.key) == reach) change.settings.push_back(setting);
    }
    if (change.settings.empty()) continue;
    change.from_round = committed;
    if (reach == Reach::kByRound) {
      const absl::StatusOr<std::vector<int64_t>> offsets = FragmentOffsets(options_.config, layout.fragment_count());
      DILOCO_CHECK(offsets.ok());
      change.from_round = FirstRoundNotBegun(options_.config, *offsets, committed);
    }
    change.from_round = std::max(change.from_round, NewestRoundOf(reach, earlier));
    changes.push_back(std::move(change));
  }
  return changes;
}

absl::Status Driver::Impl::AddChanges(const std::vector<RunChange>& changes, const RunConfig& before,
                                      int64_t oldest_open, v1::RunRecord* record) const {
  Changes& all = *record->mutable_changes();
  if (all.empty()) *all.Add() = RunChangeToProto({.from_round = 0, .settings = CurrentSettings(before)});
  for (const RunChange& change : changes) AddChange(change, &all);
  while (all.size() > kMaxRunChanges) {
    if (all.at(1).from_round() > oldest_open) {
      return absl::ResourceExhaustedError(absl::StrFormat(
          "%d changes are still to come into force; try again after round %d", kMaxRunChanges, all.at(1).from_round()));
    }
    ForgetOldest(&all);
  }
  return absl::OkStatus();
}

absl::Status Driver::Impl::Change(const std::vector<RunChange>& changes) {
  v1::RunRecord record = run_->record;
  DILOCO_RETURN_IF_ERROR(AddChanges(changes, options_.config, machine_.OldestOpenRound(), &record));
  DILOCO_ASSIGN_OR_RETURN(settings_, RunSettingsFromProto(options_.config, record.changes()));
  run_->record = std::move(record);
  return absl::OkStatus();
}

void Driver::Impl::PublishSettings(const Changes& durable) {
  if (!durable.empty()) {
    run_->durable_changes = durable;
    run_->log.PublishSettings(SettingsMessage(options_.config.run.id, durable));
  }
}

RunSettings Driver::Impl::DurableSettings() const {
  if (run_ == nullptr) return settings_;
  absl::StatusOr<RunSettings> durable = RunSettingsFromProto(options_.config, run_->durable_changes);
  DILOCO_CHECK(durable.ok());  // They were made from the same file.
  return *std::move(durable);
}

void Driver::Impl::PersistRun(const std::function<void(DriverObserver*)>& tell) {
  SubmitStore([store = world_.store, record = run_->record] { return store->AppendRun(record); },
              [this, tell, changes = run_->record.changes(), config = Config()] {
                PublishSettings(changes);
                world_.observer->OnSettings(config);
                tell(world_.observer);
              });
  machine_.SetOptions(OptionsNow(run_->layout->fragment_count()), Now());
  Step(TimePassed{});
}

void Driver::Impl::EndPause() {
  run_->record.set_paused(false);
  machine_.Release(HeldBy::kOperator);
  reported_waiting_.clear();  // What rounds wait for is another thing now.
}

void Driver::Impl::PauseRun(const v1::PauseRunRequest& request, const PendingReply<v1::PauseRunResponse>& reply) {
  if (const absl::Status status = CheckSteers(request.run_id()); !status.ok()) {
    reply(status);
    return;
  }
  if (!run_->record.paused()) {
    run_->record.set_paused(true);
    machine_.Hold(HeldBy::kOperator);
    PersistRun([](DriverObserver* observer) { observer->OnRunPaused(); });
  }
  ReplyWhenDurable(reply, v1::PauseRunResponse());
}

void Driver::Impl::ResumeRun(const v1::ResumeRunRequest& request, const PendingReply<v1::ResumeRunResponse>& reply) {
  if (const absl::Status status = CheckSteers(request.run_id()); !status.ok()) {
    reply(status);
    return;
  }
  if (run_->record.paused()) {
    EndPause();
    PersistRun([](DriverObserver* observer) { observer->OnRunResumed(); });
  }
  v1::ResumeRunResponse response;
  response.set_held(BoundedReason(HoldReason().value_or("")));
  ReplyWhenDurable(reply, std::move(response));
}

void Driver::Impl::StopRun(const v1::StopRunRequest& request, const PendingReply<v1::StopRunResponse>& reply) {
  const auto stop = [&]() -> absl::Status {
    DILOCO_RETURN_IF_ERROR(CheckSteers(request.run_id()));
    if (run_->record.stopped()) {
      return absl::OkStatus();
    }
    if (FolderIsBehind()) {  // It would end with what the folder has.
      return absl::FailedPreconditionError(absl::StrFormat("the run is held: %s", BehindReason()));
    }
    if (machine_.phase() != RunPhase::kTraining) {
      return absl::FailedPreconditionError("training has not begun, so that there is nothing to end in good order");
    }
    const Setting length = {std::string(kLengthKey), absl::StrFormat("%d", machine_.EarliestEnd())};
    DILOCO_RETURN_IF_ERROR(
        Change(ChangesOf({length}, *run_->layout, machine_.OldestUnclosedRound(), run_->record.changes())));
    run_->record.set_stopped(true);
    const bool was_paused = run_->record.paused();
    if (was_paused) EndPause();
    PersistRun([was_paused, rounds = Config().run.rounds](DriverObserver* observer) {
      if (was_paused) observer->OnRunResumed();
      observer->OnRunStopped(rounds);
    });
    return absl::OkStatus();
  };
  if (const absl::Status status = stop(); !status.ok()) {
    reply(status);
    return;
  }
  v1::StopRunResponse response;
  response.set_rounds(Config().run.rounds);
  ReplyWhenDurable(reply, std::move(response));
}

void Driver::Impl::ExtendRun(const v1::ExtendRunRequest& request, const PendingReply<v1::ExtendRunResponse>& reply) {
  v1::ExtendRunResponse response;
  const auto extend = [&]() -> absl::Status {
    DILOCO_RETURN_IF_ERROR(CheckSteers(request.run_id()));
    if (run_->record.stopped()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("the run is stopped and ends with %d rounds", Config().run.rounds));
    }
    if (request.rounds() < Config().run.rounds) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%d rounds are less than the %d that the run has; `run stop` ends it early", request.rounds(),
                          Config().run.rounds));
    }
    if (request.rounds() == Config().run.rounds) {
      return absl::OkStatus();
    }
    const std::vector<Setting> settings = {{std::string(kLengthKey), absl::StrFormat("%d", request.rounds())}};
    DILOCO_RETURN_IF_ERROR(WithSettings(Config(), settings).status());
    const std::vector<RunChange> changes =
        ChangesOf(settings, *run_->layout, machine_.OldestUnclosedRound(), run_->record.changes());
    DILOCO_RETURN_IF_ERROR(Change(changes));
    response.set_from_round(changes.front().from_round);
    PersistRun([changes](DriverObserver* observer) { observer->OnRunChanged(changes); });
    return absl::OkStatus();
  };
  if (const absl::Status status = extend(); !status.ok()) {
    reply(status);
    return;
  }
  response.set_rounds(Config().run.rounds);
  ReplyWhenDurable(reply, std::move(response));
}

void Driver::Impl::SetConfig(const v1::SetConfigRequest& request, const PendingReply<v1::SetConfigResponse>& reply) {
  v1::SetConfigResponse response;
  const auto set = [&]() -> absl::Status {
    DILOCO_RETURN_IF_ERROR(CheckSteers(request.run_id()));
    const std::vector<Setting> settings = SettingsFromProto(request.settings());
    for (const Setting& setting : settings) {
      if (setting.key == kLengthKey) {
        return absl::InvalidArgumentError("run.rounds is changed by `run extend` and `run stop`");
      }
    }
    DILOCO_ASSIGN_OR_RETURN(const RunConfig wanted, WithSettings(Config(), settings));
    const std::vector<Setting> differing = DifferingSettings(Config(), wanted);
    if (differing.empty()) {
      return absl::OkStatus();
    }
    const std::vector<RunChange> changes =
        ChangesOf(differing, *run_->layout, machine_.OldestUnclosedRound(), run_->record.changes());
    DILOCO_RETURN_IF_ERROR(Change(changes));
    *response.mutable_changes() = RunChangesToProto(changes);
    PersistRun([changes](DriverObserver* observer) { observer->OnRunChanged(changes); });
    return absl::OkStatus();
  };
  if (const absl::Status status = set(); !status.ok()) {
    reply(status);
    return;
  }
  ReplyWhenDurable(reply, std::move(response));
}

void Driver::Impl::GetConfig(const v1::GetConfigRequest& request, const PendingReply<v1::GetConfigResponse>& reply) {
  if (const absl::Status status = CheckAdminRun(request.run_id()); !status.ok()) {
    reply(status);
    return;
  }
  const RunSettings settings = DurableSettings();
  v1::GetConfigResponse response;
  response.set_run_id(options_.config.run.id);
  response.set_config_yaml(EffectiveYaml(options_.config_yaml, settings));
  for (size_t i = 1; i < settings.changes().size(); ++i) {  // The first one is how the run began.
    *response.add_changes() = RunChangeToProto(settings.changes()[i]);
  }
  for (std::string& key : ChangeableKeys()) {
    response.add_changeable_keys(std::move(key));
  }
  reply(std::move(response));
}

}  // namespace diloco
