#include "worker/loop/training_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "spdlog/spdlog.h"
#include "worker/outer/boundary.h"

namespace diloco {
namespace {

// Steps over which the token rate is taken.
constexpr size_t kRateSteps = 20;

absl::Span<float> Part(std::vector<float>* all, const FragmentRange& range) {
  return absl::MakeSpan(*all).subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count));
}

}  // namespace

TrainingLoop::TrainingLoop(Parts parts)
    : parts_(std::move(parts)),
      config_(*parts_.config),
      layout_(*parts_.layout),
      schedule_(config_, layout_.fragment_count()),
      method_(*FindMethod(config_.method)),
      fragments_(static_cast<size_t>(layout_.fragment_count())),
      anchor_(static_cast<size_t>(layout_.element_count())),
      theta_(static_cast<size_t>(layout_.element_count())) {}

absl::Status TrainingLoop::Run(int64_t first_round) {
  DILOCO_RETURN_IF_ERROR(Begin(first_round));
  while (step_ < schedule_.steps()) {
    DILOCO_RETURN_IF_ERROR(TakeStep());
    DILOCO_RETURN_IF_ERROR(StopFragments());
    DILOCO_RETURN_IF_ERROR(MaybeEvaluate());
    ShowProgress(false);
  }
  return Settle();
}

absl::Status TrainingLoop::Begin(int64_t first_round) {
  first_round_ = first_round;
  step_ = first_round * schedule_.inner_steps();
  std::vector<StopNeed> needs;
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    needs.push_back({.fragment = f, .required = schedule_.StartVersion(f, first_round)});
  }
  DILOCO_ASSIGN_OR_RETURN(const Exchange::Taken taken, parts_.exchange->Take(needs));
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    const StagedStop& staged = taken.stops[static_cast<size_t>(f)];
    const absl::Span<float> anchor = Part(&anchor_, layout_.fragments()[static_cast<size_t>(f)]);
    std::copy(staged.staged->base.begin(), staged.staged->base.end(), anchor.begin());
    fragments_[static_cast<size_t>(f)] = {.next = schedule_.FirstAfter(f, step_, first_round),
                                          .version = staged.staged->version,
                                          .published = staged.published};
  }
  theta_ = anchor_;
  DILOCO_RETURN_IF_ERROR(parts_.trainer->WriteParameters(0, theta_));
  for (int f = 0; f < layout_.fragment_count(); ++f) Announce(f);
  began_at_ = parts_.clock->Now();
  recent_.emplace_back(began_at_, 0);
  parts_.board->Update([&](WorkerStatus& status) {
    status.state = "training";
    status.round = first_round;
    status.step = step_;
    status.applied_version = OldestVersion();
  });
  return absl::OkStatus();
}

absl::Status TrainingLoop::TakeStep() {
  DILOCO_RETURN_IF_ERROR(parts_.exchange->Check());
  StepReport report;
  if (method_.payload == Payload::kGradient) {
    gradient_.resize(theta_.size());
    DILOCO_ASSIGN_OR_RETURN(report, parts_.trainer->ComputeGradient(step_, absl::MakeSpan(gradient_)));
  } else {
    DILOCO_ASSIGN_OR_RETURN(report, parts_.trainer->Step(step_));
  }
  ++step_;
  NoteStep(report);
  return absl::OkStatus();
}

absl::Status TrainingLoop::StopFragments() {
  while (true) {
    std::vector<Stopping> stopping;
    for (int f = 0; f < layout_.fragment_count(); ++f) {
      const std::optional<Stop>& next = fragments_[static_cast<size_t>(f)].next;
      // Those of one round together: at the end of the run a fragment may stop twice.
      if (next && next->step == step_ && (stopping.empty() || next->round == stopping.front().stop.round)) {
        stopping.push_back({.fragment = f, .stop = *next});
      }
    }
    if (stopping.empty()) return absl::OkStatus();
    DILOCO_RETURN_IF_ERROR(StopTogether(std::move(stopping)));
  }
}

absl::Status TrainingLoop::StopTogether(std::vector<Stopping> stopping) {
  bool finite = true;
  for (Stopping& each : stopping) {
    DILOCO_ASSIGN_OR_RETURN(const bool one_finite, TakeOuterGradientOf(&each));
    finite = finite && one_finite;
  }
  if (!finite) DILOCO_RETURN_IF_ERROR(Heal());
  // Where the round's own average is waited for, its contribution goes first. Else it goes once the stop has what it
  // may apply: its average, should it be back at once, is not for this stop.
  const bool gives_first = method_.overlap != Overlap::kRounds;
  std::vector<StopNeed> needs;
  for (Stopping& each : stopping) {
    if (gives_first) HandOver(&each, finite, 0);
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
  for (Stopping& each : stopping) {
    if (!each.stop.sets) continue;
    DILOCO_RETURN_IF_ERROR(SetTheta(each, *staged, finite));
    if (!gives_first) HandOver(&each, finite, staged->staged->lambda);
    ++staged;
  }
  NoteStop(stopping, finite, taken);
  return absl::OkStatus();
}

absl::StatusOr<bool> TrainingLoop::TakeOuterGradientOf(Stopping* stopping) {
  const FragmentRange& range = layout_.fragments()[static_cast<size_t>(stopping->fragment)];
  const absl::Span<float> theta = Part(&theta_, range);
  DILOCO_RETURN_IF_ERROR(parts_.trainer->ReadParameters(range.offset, theta));
  if (!stopping->stop.takes) return true;
  if (method_.payload == Payload::kGradient) {
    stopping->outer_gradient = std::exchange(gradient_, {});
    return AllFinite(stopping->outer_gradient);
  }
  stopping->outer_gradient.resize(theta.size());
  return TakeOuterGradient(Part(&anchor_, range), theta, absl::MakeSpan(stopping->outer_gradient));
}

absl::Status TrainingLoop::Heal() {
  theta_ = anchor_;
  DILOCO_RETURN_IF_ERROR(parts_.trainer->WriteParameters(0, theta_));
  parts_.trainer->ResetInnerOptimizer();
  return absl::OkStatus();
}

void TrainingLoop::HandOver(Stopping* stopping, bool finite, float lambda) {
  const auto& [step, round, takes, sets] = stopping->stop;
  if (!takes) return;
  if (finite) {
    parts_.post(OuterGradientTaken{stopping->fragment, round, std::move(stopping->outer_gradient), lambda});
    return;
  }
  spdlog::warn("event=outer_gradient_not_finite fragment={} round={}", stopping->fragment, round);
  parts_.post(RoundAbstained{stopping->fragment, round, "the outer gradient was not finite"});
}

absl::Status TrainingLoop::SetTheta(const Stopping& stopping, const StagedStop& stop, bool finite) {
  const FragmentRange& range = layout_.fragments()[static_cast<size_t>(stopping.fragment)];
  const FragmentOuter::Staged& staged = *stop.staged;
  const absl::Span<float> theta = Part(&theta_, range);
  DILOCO_CHECK(staged.base.size() == theta.size());
  if (LooksAhead(method_) && finite) {
    staged.LookAhead(stopping.outer_gradient, theta);
  } else if (method_.after == AfterBoundary::kMix) {
    Mix(static_cast<float>(config_.streaming.mixing), staged.base, theta);
  } else {
    std::copy(staged.base.begin(), staged.base.end(), theta.begin());
  }
  const absl::Span<const float> anchor = method_.anchor == Anchor::kOwn ? theta : absl::MakeConstSpan(staged.base);
  std::copy(anchor.begin(), anchor.end(), Part(&anchor_, range).begin());
  Progress& progress = fragments_[static_cast<size_t>(stopping.fragment)];
  progress.version = staged.version;
  progress.published = stop.published;
  return parts_.trainer->WriteParameters(range.offset, theta);
}

void TrainingLoop::Announce(int fragment) {
  std::optional<Stop> setting = fragments_[static_cast<size_t>(fragment)].next;
  if (setting && !setting->sets) setting = schedule_.Next(fragment, *setting);
  parts_.post(TrainingAdvanced{fragment, setting ? setting->round : schedule_.rounds()});
}

int64_t TrainingLoop::OldestVersion() const {
  const auto oldest = std::min_element(fragments_.begin(), fragments_.end(),
                                       [](const Progress& a, const Progress& b) { return a.version < b.version; });
  return oldest->version;
}

void TrainingLoop::NoteStop(const std::vector<Stopping>& stopping, bool finite, const Exchange::Taken& taken) {
  for (const Stopping& each : stopping) {
    Progress& progress = fragments_[static_cast<size_t>(each.fragment)];
    progress.next = schedule_.Next(each.fragment, each.stop);
    if (each.stop.sets) Announce(each.fragment);
  }
  const int64_t skipped = SkipClosedRounds();
  const int64_t round = std::min(step_ / schedule_.inner_steps(), schedule_.rounds());
  parts_.board->Update([&](WorkerStatus& status) {
    status.round = round;
    status.applied_version = OldestVersion();
    status.rounds_skipped += skipped;
    status.outer_gradients_not_finite += finite ? 0 : 1;
  });
  NoteTime();
  if (parts_.options->on_stop) {
    parts_.options->on_stop({.step = stopping.front().stop.step,
                             .round = stopping.front().stop.round,
                             .next_round = round,
                             .version = OldestVersion(),
                             .finite = finite,
                             .waited = taken.waited,
                             .blocked_seconds = absl::ToDoubleSeconds(taken.wait),
                             .theta = theta_});
  }
}

int64_t TrainingLoop::SkipClosedRounds() {
  std::vector<int64_t> published;
  for (const Progress& progress : fragments_) published.push_back(progress.published);
  const int64_t resume = schedule_.Resume(step_, published);
  if (resume == step_) return 0;
  const int64_t from = step_ / schedule_.inner_steps();
  const int64_t to = resume / schedule_.inner_steps();
  spdlog::warn("event=rounds_skipped from={} to={} reason=\"they closed before this worker's stop\"", from, to);
  step_ = resume;
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    fragments_[static_cast<size_t>(f)].next = schedule_.FirstAfter(f, step_, first_round_);
    Announce(f);
  }
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
    status.step = step_;
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
