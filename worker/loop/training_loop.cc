#include "worker/loop/training_loop.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"

namespace diloco {
namespace {

// Steps over which the token rate is taken.
constexpr size_t kRateSteps = 20;

}  // namespace

TrainingLoop::TrainingLoop(Parts parts, int64_t first_round)
    : parts_(std::move(parts)),
      first_round_(first_round),
      layout_(*parts_.layout),
      trace_(parts_.options->tracer),
      replica_(parts_.config, parts_.layout, parts_.trainer),
      schedule_(replica_.schedule()),
      fragments_(static_cast<size_t>(layout_.fragment_count())) {
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    needs_.push_back({.fragment = f, .required = schedule_.StartVersion(f, first_round)});
  }
}

TrainingLoop::TrainingLoop(Parts parts, TrainingState resumed)
    : TrainingLoop(std::move(parts), resumed.replica.first_round) {
  DILOCO_CHECK(resumed.progress.size() == fragments_.size());
  stage_ = Stage::kResuming;
  fragments_ = std::move(resumed.progress);
  resumed_ = std::move(resumed.replica);
}

absl::Status TrainingLoop::Run() {
  while (true) {
    DILOCO_ASSIGN_OR_RETURN(const Turn turn, Advance());
    if (turn == Turn::kDone) return absl::OkStatus();
    if (turn == Turn::kMoved) continue;
    const TraceSlice wait =
        trace_.Other("wait", {{"round", stage_ == Stage::kTaking ? stops_.front().stop.round : Round()}});
    DILOCO_RETURN_IF_ERROR(stage_ == Stage::kSettling ? parts_.exchange->AwaitEnd() : parts_.exchange->Await(needs_));
  }
}

absl::StatusOr<TrainingLoop::Turn> TrainingLoop::Advance() {
  switch (stage_) {
    case Stage::kBeginning:
      return Begin();
    case Stage::kResuming:
      return Resume();
    case Stage::kStepping:
      return TakeStep();
    case Stage::kStopping:
      return Stop();
    case Stage::kTaking:
      return TakeStaged();
    case Stage::kSettling:
      return Settle();
    case Stage::kDone:
      break;
  }
  return Turn::kDone;
}

absl::StatusOr<TrainingLoop::Turn> TrainingLoop::Begin() {
  DILOCO_ASSIGN_OR_RETURN(const std::optional<std::vector<StagedStop>> taken, parts_.exchange->TryTake(needs_));
  if (!taken) {
    NoticeSettings();  // They would end each wait at once. They are applied when training begins.
    if (settings_ != nullptr) {
      // A run made shorter has no later version to begin from.
      for (StopNeed& need : needs_) need.required = std::min(need.required, settings_->newest().run.rounds);
    }
    return Turn::kWaits;
  }
  // Fragments lie in the flat vector in order.
  std::vector<float> parameters;
  parameters.reserve(static_cast<size_t>(layout_.element_count()));
  for (size_t f = 0; f < fragments_.size(); ++f) {
    const StagedStop& staged = (*taken)[f];
    parameters.insert(parameters.end(), staged.staged->base.begin(), staged.staged->base.end());
    fragments_[f] = {.version = staged.staged->version, .published = staged.published};
  }
  DILOCO_RETURN_IF_ERROR(replica_.Begin(first_round_, std::move(parameters)));
  for (int f = 0; f < layout_.fragment_count(); ++f) Announce(f);
  NoteBeginning();
  GoOn();
  return Turn::kMoved;
}

absl::StatusOr<TrainingLoop::Turn> TrainingLoop::Resume() {
  DILOCO_RETURN_IF_ERROR(replica_.Restore(std::exchange(resumed_, {})));
  for (int f = 0; f < layout_.fragment_count(); ++f) Announce(f);
  NoteBeginning();
  stage_ = Stage::kStopping;
  return Turn::kMoved;
}

void TrainingLoop::NoteBeginning() {
  if (parts_.checkpoints != nullptr) checkpointed_ = Round() / parts_.options->checkpoint_every;
  began_at_ = parts_.clock->Now();
  recent_.emplace_back(began_at_, 0);
  parts_.board->Update([&](WorkerStatus& status) {
    status.state = "training";
    status.round = Round();
    status.step = replica_.step();
    status.applied_version = OldestVersion();
  });
}

void TrainingLoop::NoticeSettings() {
  if (std::shared_ptr<const RunSettings> newer = parts_.exchange->TakeSettings()) {
    settings_ = std::move(newer);
    settings_applied_ = false;
  }
}

void TrainingLoop::ApplySettings() {
  NoticeSettings();
  if (std::exchange(settings_applied_, true)) return;
  replica_.Steer(*settings_);
  for (int f = 0; f < layout_.fragment_count(); ++f) Announce(f);
  parts_.board->Update([this](WorkerStatus& status) {
    status.rounds = schedule_.rounds();
    status.steps = schedule_.steps();
  });
}

bool TrainingLoop::IsBeyondTheEnd() const {
  return settings_ != nullptr && stops_.front().stop.round >= settings_->newest().run.rounds;
}

// After a step's stops.
void TrainingLoop::GoOn() {
  ApplySettings();
  if (!replica_.Stops().empty()) {  // The run's new end is here, or behind.
    stage_ = Stage::kStopping;
    return;
  }
  stage_ = Stage::kStepping;
  const bool finished = replica_.step() >= schedule_.steps();
  if (!finished && !IsDrained()) return;
  if (!finished) parts_.post(TrainingStopped{*last_round_});
  stage_ = Stage::kSettling;
  parts_.board->Update([](WorkerStatus& status) { status.state = "settling"; });
  ShowProgress(true);
}

bool TrainingLoop::IsDrained() {
  if (!parts_.exchange->draining()) return false;
  if (!last_round_) {
    last_round_ = replica_.NewestBegun();
    LogInfo("draining", {{"round", Round()}, {"last_round", *last_round_}});
  }
  return replica_.IsPast(*last_round_);
}

absl::StatusOr<TrainingLoop::Turn> TrainingLoop::TakeStep() {
  DILOCO_RETURN_IF_ERROR(parts_.exchange->Check());
  const int64_t step = replica_.step();
  trace_.BeginStep(step, step / schedule_.inner_steps());
  DILOCO_ASSIGN_OR_RETURN(const StepReport report, replica_.Step());
  trace_.EndStep();
  NoteStep(report);
  stage_ = Stage::kStopping;
  return Turn::kMoved;
}

absl::StatusOr<TrainingLoop::Turn> TrainingLoop::Stop() {
  stops_ = replica_.Stops();
  if (stops_.empty()) {
    DILOCO_RETURN_IF_ERROR(MaybeCheckpoint());
    DILOCO_RETURN_IF_ERROR(MaybeEvaluate());
    ShowProgress(false);
    GoOn();
    return Turn::kMoved;
  }
  {
    const TraceSlice slice =
        trace_.Other("take outer gradients", {{"round", stops_.front().stop.round}, {"fragments", stops_.size()}});
    DILOCO_ASSIGN_OR_RETURN(finite_, replica_.TakeOuterGradients(&stops_));
    needs_.clear();
    for (FragmentStop& each : stops_) {
      if (replica_.GivesFirst()) HandOver(&each, 0);
      if (each.stop.sets) {
        needs_.push_back({each.fragment, each.stop.round, schedule_.Plan(each.stop.round, 0).required});
      }
    }
  }
  NoteTime();
  asked_at_ = parts_.clock->Now();
  waited_ = false;
  parts_.board->Update([this](WorkerStatus& status) { status.waiting_since = asked_at_; });
  stage_ = Stage::kTaking;
  return TakeStaged();
}

absl::StatusOr<TrainingLoop::Turn> TrainingLoop::TakeStaged() {
  DILOCO_ASSIGN_OR_RETURN(const std::optional<std::vector<StagedStop>> taken, parts_.exchange->TryTake(needs_));
  if (!taken) {
    waited_ = true;
    NoticeSettings();
    if (!IsBeyondTheEnd()) return Turn::kWaits;
  }
  const absl::Duration wait = waited_ ? parts_.clock->Now() - asked_at_ : absl::ZeroDuration();
  parts_.board->Update([&](WorkerStatus& status) {
    status.waiting_since.reset();
    status.blocked_seconds += absl::ToDoubleSeconds(wait);
  });
  NoteTime();
  if (!taken) {
    replica_.Leave(stops_);
    GoOn();
    return Turn::kMoved;
  }
  DILOCO_RETURN_IF_ERROR(SetTheta(*taken));
  NoteStop(wait);
  stage_ = Stage::kStopping;
  return Turn::kMoved;
}

absl::Status TrainingLoop::SetTheta(const std::vector<StagedStop>& taken) {
  const TraceSlice slice =
      trace_.Other("set parameters", {{"round", stops_.front().stop.round}, {"fragments", taken.size()}});
  auto staged = taken.begin();
  for (FragmentStop& each : stops_) {
    if (!each.stop.sets) continue;
    DILOCO_RETURN_IF_ERROR(replica_.SetTheta(each, *staged->staged, finite_));
    fragments_[static_cast<size_t>(each.fragment)] = {staged->staged->version, staged->published};
    if (!replica_.GivesFirst()) HandOver(&each, staged->staged->lambda);
    ++staged;
  }
  return absl::OkStatus();
}

void TrainingLoop::HandOver(FragmentStop* stop, float lambda) {
  const int64_t round = stop->stop.round;
  if (!stop->stop.takes) return;
  replica_.NoteHandedOver(*stop);
  if (finite_) {
    parts_.post(OuterGradientTaken{stop->fragment, round, std::move(stop->outer_gradient), lambda, stop->weight});
    return;
  }
  LogWarning("outer_gradient_not_finite", {{"fragment", stop->fragment}, {"round", round}});
  parts_.post(RoundAbstained{stop->fragment, round, "the outer gradient was not finite"});
}

absl::Status TrainingLoop::MaybeCheckpoint() {
  if (parts_.checkpoints == nullptr) return absl::OkStatus();
  const int64_t due = Round() / parts_.options->checkpoint_every;
  // While the one before is still being written, the next step asks again.
  if (due == checkpointed_ || !parts_.checkpoints->TryReserve()) return absl::OkStatus();
  checkpointed_ = due;
  return HandOverState();
}

absl::Status TrainingLoop::HandOverState() {
  const TraceSlice slice = trace_.Other("copy state", {{"round", Round()}, {"step", replica_.step()}});
  auto training = std::make_shared<TrainingState>();
  DILOCO_ASSIGN_OR_RETURN(training->replica, replica_.Save());
  training->progress = fragments_;
  parts_.post(StateWanted{[training, writer = parts_.checkpoints](SyncState sync) {
    writer->Submit({std::move(*training), std::move(sync)});
  }});
  return absl::OkStatus();
}

absl::Status TrainingLoop::Suspend(MonotonicTime deadline) {
  const bool begun = stage_ != Stage::kBeginning && stage_ != Stage::kResuming;
  if (parts_.checkpoints == nullptr || !begun) return absl::OkStatus();
  parts_.board->Update([](WorkerStatus& status) { status.state = "suspending"; });
  const absl::Status late = absl::DeadlineExceededError("the checkpoint was not written in time");
  if (!parts_.checkpoints->AwaitIdle(deadline) || !parts_.checkpoints->TryReserve()) return late;
  DILOCO_RETURN_IF_ERROR(HandOverState());
  return parts_.checkpoints->AwaitIdle(deadline) ? absl::OkStatus() : late;
}

void TrainingLoop::Announce(int fragment) { parts_.post(TrainingAdvanced{fragment, replica_.NextSet(fragment)}); }

int64_t TrainingLoop::OldestVersion() const {
  const auto oldest = std::min_element(fragments_.begin(), fragments_.end(),
                                       [](const auto& a, const auto& b) { return a.version < b.version; });
  return oldest->version;
}

void TrainingLoop::NoteStop(absl::Duration wait) {
  replica_.Leave(stops_);
  for (const FragmentStop& each : stops_) {
    if (each.stop.sets) Announce(each.fragment);
  }
  const int64_t skipped = SkipClosedRounds();
  const int64_t round = Round();
  parts_.board->Update([&](WorkerStatus& status) {
    status.round = round;
    status.applied_version = OldestVersion();
    status.rounds_skipped += skipped;
    status.outer_gradients_not_finite += finite_ ? 0 : 1;
  });
  NoteTime();
  trace_.Curves(*parts_.board);
  if (parts_.options->on_stop) {
    parts_.options->on_stop({.step = stops_.front().stop.step,
                             .round = stops_.front().stop.round,
                             .next_round = round,
                             .version = OldestVersion(),
                             .finite = finite_,
                             .waited = waited_,
                             .blocked_seconds = absl::ToDoubleSeconds(wait),
                             .theta = replica_.theta()});
  }
}

int64_t TrainingLoop::SkipClosedRounds() {
  std::vector<int64_t> published;
  for (const TrainingState::Progress& progress : fragments_) published.push_back(progress.published);
  const int64_t resume = schedule_.Resume(replica_.step(), published);
  if (resume == replica_.step()) return 0;
  const int64_t from = replica_.step() / schedule_.inner_steps();
  const int64_t to = resume / schedule_.inner_steps();
  LogWarning("rounds_skipped", {{"round", from}, {"to", to}, {"reason", "they closed before this worker's stop"}});
  replica_.Jump(resume);
  for (int f = 0; f < layout_.fragment_count(); ++f) Announce(f);
  return to - from;
}

absl::StatusOr<TrainingLoop::Turn> TrainingLoop::Settle() {
  DILOCO_ASSIGN_OR_RETURN(const bool ended, parts_.exchange->Ended());
  NoticeSettings();  // They would end each wait at once.
  if (!ended && !last_round_) {
    ApplySettings();
    if (replica_.step() < schedule_.steps()) {
      parts_.board->Update([](WorkerStatus& status) { status.state = "training"; });
      GoOn();
      return Turn::kMoved;
    }
  }
  if (!ended) return Turn::kWaits;
  parts_.board->Update([this](WorkerStatus& status) {
    if (replica_.step() >= schedule_.steps()) status.applied_version = schedule_.rounds();
  });
  DILOCO_RETURN_IF_ERROR(MaybeEvaluate());
  parts_.board->Update([](WorkerStatus& status) { status.state = "done"; });
  ShowProgress(true);
  stage_ = Stage::kDone;
  return Turn::kDone;
}

absl::Status TrainingLoop::MaybeEvaluate() {
  const std::shared_ptr<const ConsensusCopy> copy = parts_.exchange->TakeConsensusCopy();
  if (copy == nullptr || !can_evaluate_) {
    return absl::OkStatus();
  }
  const TraceSlice slice = trace_.Other("evaluation", {{"version", copy->version}});
  const MonotonicTime start = parts_.clock->Now();
  const absl::StatusOr<EvaluationReport> report = parts_.trainer->Evaluate(copy->parameters);
  if (absl::IsFailedPrecondition(report.status())) {
    can_evaluate_ = false;
    LogWarning("no_evaluation", {{"version", copy->version}, {"reason", report.status().message()}});
    return absl::OkStatus();
  }
  DILOCO_RETURN_IF_ERROR(report.status());
  evaluation_time_ += parts_.clock->Now() - start;
  v1::Evaluation evaluation;
  evaluation.set_version(copy->version);
  evaluation.set_loss(report->loss);
  evaluation.set_tokens(report->tokens);
  evaluation.set_worker_id(parts_.options->worker_id);
  parts_.report(evaluation);
  parts_.board->Update([&](WorkerStatus& status) {
    status.evaluation_loss = report->loss;
    status.evaluation_version = copy->version;
    status.evaluation_seconds = absl::ToDoubleSeconds(evaluation_time_);
  });
  return absl::OkStatus();
}

void TrainingLoop::NoteStep(const StepReport& report) {
  const MonotonicTime now = parts_.clock->Now();
  recent_.emplace_back(now, recent_.back().second + report.tokens);
  if (recent_.size() > kRateSteps + 1) {
    recent_.pop_front();
  }
  const double seconds = absl::ToDoubleSeconds(now - recent_.front().first);
  const double tokens = static_cast<double>(recent_.back().second - recent_.front().second);
  parts_.board->Update([&](WorkerStatus& status) {
    status.first_loss = status.session_steps == 0 ? report.loss : status.first_loss;
    ++status.session_steps;
    status.step = replica_.step();
    status.loss = report.loss;
    status.tokens += report.tokens;
    status.tokens_per_second = seconds > 0 ? tokens / seconds : 0;
  });
  NoteTime();
}

void TrainingLoop::NoteTime() {
  const absl::Duration wall = parts_.clock->Now() - began_at_ - evaluation_time_;
  parts_.board->Update([&](WorkerStatus& status) { status.wall_seconds = absl::ToDoubleSeconds(wall); });
}

void TrainingLoop::ShowProgress(bool now) {
  const MonotonicTime time = parts_.clock->Now();
  if (!parts_.options->on_progress || (!now && shown_ && time - shown_at_ < parts_.options->progress_interval)) {
    return;
  }
  shown_ = true;
  shown_at_ = time;
  parts_.options->on_progress(parts_.board->Get());
}

}  // namespace diloco
