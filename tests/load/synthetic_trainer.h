// Trainers without a model for the synthetic worker: the quadratic world of a trajectory file, or a deterministic drift
// of any size and speed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/config/run_config.h"
#include "tests/support/trajectories.h"
#include "worker/trainer/trainer.h"

namespace diloco::testing {

struct SyntheticTrainerOptions {
  int worker = 0;  // Which worker of the world, or seed of the drift.
  // The quadratic world, when `vectors` is not empty, and what is told of its parameters before each step.
  std::string vectors;
  int trajectory = 0;
  std::function<void(int64_t step, const Vector& parameters)> on_step;
  // The drift.
  int64_t elements = 0;
  int tensors = 1;
  absl::Duration step_time;
  // Round whose outer gradient, or gradient, is not finite; -1: none.
  int64_t nan_at_round = -1;
};

// Errors: kNotFound, kInvalidArgument for a trajectory that is not there.
absl::StatusOr<std::unique_ptr<Trainer>> MakeSyntheticTrainer(const SyntheticTrainerOptions& options,
                                                              const RunConfig& config);

}  // namespace diloco::testing
