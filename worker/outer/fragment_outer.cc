#include "worker/outer/fragment_outer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/outer/boundary.h"

namespace diloco {
namespace {

std::vector<float> Scaled(float factor, absl::Span<const float> values) {
  std::vector<float> scaled(values.size());
  for (size_t i = 0; i < values.size(); ++i) scaled[i] = factor * values[i];
  return scaled;
}

}  // namespace

FragmentOuter::FragmentOuter(const Options& options, Consensus consensus)
    : options_(options), next_scalars_(options.next_scalars), consensus_(std::move(consensus)) {
  if (options_.weights == Weights::kUniform) own_weight_ = 1;
  DILOCO_CHECK(options_.method != nullptr);
  DILOCO_CHECK(ValidateStepScalars(next_scalars_).ok());
  DILOCO_CHECK(consensus_.optimizer().linear || !OwnMomentum());
  if (OwnMomentum()) own_momentum_.assign(consensus_.parameters().size(), 0.0f);
  if (options_.method->after == AfterBoundary::kPrivateLookahead) private_ = consensus_;
}

FragmentOuter::FragmentOuter(const Options& options, State state)
    : options_(options),
      next_scalars_(state.next_scalars),
      consensus_(std::move(state.consensus)),
      private_(std::move(state.private_consensus)),
      own_weight_(state.own_weight),
      own_momentum_(std::move(state.own_momentum)),
      unsettled_(std::move(state.unsettled)) {
  DILOCO_CHECK(options_.method != nullptr);
  DILOCO_CHECK(ValidateStepScalars(next_scalars_).ok());
  DILOCO_CHECK(own_momentum_.size() == (OwnMomentum() ? consensus_.parameters().size() : 0));
  DILOCO_CHECK(private_.has_value() == (options_.method->after == AfterBoundary::kPrivateLookahead));
}

FragmentOuter::State FragmentOuter::Save() const {
  return {.consensus = consensus_,
          .next_scalars = next_scalars_,
          .private_consensus = private_,
          .own_weight = own_weight_,
          .own_momentum = own_momentum_,
          .unsettled = unsettled_};
}

bool FragmentOuter::OwnMomentum() const {
  return options_.method->after == AfterBoundary::kPrivateLookahead ||
         (options_.method->after == AfterBoundary::kLookahead && !options_.lookahead.shared_momentum);
}

float FragmentOuter::Lambda() const {
  if (options_.method->after == AfterBoundary::kPrivateLookahead) return static_cast<float>(options_.blend.alpha);
  if (options_.lookahead.lambda.has_value()) return static_cast<float>(*options_.lookahead.lambda);
  return static_cast<float>(Share());
}

double FragmentOuter::Share() const {
  return own_weight_.has_value() ? *own_weight_ / next_scalars_.participating_weight : 1.0 / options_.workers;
}

void FragmentOuter::Staged::LookAhead(absl::Span<const float> outer_gradient, absl::Span<float> out) const {
  if (!before.has_value()) return StepFromBase(base, coefficient, outer_gradient, out);
  Consensus after = *before;
  after.Apply(scalars, Scaled(lambda, outer_gradient));
  std::copy(after.parameters().begin(), after.parameters().end(), out.begin());
}

FragmentOuter::Staged FragmentOuter::Stage() const {
  Staged staged{.version = consensus_.version()};
  if (!LooksAhead(*options_.method)) {
    staged.base.assign(consensus_.parameters().begin(), consensus_.parameters().end());
    return staged;
  }
  staged.lambda = Lambda();
  if (consensus_.optimizer().linear) {
    // What a linear step moves the parameters by for each unit of the newest gradient.
    staged.coefficient = next_scalars_.rate * (1.0f + next_scalars_.momentum) * staged.lambda;
  }
  if (OwnMomentum()) {
    staged.base = OwnMomentumTheta(/*staged=*/true);
  } else {
    StageSharedMomentum(&staged);
  }
  return staged;
}

std::vector<float> FragmentOuter::LookAhead() const {
  if (LooksAhead(*options_.method) && OwnMomentum()) return OwnMomentumTheta(/*staged=*/false);
  StepScalars scalars = next_scalars_;
  const Consensus ahead =
      SharedMomentumAhead(&scalars);  // Nothing is ever unsettled where a method does not look ahead.
  return {ahead.parameters().begin(), ahead.parameters().end()};
}

// `staged`: with what is known before a fresh contribution of what it adds.
std::vector<float> FragmentOuter::OwnMomentumTheta(bool staged) const {
  const float mu = next_scalars_.momentum;
  std::vector<float> q = own_momentum_;
  std::vector<float> offset(q.size(), 0.0f);
  for (const OwnContribution& own : unsettled_) {
    for (size_t i = 0; i < q.size(); ++i) {
      const float step = own.lambda * own.decoded[i];
      q[i] = mu * q[i] + step;
      offset[i] = offset[i] + step + mu * q[i];
    }
  }
  // A fresh contribution d adds lambda*d + mu*(mu*q + lambda*d) to the offset.
  const float known = staged ? mu * mu : 0;
  std::vector<float> theta(q.size());
  const absl::Span<const float> s = (private_.has_value() ? *private_ : consensus_).parameters();
  for (size_t i = 0; i < q.size(); ++i) theta[i] = s[i] - next_scalars_.rate * (offset[i] + known * q[i]);
  return theta;
}

Consensus FragmentOuter::SharedMomentumAhead(StepScalars* scalars) const {
  Consensus ahead = consensus_;
  for (const OwnContribution& own : unsettled_) {
    ahead.Apply(*scalars, Scaled(own.lambda, own.decoded));
    *scalars = OneStepLater(*scalars);
  }
  return ahead;
}

void FragmentOuter::StageSharedMomentum(Staged* staged) const {
  StepScalars scalars = next_scalars_;
  Consensus ahead = SharedMomentumAhead(&scalars);
  if (!ahead.optimizer().linear) {
    staged->before = ahead;
    staged->scalars = scalars;
  }
  // A linear step is the step with gradient 0 plus a multiple of the gradient.
  ahead.Apply(scalars, std::vector<float>(ahead.parameters().size(), 0.0f));
  staged->base.assign(ahead.parameters().begin(), ahead.parameters().end());
}

void FragmentOuter::Contribute(OwnContribution contribution) {
  DILOCO_CHECK(unsettled_.empty() || unsettled_.back().round < contribution.round);
  if (!LooksAhead(*options_.method)) return;
  DILOCO_CHECK(contribution.decoded.size() == consensus_.parameters().size());
  unsettled_.push_back(std::move(contribution));
}

absl::Status FragmentOuter::Apply(const StepScalars& scalars, absl::Span<const float> average,
                                  absl::Span<const OwnSettlement> settled) {
  if (average.size() != consensus_.parameters().size()) {
    return absl::InvalidArgumentError(absl::StrFormat("the average has %d elements, the fragment %d", average.size(),
                                                      consensus_.parameters().size()));
  }
  DILOCO_RETURN_IF_ERROR(ValidateStepScalars(scalars));
  for (const OwnSettlement& settlement : settled) {
    if (settlement.merged && !(std::isfinite(settlement.weight) && settlement.weight > 0)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("the contribution of round %d was merged with weight %g, which is not positive and finite",
                          settlement.round, settlement.weight));
    }
  }
  consensus_.Apply(scalars, average);
  std::vector<float> merged(own_momentum_.size(), 0.0f);  // Sum of lambda * own contributions that were merged.
  int64_t newest = -1;
  for (const OwnSettlement& settlement : settled) {
    newest = std::max(newest, settlement.round);
    const auto own = std::find_if(unsettled_.begin(), unsettled_.end(), [&](const OwnContribution& candidate) {
      return candidate.round == settlement.round && candidate.digest == settlement.digest;
    });
    if (own == unsettled_.end()) continue;
    if (settlement.merged) {
      own_weight_ = settlement.weight;
      for (size_t i = 0; i < merged.size(); ++i) merged[i] = merged[i] + own->lambda * own->decoded[i];
    }
    unsettled_.erase(own);
  }
  // Contributions settle in round order: an older one was not taken, and no global delta will ever name it.
  std::erase_if(unsettled_, [newest](const OwnContribution& own) { return own.round < newest; });
  for (size_t i = 0; i < merged.size(); ++i) own_momentum_[i] = scalars.momentum * own_momentum_[i] + merged[i];
  if (private_.has_value()) {
    const float others = 1 - Lambda();
    for (size_t i = 0; i < merged.size(); ++i) merged[i] = others * average[i] + merged[i];
    private_->Apply(scalars, merged);
  }
  // A delta that tells no weight (its members left) does not change the share.
  const double share_base = next_scalars_.participating_weight;
  next_scalars_ = OneStepLater(scalars);
  if (next_scalars_.participating_weight <= 0) next_scalars_.participating_weight = share_base;
  return absl::OkStatus();
}

void FragmentOuter::Resync(Consensus consensus, const StepScalars& next_scalars, int64_t settled_round) {
  DILOCO_CHECK(consensus.parameters().size() == consensus_.parameters().size());
  DILOCO_CHECK(ValidateStepScalars(next_scalars).ok());
  consensus_ = std::move(consensus);
  if (private_.has_value()) private_ = consensus_;
  next_scalars_ = next_scalars;
  std::fill(own_momentum_.begin(), own_momentum_.end(), 0.0f);
  while (!unsettled_.empty() && unsettled_.front().round <= settled_round) unsettled_.pop_front();
}

}  // namespace diloco
