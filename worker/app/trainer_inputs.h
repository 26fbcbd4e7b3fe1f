// What flags name for a trainer: data, device, first parameters. Opened and checked before the run's configuration is
// known, and made into trainers once it is.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "common/config/run_config.h"
#include "common/safetensors/safetensors_reader.h"
#include "worker/trainer/batches.h"
#include "worker/trainer/trainer.h"

namespace diloco {

// Of the machine: for all trainers of a process.
struct TrainerMachine {
  std::string device;  // As ResolveDevice returns it.
  int threads = 1;
  std::optional<SafetensorsReader> initial;
};

// `init` may be empty. Errors, kInvalidArgument: the device, or a file that holds no tensors.
absl::StatusOr<TrainerMachine> OpenTrainerMachine(const std::string& device, int threads, const std::string& init);

// The trainer of one worker. Errors, kFailedPrecondition: `config` has no model; else of the data, of --init and of
// MakeTorchTrainer.
absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const TrainerMachine& machine, const DataFiles& files,
                                                     const std::string& worker_id, const RunConfig& config);

}  // namespace diloco
