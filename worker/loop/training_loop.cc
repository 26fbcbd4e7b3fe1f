#include "worker/loop/training_loop.h"

#include <algorithm>
#include <utility>

#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "spdlog/spdlog.h"

namespace diloco {
namespace {

// Steps over which the token rate is taken.
constexpr size_t kRateSteps = 20;

}  // namespace

TrainingLoop::TrainingLoop(Parts parts)
    : parts_(std::move(parts)),
      layout_(*parts_.layout),
      replica_(parts_.config, parts_.layout, parts_.trainer),
      schedule_(replica_.schedule()),
      fragments_(static_cast<size_t>(layout_.fragment_count())) {}

absl::Status TrainingLoop::Run(int64_t first_round) {
  DILOCO_RETURN_IF_ERROR(Begin(first_round));
  while (replica_.step() < schedule_.steps()) {
    DILOCO_RETURN_IF_ERROR(TakeStep());
    DILOCO_RETURN_IF_ERROR(StopFragments());
    DILOCO_RETURN_IF_ERROR(MaybeEvaluate());
    ShowProgress(false);
  }
  return Settle();
}

absl::Status TrainingLoop::Begin(int64_t first_round) {
  std::vector<StopNeed> needs;
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    needs.push_back({.fragment = f, .required = schedule_.StartVersion(f, first_round)});
  }
  DILOCO_ASSIGN_OR_RETURN(const Exchange::Taken taken, parts_.exchange->Take(needs));
  // Fragments lie in the flat vector in order.
  std::vector<float> parameters;
  parameters.reserve(static_cast<size_t>(layout_.element_count()));
  for (size_t f = 0; f < fragments_.size(); ++f) {
    const StagedStop& staged = taken.stops[f];
    parameters.insert(parameters.end(), staged.staged->base.begin(), staged.staged->base.end());
    fragments_[f] = {.version = staged.staged->version, .published = staged.published};
  }
  DILOCO_RETURN_IF_ERROR(replica_.Begin(first_round, std::move(parameters)));
  for (int f = 0; f < layout_.fragment_count(); ++f) Announce(f);
  began_at_ = parts_.clock->Now();
  recent_.emplace_back(began_at_, 0);
  parts_.board->Update([&](WorkerStatus& status) {
    status.state = "training";
    status.round = first_round;
    status.step = replica_.step();
    status.applied_version = OldestVersion();
  });
  return absl::OkStatus();
}

absl::Status TrainingLoop::TakeStep() {
  DILOCO_RETURN_IF_ERROR(parts_.exchange->Check());
  DILOCO_ASSIGN_OR_RETURN(const StepReport report, replica_.Step());
  NoteStep(report);
  return absl::OkStatus();
}

absl::Status TrainingLoop::StopFragments() {
  while (true) {
    std::vector<FragmentStop> stops = replica_.Stops();
    if (stops.empty()) return absl::OkStatus();
    DILOCO_RETURN_IF_ERROR(StopTogether(std::move(stops)));
  }
}

absl::Status TrainingLoop::StopTogether(std::vector<FragmentStop> stops) {
  DILOCO_ASSIGN_OR_RETURN(const bool finite, replica_.TakeOuterGradients(&stops));
  std::vector<StopNeed> needs;
  for (FragmentStop& each : stops) {
    if (replica_.GivesFirst()) HandOver(&each, finite, 0);
    if (each.stop.sets) {
      needs.push_back({each.fragment, each.stop.round, schedule_.Plan(each.stop.round, 0).required});
    }
  }
  NoteTime();
  const MonotonicTime asked_at = parts_.clock->Now();
  parts_.board->Update([&](WorkerStatus& status) { status.waiting_since = asked_at; });
  DILOCO_ASSIGN_OR_RETURN(const Exchange::Taken taken, parts_.exchange->Take(needs));
  parts_.board->Update([&](WorkerStatus& status) {
    status.waiting_since.reset();
    status.blocked_seconds += absl::ToDoubleSeconds(taken.wait);
  });
  NoteTime();
  auto staged = taken.stops.begin();
  for (FragmentStop& each : stops) {
    if (!each.stop.sets) continue;
    DILOCO_RETURN_IF_ERROR(replica_.SetTheta(each, *staged->staged, finite));
    fragments_[static_cast<size_t>(each.fragment)] = {staged->staged->version, staged->published};
    if (!replica_.GivesFirst()) HandOver(&each, finite, staged->staged->lambda);
    ++staged;
  }
  NoteStop(stops, finite, taken);
  return absl::OkStatus();
}

void TrainingLoop::HandOver(FragmentStop* stop, bool finite, float lambda) {
  const int64_t round = stop->stop.round;
  if (!stop->stop.takes) return;
  if (finite) {
    parts_.post(OuterGradientTaken{stop->fragment, round, std::move(stop->outer_gradient), lambda, stop->weight});
    return;
  }
  spdlog::warn("event=outer_gradient_not_finite fragment={} round={}", stop->fragment, round);
  parts_.post(RoundAbstained{stop->fragment, round, "the outer gradient was not finite"});
}

void TrainingLoop::Announce(int fragment) { parts_.post(TrainingAdvanced{fragment, replica_.NextSet(fragment)}); }

int64_t TrainingLoop::OldestVersion() const {
  const auto oldest = std::min_element(fragments_.begin(), fragments_.end(),
                                       [](const Progress& a, const Progress& b) { return a.version < b.version; });
  return oldest->version;
}

void TrainingLoop::NoteStop(const std::vector<FragmentStop>& stops, bool finite, const Exchange::Taken& taken) {
  replica_.Leave(stops);
  for (const FragmentStop& each : stops) {
    if (each.stop.sets) Announce(each.fragment);
  }
  const int64_t skipped = SkipClosedRounds();
  const int64_t round = std::min(replica_.step() / schedule_.inner_steps(), schedule_.rounds());
  parts_.board->Update([&](WorkerStatus& status) {
    status.round = round;
    status.applied_version = OldestVersion();
    status.rounds_skipped += skipped;
    status.outer_gradients_not_finite += finite ? 0 : 1;
  });
  NoteTime();
  if (parts_.options->on_stop) {
    parts_.options->on_stop({.step = stops.front().stop.step,
                             .round = stops.front().stop.round,
                             .next_round = round,
                             .version = OldestVersion(),
                             .finite = finite,
                             .waited = taken.waited,
                             .blocked_seconds = absl::ToDoubleSeconds(taken.wait),
                             .theta = replica_.theta()});
  }
}

int64_t TrainingLoop::SkipClosedRounds() {
  std::vector<int64_t> published;
  for (const Progress& progress : fragments_) published.push_back(progress.published);
  const int64_t resume = schedule_.Resume(replica_.step(), published);
  if (resume == replica_.step()) return 0;
  const int64_t from = replica_.step() / schedule_.inner_steps();
  const int64_t to = resume / schedule_.inner_steps();
  spdlog::warn("event=rounds_skipped from={} to={} reason=\"they closed before this worker's stop\"", from, to);
  replica_.Jump(resume);
  for (int f = 0; f < layout_.fragment_count(); ++f) Announce(f);
  return to - from;
}

absl::Status TrainingLoop::Settle() {
  parts_.board->Update([](WorkerStatus& status) { status.state = "settling"; });
  ShowProgress(true);
  DILOCO_RETURN_IF_ERROR(parts_.exchange->AwaitEnd());
  parts_.board->Update([this](WorkerStatus& status) { status.applied_version = schedule_.rounds(); });
  DILOCO_RETURN_IF_ERROR(MaybeEvaluate());
  parts_.board->Update([](WorkerStatus& status) { status.state = "done"; });
  ShowProgress(true);
  return absl::OkStatus();
}

absl::Status TrainingLoop::MaybeEvaluate() {
  const std::shared_ptr<const ConsensusCopy> copy = parts_.exchange->TakeConsensusCopy();
  if (copy == nullptr || !can_evaluate_) {
    return absl::OkStatus();
  }
  const MonotonicTime start = parts_.clock->Now();
  const absl::StatusOr<EvaluationReport> report = parts_.trainer->Evaluate(copy->parameters);
  if (absl::IsFailedPrecondition(report.status())) {
    can_evaluate_ = false;
    spdlog::warn("event=no_evaluation reason={}", Quoted(std::string(report.status().message())));
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
