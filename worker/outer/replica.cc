#include "worker/outer/replica.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/schedule/inner_schedule.h"
#include "worker/outer/boundary.h"

namespace diloco {
namespace {

absl::Span<float> Part(std::vector<float>* all, const FragmentRange& range) {
  return absl::MakeSpan(*all).subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count));
}

}  // namespace

Replica::Replica(const RunConfig* config, const Layout* layout, Trainer* trainer)
    : config_(*config),
      layout_(*layout),
      trainer_(trainer),
      method_(*FindMethod(config->method)),
      schedule_(*config, layout->fragment_count()),
      settings_(*config),
      next_(static_cast<size_t>(layout->fragment_count())),
      weighed_(static_cast<size_t>(layout->fragment_count()), 0) {}

absl::Status Replica::Begin(int64_t first_round, std::vector<float> parameters) {
  DILOCO_CHECK(static_cast<int64_t>(parameters.size()) == layout_.element_count());
  first_round_ = first_round;
  anchor_ = std::move(parameters);
  theta_ = anchor_;
  Jump(first_round * schedule_.inner_steps());
  return trainer_->WriteParameters(0, theta_);
}

absl::StatusOr<ReplicaState> Replica::Save() const {
  ReplicaState state{.first_round = first_round_, .step = step_, .tokens = tokens_, .healed = healed_};
  for (size_t f = 0; f < next_.size(); ++f) state.fragments.push_back({next_[f], weighed_[f]});
  state.theta.resize(theta_.size());
  DILOCO_RETURN_IF_ERROR(trainer_->ReadParameters(0, absl::MakeSpan(state.theta)));
  state.anchor = anchor_;
  DILOCO_ASSIGN_OR_RETURN(state.trainer, trainer_->SaveState());
  return state;
}

absl::Status Replica::Restore(ReplicaState state) {
  DILOCO_CHECK(state.fragments.size() == next_.size() && state.theta.size() == state.anchor.size() &&
               static_cast<int64_t>(state.theta.size()) == layout_.element_count());
  first_round_ = state.first_round;
  step_ = state.step;
  tokens_ = state.tokens;
  healed_ = state.healed;
  for (size_t f = 0; f < next_.size(); ++f) {
    next_[f] = state.fragments[f].next;
    weighed_[f] = state.fragments[f].weighed;
  }
  theta_ = std::move(state.theta);
  anchor_ = std::move(state.anchor);
  DILOCO_RETURN_IF_ERROR(trainer_->WriteParameters(0, theta_));
  return trainer_->LoadState(std::move(state.trainer));
}

void Replica::Jump(int64_t step) {
  step_ = step;
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    next_[static_cast<size_t>(f)] = schedule_.FirstAfter(f, step, first_round_);
  }
}

void Replica::Steer(const RunSettings& settings) {
  settings_ = settings;
  std::vector<int64_t> untaken;
  for (int f = 0; f < layout_.fragment_count(); ++f) untaken.push_back(Untaken(f));
  schedule_.SetRounds(settings.newest().run.rounds);
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    const auto fragment = static_cast<size_t>(f);
    next_[fragment] = schedule_.Refit(f, step_, first_round_, untaken[fragment]);
  }
}

// A stop that only sets is of a round that is taken, or of one before the worker joined. Where no stop is left, the run
// was over here.
int64_t Replica::Untaken(int fragment) const {
  const std::optional<Stop>& next = next_[static_cast<size_t>(fragment)];
  if (!next) return step_ / schedule_.inner_steps();
  return next->takes ? next->round : next->round + 1;
}

absl::StatusOr<StepReport> Replica::Step() {
  StepReport report;
  if (method_.payload == Payload::kGradient) {
    gradient_.resize(theta_.size());
    DILOCO_ASSIGN_OR_RETURN(report, trainer_->ComputeGradient(step_, absl::MakeSpan(gradient_)));
  } else {
    DILOCO_ASSIGN_OR_RETURN(report, trainer_->Step(step_, InnerRate(settings_, step_)));
  }
  ++step_;
  tokens_ += report.tokens;
  return report;
}

std::vector<FragmentStop> Replica::Stops() const {
  std::vector<FragmentStop> stops;
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    const std::optional<Stop>& next = next_[static_cast<size_t>(f)];
    // A fragment may stop twice at the end of the run, for two rounds; those of one round go together.
    if (next && next->step == step_ && (stops.empty() || next->round == stops.front().stop.round)) {
      stops.push_back({.fragment = f, .stop = *next});
    }
  }
  return stops;
}

absl::StatusOr<bool> Replica::TakeOuterGradients(std::vector<FragmentStop>* stops) {
  bool finite = !healed_;
  for (FragmentStop& each : *stops) {
    const FragmentRange& range = Range(each.fragment);
    const absl::Span<float> theta = Part(&theta_, range);
    DILOCO_RETURN_IF_ERROR(trainer_->ReadParameters(range.offset, theta));
    if (!each.stop.takes) continue;
    each.weight = WeightOf(each.fragment);
    if (method_.payload == Payload::kGradient) {
      each.outer_gradient = std::exchange(gradient_, {});
      finite = AllFinite(each.outer_gradient) && finite;
      continue;
    }
    each.outer_gradient.resize(theta.size());
    finite = TakeOuterGradient(Part(&anchor_, range), theta, absl::MakeSpan(each.outer_gradient)) && finite;
  }
  healed_ = !finite;
  if (!finite) DILOCO_RETURN_IF_ERROR(Heal());
  return finite;
}

absl::Status Replica::Heal() {
  theta_ = anchor_;
  DILOCO_RETURN_IF_ERROR(trainer_->WriteParameters(0, theta_));
  trainer_->ResetInnerOptimizer();
  std::fill(weighed_.begin(), weighed_.end(), tokens_);
  return absl::OkStatus();
}

double Replica::WeightOf(int fragment) const {
  const uint64_t fresh = tokens_ - weighed_[static_cast<size_t>(fragment)];
  // A weight is positive, also of a trainer that counts no tokens.
  return config_.outer.weights == Weights::kByTokens ? static_cast<double>(std::max<uint64_t>(1, fresh)) : 1;
}

absl::Status Replica::SetTheta(const FragmentStop& stop, const FragmentOuter::Staged& staged, bool finite) {
  const FragmentRange& range = Range(stop.fragment);
  const absl::Span<float> theta = Part(&theta_, range);
  DILOCO_CHECK(stop.stop.sets && staged.base.size() == theta.size());
  if (LooksAhead(method_) && finite) {
    staged.LookAhead(stop.outer_gradient, theta);
  } else if (method_.after == AfterBoundary::kMix) {
    Mix(static_cast<float>(config_.streaming.mixing), staged.base, theta);
  } else {
    std::copy(staged.base.begin(), staged.base.end(), theta.begin());
  }
  const absl::Span<const float> anchor = method_.anchor == Anchor::kOwn ? theta : absl::MakeConstSpan(staged.base);
  std::copy(anchor.begin(), anchor.end(), Part(&anchor_, range).begin());
  return trainer_->WriteParameters(range.offset, theta);
}

void Replica::NoteHandedOver(const FragmentStop& stop) {
  DILOCO_CHECK(stop.stop.takes);
  const auto fragment = static_cast<size_t>(stop.fragment);
  weighed_[fragment] = tokens_;
  if (stop.stop.sets) {
    next_[fragment]->takes = false;
  } else {
    next_[fragment] = schedule_.Next(stop.fragment, stop.stop, first_round_);
  }
}

void Replica::Leave(const std::vector<FragmentStop>& stops) {
  healed_ = false;
  for (const FragmentStop& each : stops) {
    const auto fragment = static_cast<size_t>(each.fragment);
    if (each.stop.takes) weighed_[fragment] = tokens_;
    next_[fragment] = schedule_.Next(each.fragment, each.stop, first_round_);
  }
}

bool Replica::IsPast(int64_t round) const {
  return std::all_of(next_.begin(), next_.end(), [&](const std::optional<Stop>& next) {
    // After a stop that only sets, the outer gradient of the round after its own is the next to be taken.
    return !next || next->round > round || (!next->takes && next->round == round);
  });
}

int64_t Replica::NextSet(int fragment) const {
  std::optional<Stop> setting = next_[static_cast<size_t>(fragment)];
  if (setting && !setting->sets) setting = schedule_.Next(fragment, *setting, first_round_);
  return setting ? setting->round : kNoRound;
}

}  // namespace diloco
