#include "worker/outer/fragment_outer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"

namespace diloco {
namespace {

bool Valid(const StepScalars& scalars) {
  return std::isfinite(scalars.rate) && scalars.rate > 0 && scalars.momentum >= 0 && scalars.momentum < 1 &&
         std::isfinite(scalars.participating_weight) && scalars.participating_weight >= 0;
}

std::vector<float> Scaled(float factor, absl::Span<const float> values) {
  std::vector<float> scaled(values.size());
  for (size_t i = 0; i < values.size(); ++i) scaled[i] = factor * values[i];
  return scaled;
}

}  // namespace

FragmentOuter::FragmentOuter(const Options& options, Consensus consensus)
    : options_(options), scalars_(options.initial_scalars), consensus_(std::move(consensus)) {
  DILOCO_CHECK(options_.method != nullptr);
  DILOCO_CHECK(consensus_.optimizer().linear);
  DILOCO_CHECK(Valid(scalars_));
  if (options_.method->after == AfterBoundary::kLookahead && !options_.lookahead.shared_momentum) {
    own_momentum_.assign(consensus_.parameters().size(), 0.0f);
  }
}

float FragmentOuter::Lambda() const {
  if (options_.lookahead.lambda.has_value()) return static_cast<float>(*options_.lookahead.lambda);
  return static_cast<float>(options_.own_weight / scalars_.participating_weight);
}

FragmentOuter::Staged FragmentOuter::Stage() const {
  Staged staged{.version = consensus_.version()};
  if (options_.method->after != AfterBoundary::kLookahead) {
    staged.base.assign(consensus_.parameters().begin(), consensus_.parameters().end());
    return staged;
  }
  staged.lambda = Lambda();
  // What a linear step moves the parameters by for each unit of the newest gradient.
  staged.coefficient = scalars_.rate * (1.0f + scalars_.momentum) * staged.lambda;
  staged.base = options_.lookahead.shared_momentum ? SharedMomentumBase() : OwnMomentumBase();
  return staged;
}

std::vector<float> FragmentOuter::OwnMomentumBase() const {
  const float mu = scalars_.momentum;
  std::vector<float> q = own_momentum_;
  std::vector<float> offset(q.size(), 0.0f);
  for (const OwnContribution& own : unsettled_) {
    for (size_t i = 0; i < q.size(); ++i) {
      const float step = own.lambda * own.decoded[i];
      q[i] = mu * q[i] + step;
      offset[i] = offset[i] + step + mu * q[i];
    }
  }
  // The newest contribution d adds lambda*d + mu*(mu*q + lambda*d) to the offset; all of it that is known now:
  std::vector<float> base(q.size());
  const absl::Span<const float> s = consensus_.parameters();
  for (size_t i = 0; i < q.size(); ++i) base[i] = s[i] - scalars_.rate * (offset[i] + mu * mu * q[i]);
  return base;
}

std::vector<float> FragmentOuter::SharedMomentumBase() const {
  Consensus ahead = consensus_;
  for (const OwnContribution& own : unsettled_) ahead.Apply(scalars_, Scaled(own.lambda, own.decoded));
  // A linear step is the step with gradient 0 plus a multiple of the gradient.
  ahead.Apply(scalars_, std::vector<float>(ahead.parameters().size(), 0.0f));
  return {ahead.parameters().begin(), ahead.parameters().end()};
}

void FragmentOuter::Contribute(OwnContribution contribution) {
  DILOCO_CHECK(unsettled_.empty() || unsettled_.back().round < contribution.round);
  if (options_.method->after != AfterBoundary::kLookahead) return;
  DILOCO_CHECK(contribution.decoded.size() == consensus_.parameters().size());
  unsettled_.push_back(std::move(contribution));
}

absl::Status FragmentOuter::Apply(const StepScalars& scalars, absl::Span<const float> average,
                                  absl::Span<const OwnSettlement> settled) {
  if (average.size() != consensus_.parameters().size()) {
    return absl::InvalidArgumentError(absl::StrFormat("the average has %d elements, the fragment %d", average.size(),
                                                      consensus_.parameters().size()));
  }
  if (!Valid(scalars)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("step scalars are out of range: rate %g, momentum %g, participating weight %g", scalars.rate,
                        scalars.momentum, scalars.participating_weight));
  }
  consensus_.Apply(scalars, average);
  for (float& l : own_momentum_) l = scalars.momentum * l;
  int64_t newest = -1;
  for (const OwnSettlement& settlement : settled) {
    newest = std::max(newest, settlement.round);
    const auto own = std::find_if(unsettled_.begin(), unsettled_.end(), [&](const OwnContribution& candidate) {
      return candidate.round == settlement.round && candidate.digest == settlement.digest;
    });
    if (own == unsettled_.end()) continue;
    if (settlement.merged) {
      for (size_t i = 0; i < own_momentum_.size(); ++i) {
        own_momentum_[i] = own_momentum_[i] + own->lambda * own->decoded[i];
      }
    }
    unsettled_.erase(own);
  }
  // Contributions settle in round order: an older one was not taken, and no global delta will ever name it.
  std::erase_if(unsettled_, [newest](const OwnContribution& own) { return own.round < newest; });
  // A delta that tells no weight (its members left) does not change the share.
  const double share_base = scalars_.participating_weight;
  scalars_ = scalars;
  if (scalars_.participating_weight <= 0) scalars_.participating_weight = share_base;
  return absl::OkStatus();
}

void FragmentOuter::Resync(Consensus consensus, const StepScalars& scalars, int64_t settled_round) {
  DILOCO_CHECK(consensus.parameters().size() == consensus_.parameters().size());
  DILOCO_CHECK(Valid(scalars));
  consensus_ = std::move(consensus);
  scalars_ = scalars;
  std::fill(own_momentum_.begin(), own_momentum_.end(), 0.0f);
  while (!unsettled_.empty() && unsettled_.front().round <= settled_round) unsettled_.pop_front();
}

}  // namespace diloco
