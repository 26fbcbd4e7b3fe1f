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

absl::Span<const float> Part(absl::Span<const float> all, const FragmentRange& range) {
  return all.subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count));
}

absl::Span<float> Part(std::vector<float>* all, const FragmentRange& range) {
  return absl::MakeSpan(*all).subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count));
}

}  // namespace

TrainingLoop::TrainingLoop(Parts parts)
    : parts_(std::move(parts)),
      config_(*parts_.config),
      layout_(*parts_.layout),
      schedule_(config_),
      method_(*FindMethod(config_.method)),
      anchor_(static_cast<size_t>(layout_.element_count())),
      theta_(static_cast<size_t>(layout_.element_count())) {}

absl::Status TrainingLoop::Run(int64_t first_round) {
  DILOCO_RETURN_IF_ERROR(Begin(first_round));
  for (int64_t round = first_round; round < schedule_.rounds();) {
    DILOCO_RETURN_IF_ERROR(TrainRound(round));
    DILOCO_ASSIGN_OR_RETURN(round, EndRound(round));
    DILOCO_RETURN_IF_ERROR(MaybeEvaluate());
    ShowProgress(false);
  }
  return Settle();
}

absl::Status TrainingLoop::Begin(int64_t first_round) {
  const int64_t start = schedule_.StartVersion(first_round);
  DILOCO_ASSIGN_OR_RETURN(const Exchange::Taken taken, parts_.exchange->Take(kBeforeTraining, start));
  SetTheta(taken.boundary, false, {});
  DILOCO_RETURN_IF_ERROR(parts_.trainer->WriteParameters(0, anchor_));
  parts_.post(TrainingAdvanced{first_round});
  began_at_ = parts_.clock->Now();
  recent_.emplace_back(began_at_, 0);
  parts_.board->Update([&](WorkerStatus& status) {
    status.state = "training";
    status.round = first_round;
    status.step = first_round * schedule_.inner_steps();
    status.applied_version = taken.boundary.version();
  });
  return absl::OkStatus();
}

absl::Status TrainingLoop::TrainRound(int64_t round) {
  for (int64_t i = 0; i < schedule_.inner_steps(); ++i) {
    DILOCO_RETURN_IF_ERROR(parts_.exchange->Check());
    const int64_t step = round * schedule_.inner_steps() + i;
    DILOCO_ASSIGN_OR_RETURN(const StepReport report, parts_.trainer->Step(step));
    NoteStep(step, report);
    ShowProgress(false);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> TrainingLoop::EndRound(int64_t round) {
  DILOCO_RETURN_IF_ERROR(parts_.trainer->ReadParameters(0, absl::MakeSpan(theta_)));
  std::vector<float> outer_gradient(theta_.size());
  const bool finite = TakeOuterGradient(anchor_, theta_, absl::MakeSpan(outer_gradient));
  if (method_.overlap != Overlap::kRounds) {  // The average of this very round is waited for.
    HandOver(round, finite, std::move(outer_gradient), {});
  }
  const int64_t required = schedule_.Plan(round, 0).required;
  NoteTime();
  const MonotonicTime asked_at = parts_.clock->Now();
  parts_.board->Update([&](WorkerStatus& status) { status.waiting_since = asked_at; });
  DILOCO_ASSIGN_OR_RETURN(const Exchange::Taken taken, parts_.exchange->Take(round, required));
  parts_.board->Update([&](WorkerStatus& status) {
    status.waiting_since.reset();
    status.blocked_seconds += absl::ToDoubleSeconds(taken.wait);
  });
  NoteTime();
  const bool look_ahead = method_.after == AfterBoundary::kLookahead && finite;
  SetTheta(taken.boundary, look_ahead, outer_gradient);
  DILOCO_RETURN_IF_ERROR(parts_.trainer->WriteParameters(0, anchor_));
  if (!finite) {
    parts_.trainer->ResetInnerOptimizer();
  }
  if (method_.overlap == Overlap::kRounds) {
    std::vector<float> lambdas;
    for (const auto& fragment : taken.boundary.fragments) {
      lambdas.push_back(fragment->lambda);
    }
    HandOver(round, finite, std::move(outer_gradient), std::move(lambdas));
  }
  const int64_t next = std::min(schedule_.NextRound(round, taken.boundary.published), schedule_.rounds());
  parts_.post(TrainingAdvanced{next});

  const int64_t version = taken.boundary.version();
  parts_.board->Update([&](WorkerStatus& status) {
    status.round = next;
    status.applied_version = version;
    status.rounds_skipped += next - round - 1;
    status.outer_gradients_not_finite += finite ? 0 : 1;
  });
  NoteTime();
  if (next > round + 1) {
    spdlog::warn("event=rounds_skipped from={} to={} reason=\"they closed before this worker's boundary\"", round + 1,
                 next);
  }
  if (parts_.options->on_boundary) {
    parts_.options->on_boundary({.round = round,
                                 .next_round = next,
                                 .version = version,
                                 .finite = finite,
                                 .waited = taken.waited,
                                 .blocked_seconds = absl::ToDoubleSeconds(taken.wait),
                                 .theta = anchor_});
  }
  return next;
}

void TrainingLoop::HandOver(int64_t round, bool finite, std::vector<float> outer_gradient, std::vector<float> lambdas) {
  if (finite) {
    parts_.post(OuterGradientTaken{round, std::move(outer_gradient), std::move(lambdas)});
    return;
  }
  spdlog::warn("event=outer_gradient_not_finite round={}", round);
  parts_.post(RoundAbstained{round, "the outer gradient was not finite"});
}

void TrainingLoop::SetTheta(const StagedBoundary& boundary, bool look_ahead, absl::Span<const float> outer_gradient) {
  for (size_t f = 0; f < boundary.fragments.size(); ++f) {
    const FragmentRange& range = layout_.fragments()[f];
    const FragmentOuter::Staged& staged = *boundary.fragments[f];
    const absl::Span<float> out = Part(&anchor_, range);
    DILOCO_CHECK(staged.base.size() == out.size());
    if (look_ahead) {
      StepFromBase(staged.base, staged.coefficient, Part(outer_gradient, range), out);
    } else {
      std::copy(staged.base.begin(), staged.base.end(), out.begin());
    }
  }
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

void TrainingLoop::NoteStep(int64_t step, const StepReport& report) {
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
    status.step = step + 1;
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
