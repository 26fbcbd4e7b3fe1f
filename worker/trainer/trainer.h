// What the outer loop needs of a trainer: inner steps, and parameters in and out. Free of LibTorch, so that synthetic
// trainers and other front ends stand on the same client. Called from the training thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/layout/layout.h"
#include "worker/trainer/trainer_state.h"

namespace diloco {

struct StepReport {
  double loss = 0;      // Mean training loss of the step, nats a token; may be NaN.
  uint64_t tokens = 0;  // Tokens trained on in the step.
};

struct EvaluationReport {
  double loss = 0;
  uint64_t tokens = 0;
};

class Trainer {
 public:
  virtual ~Trainer() = default;

  // Every parameter tensor, in the trainer's order.
  virtual std::vector<TensorSpec> Tensors() const = 0;

  // Where each tensor lies in the flat vector; called once, after joining, before anything below.
  virtual void SetLayout(const Layout& layout) = 0;

  // Takes inner step `step` (round * H + i), which also names the data's position, with the learning rate `rate`.
  virtual absl::StatusOr<StepReport> Step(int64_t step, double rate) = 0;

  // The gradient of what Step minimises, the mean loss of step `step`'s batch, at the current parameters: neither
  // clipped nor applied. Shapes: out [layout.element_count()], the flat vector.
  virtual absl::StatusOr<StepReport> ComputeGradient(int64_t step, absl::Span<float> out) = 0;

  // Copies elements [offset, offset + size) of the flat vector out and in, such as those of one fragment; the rest
  // stays as it is. The range lies within [0, layout.element_count()).
  virtual absl::Status ReadParameters(int64_t offset, absl::Span<float> out) = 0;
  virtual absl::Status WriteParameters(int64_t offset, absl::Span<const float> parameters) = 0;

  // Forgets the inner optimizer's moments, after an outer gradient that was not finite.
  virtual void ResetInnerOptimizer() = 0;

  // For checkpoints: what the next step depends on besides the parameters, and the same again. Whatever of it has to do
  // with the parameters gives way to a later WriteParameters; loaded after it, steps go on bit for bit, on the same
  // device with as many threads.
  // Errors of LoadState, kFailedPrecondition: something is missing, has another size or is not known, with its name.
  virtual absl::StatusOr<TrainerState> SaveState() = 0;
  virtual absl::Status LoadState(TrainerState state) = 0;

  // Loss on held-out data with the given parameters, all of them; the trainer's own parameters, optimizer and data
  // position are the same afterwards. Shapes: [layout.element_count()]. Errors, kFailedPrecondition: the trainer has no
  // held-out data.
  virtual absl::StatusOr<EvaluationReport> Evaluate(absl::Span<const float> parameters) = 0;
};

}  // namespace diloco
