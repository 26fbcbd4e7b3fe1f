// One worker's parameters along the run: its inner steps, and the stops of its fragments between them. What a method
// makes of theta and the anchors at a stop stands here; when it stops, in Schedule; what is staged for it, in
// FragmentOuter. Knows neither network nor threads, so that a worker and the train simulator share it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/config/run_config.h"
#include "common/config/run_settings.h"
#include "common/layout/layout.h"
#include "common/outer/method.h"
#include "worker/outer/fragment_outer.h"
#include "worker/outer/schedule.h"
#include "worker/trainer/trainer.h"

namespace diloco {

// One fragment at one of its stops.
struct FragmentStop {
  int fragment = 0;
  Stop stop;
  std::vector<float> outer_gradient;  // Of a stop that takes it, or what its method has in its place, [n].
  double weight = 1;                  // Of that in the average, > 0 (outer.weights).
};

// A replica between two steps, or at a stop of which some is still to be done: for checkpoints.
struct ReplicaState {
  int64_t first_round = 0;
  int64_t step = 0;     // Inner steps done.
  uint64_t tokens = 0;  // Trained on.
  bool healed = false;  // The stop under way is of an outer gradient that was not finite.
  struct Fragment {
    std::optional<Stop> next;  // nullopt: the run is over for it.
    uint64_t weighed = 0;      // Tokens that no later contribution counts.
  };
  std::vector<Fragment> fragments;
  std::vector<float> theta;  // The flat vector, as the trainer has it.
  std::vector<float> anchor;
  TrainerState trainer;
};

// For the training thread.
class Replica {
 public:
  // The pointers outlive the object; the trainer has the layout.
  Replica(const RunConfig* config, const Layout* layout, Trainer* trainer);

  // Training begins at the start of `first_round`: theta and the anchors are `parameters`, [element_count].
  absl::Status Begin(int64_t first_round, std::vector<float> parameters);
  // In its place: goes on from a state that Save gave for the same run and layout. Errors: of the trainer.
  absl::Status Restore(ReplicaState state);
  absl::StatusOr<ReplicaState> Save() const;
  // Goes on from `step`, without training up to it.
  void Jump(int64_t step);
  // Other settings from now on: rates, and the run's length. Between two steps, when no stop is under way. A round that
  // is to be over by now ends with a stop at this step.
  void Steer(const RunSettings& settings);
  absl::StatusOr<StepReport> Step();

  // The stops at this step that are not over, of fragments that agree on the round. Empty: training goes on.
  std::vector<FragmentStop> Stops() const;
  // Reads the fragments' theta and takes their outer gradients. False: one of them is not finite; then theta is back at
  // the anchors, with a fresh inner optimizer, because nothing else is known to be sound.
  absl::StatusOr<bool> TakeOuterGradients(std::vector<FragmentStop>* stops);
  // See HandsOverFirst.
  bool GivesFirst() const { return HandsOverFirst(method_); }
  // Theta and the anchor of a fragment whose stop sets. `finite`: what TakeOuterGradients returned.
  absl::Status SetTheta(const FragmentStop& stop, const FragmentOuter::Staged& staged, bool finite);
  // What this stop took is handed over, or abstained from: should the rest of the stop be done by a replica that is
  // restored, it takes nothing again.
  void NoteHandedOver(const FragmentStop& stop);
  // The stops are over.
  void Leave(const std::vector<FragmentStop>& stops);

  const Schedule& schedule() const { return schedule_; }
  // Inner steps done.
  int64_t step() const { return step_; }
  // The round in which the fragment sets theta next; kNoRound: it does not.
  int64_t NextSet(int fragment) const;
  // The newest round of the run that a step has been taken in; -1: none.
  int64_t NewestBegun() const { return (step_ + schedule_.inner_steps() - 1) / schedule_.inner_steps() - 1; }
  // Every fragment is past the end of `round`: its outer gradient of that round is taken, or never will be.
  bool IsPast(int64_t round) const;
  // The flat vector, each fragment as of its newest stop.
  const std::vector<float>& theta() const { return theta_; }

 private:
  const FragmentRange& Range(int fragment) const { return layout_.fragments()[static_cast<size_t>(fragment)]; }
  // The first round whose outer gradient of the fragment is not taken.
  int64_t Untaken(int fragment) const;
  absl::Status Heal();
  // Of what the fragment contributes now.
  double WeightOf(int fragment) const;

  const RunConfig& config_;
  const Layout& layout_;
  Trainer* const trainer_;
  const Method& method_;
  Schedule schedule_;
  RunSettings settings_;

  int64_t first_round_ = 0;
  int64_t step_ = 0;
  std::vector<std::optional<Stop>> next_;  // By fragment; nullopt: the run is over for it.
  std::vector<float> anchor_;              // What the next outer gradients are measured from, the flat vector.
  std::vector<float> theta_;
  std::vector<float> gradient_;    // Of the newest step, where that is the payload.
  uint64_t tokens_ = 0;            // Trained on.
  std::vector<uint64_t> weighed_;  // By fragment: those that no later contribution counts.
  bool healed_ = false;            // At the stop under way.
};

}  // namespace diloco
