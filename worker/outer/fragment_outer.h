// The outer loop of one fragment on a worker: consensus plus look-ahead (method table in common/outer/method.h).
//
// The consensus takes one outer step for each global delta, in order. At a boundary the worker looks ahead, from the
// consensus that it has, over its own contributions d that no applied global delta has settled, oldest first:
//   momentum shared   x = copy of the consensus; for each d: x takes an outer step with lambda * d; theta = x.s
//   momentum own      q = l; off = 0; for each d: q = mu*q + lambda*d, off = off + lambda*d + mu*q; theta = s - eta*off
//                     where, on each global delta applied, l = mu*l + lambda*(own contributions that it merged)
// `blend` is "own" with lambda = alpha, from a private (s, b) in the place of the consensus: for each global delta that
// takes an outer step with (1 - alpha) * average + alpha * (own contributions that it merged).
//
// All but the newest contribution is known before the boundary, so that Stage() leaves one fused pass for the training
// thread where the outer optimizer is linear: theta = base - coefficient * d. Otherwise it leaves the last outer step.
// Pure arithmetic; not thread-safe: the sync thread owns it.
// Source: Eager Updates, arXiv 2502.12996, algorithm 3, regrouped.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/base/digest.h"
#include "common/config/run_config.h"
#include "common/outer/consensus.h"
#include "common/outer/method.h"

namespace diloco {

// A contribution of this worker that no applied global delta has settled.
struct OwnContribution {
  int64_t round = 0;
  Digest digest;               // Of its encoded bytes.
  float lambda = 0;            // As staged for its boundary.
  std::vector<float> decoded;  // What every decoder gets, [n].
};

// A line of a global delta's settled list that is about this worker.
struct OwnSettlement {
  int64_t round = 0;
  Digest digest;
  bool merged = false;  // False: dropped; it leaves the list and adds nothing.
  double weight = 0;    // In the average, > 0 if merged.
};

class FragmentOuter {
 public:
  struct Options {
    const Method* method = nullptr;
    LookaheadSection lookahead;
    BlendSection blend;
    StepScalars next_scalars;             // Expected of the next outer step, until a global delta brings newer ones.
    Weights weights = Weights::kUniform;  // outer.weights.
    int workers = 1;                      // run.workers.
  };

  // All that it holds besides the options: for checkpoints.
  struct State {
    Consensus consensus;
    StepScalars next_scalars;                    // Expected of the next outer step, valid.
    std::optional<Consensus> private_consensus;  // (s, b) of `blend`.
    std::optional<double> own_weight;            // Of the newest contribution that was merged; > 0.
    std::vector<float> own_momentum;             // l, [n]; empty unless the method needs it.
    std::deque<OwnContribution> unsettled;       // Rounds ascend; empty unless the method looks ahead.
  };

  // A method that looks ahead has a linear outer optimizer or shared momentum: ParseRunConfig sees to it.
  FragmentOuter(const Options& options, Consensus consensus);
  // Goes on from a state that Save gave under the same method; options.next_scalars is not used.
  FragmentOuter(const Options& options, State state);
  State Save() const;

  // What the next boundary needs.
  struct Staged {
    std::vector<float> base;  // Theta of a stop that contributes nothing, as if d were 0.
    float coefficient = 0;    // 0 where theta follows from the consensus alone, which `base` then is.
    float lambda = 0;         // To be stored with the fresh contribution.
    int64_t version = 0;      // Of the consensus in it.
    // For an outer optimizer that is not linear: where the step of the fresh contribution starts, and its scalars.
    std::optional<Consensus> before;
    StepScalars scalars;

    // out = theta after the stop, for the fresh outer gradient d. Shapes: all [n]; they may be the same.
    void LookAhead(absl::Span<const float> outer_gradient, absl::Span<float> out) const;
  };
  Staged Stage() const;
  // Theta of a worker that begins a round now: the consensus, and where the method looks ahead, the outer steps of what
  // is unsettled, [n].
  std::vector<float> LookAhead() const;

  // Adds the contribution of a boundary; rounds ascend. Methods without look-ahead keep nothing of it.
  void Contribute(OwnContribution contribution);

  // Applies the next global delta (round == consensus().version()). Settlements of contributions that are not held
  // add nothing; contributions older than a settled one leave with it. Shapes: average [n].
  // Errors: kInvalidArgument, and nothing changes: another size, or scalars or a weight out of range.
  absl::Status Apply(const StepScalars& scalars, absl::Span<const float> average,
                     absl::Span<const OwnSettlement> settled);

  // Takes a snapshot's consensus instead of catching up: own momentum and the private (s, b) are forgotten, and
  // contributions up to `settled_round` are settled. `next_scalars` as in Options, valid.
  void Resync(Consensus consensus, const StepScalars& next_scalars, int64_t settled_round);

  const Consensus& consensus() const { return consensus_; }
  // Expected of the next outer step.
  const StepScalars& next_scalars() const { return next_scalars_; }
  const std::deque<OwnContribution>& unsettled() const { return unsettled_; }

 private:
  bool OwnMomentum() const;
  double Share() const;
  float Lambda() const;
  std::vector<float> OwnMomentumTheta(bool staged) const;
  Consensus SharedMomentumAhead(StepScalars* scalars) const;
  void StageSharedMomentum(Staged* staged) const;

  Options options_;
  StepScalars next_scalars_;  // Expected of the next outer step.
  Consensus consensus_;
  std::optional<Consensus> private_;  // (s, b) of `blend`.
  // Of own contributions: 1, or as the newest one that was merged; the share is 1 / workers before.
  std::optional<double> own_weight_;
  std::vector<float> own_momentum_;  // l, [n]; empty unless it is needed.
  std::deque<OwnContribution> unsettled_;
};

}  // namespace diloco
