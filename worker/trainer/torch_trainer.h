// The trainer of diloco-worker: the transformer of transformer.h and its inner optimizer, on any device that LibTorch
// knows. This header is free of LibTorch.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "common/config/run_config.h"
#include "worker/trainer/batches.h"
#include "worker/trainer/trainer.h"

namespace diloco {

// The device that a flag means: `auto` is cuda:0 where there is one, else cpu; `cpu`; `cuda:N`.
// Errors, kInvalidArgument: anything else, or a GPU that this machine or this LibTorch does not have.
absl::StatusOr<std::string> ResolveDevice(std::string_view flag);

// Version of the LibTorch in use, such as "1.13.1".
std::string LibTorchVersion();

struct TorchTrainerOptions {
  std::string device = "cpu";  // As ResolveDevice returns it.
  int threads = 1;             // That one operation uses on the CPU, >= 1; set for the whole process.
  std::vector<float> initial;  // First parameters, tensor by tensor in the order of TransformerTensors. Empty: drawn
                               // from run.seed.
};

// Needs config.model. A run repeats bit for bit on the same device with the same number of threads. Device memory in
// floats for n parameters: 4n (theta, gradient, AdamW's moments; 2n with `sgd`), n more in an update and during an
// evaluation, n / 2 more in a step with bf16.
// Errors, kFailedPrecondition: that of CheckPrecision in model.h; kInternal: LibTorch's own, also from the trainer's
// methods, such as out of memory.
absl::StatusOr<std::unique_ptr<Trainer>> MakeTorchTrainer(const RunConfig& config, Batches batches,
                                                          TorchTrainerOptions options);

}  // namespace diloco
