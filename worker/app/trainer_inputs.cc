#include "worker/app/trainer_inputs.h"

#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "worker/trainer/initial_parameters.h"
#include "worker/trainer/torch_trainer.h"
#include "worker/trainer/transformer.h"

namespace diloco {

absl::StatusOr<TrainerMachine> OpenTrainerMachine(const std::string& device, int threads, const std::string& init) {
  TrainerMachine machine{.threads = threads};
  DILOCO_ASSIGN_OR_RETURN(machine.device, ResolveDevice(device));
  if (!init.empty()) {
    absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(init);
    if (!reader.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("--init %s; use a .safetensors file", std::string(reader.status().message())));
    }
    machine.initial.emplace(*std::move(reader));
  }
  return machine;
}

absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const TrainerMachine& machine, const DataFiles& files,
                                                     const std::string& worker_id, const RunConfig& config) {
  if (!config.model.has_value()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "run %s has no `model` in its configuration: it is for another kind of worker; add `model` to the "
        "configuration of a new run",
        config.run.id));
  }
  DILOCO_ASSIGN_OR_RETURN(Batches batches, Batches::Create(files, config, worker_id));
  LogInfo("data", {{"worker", worker_id},
                   {"training_tokens", batches.training_tokens()},
                   {"held_out_tokens", batches.held_out_tokens()},
                   {"evaluation_sequences", batches.evaluation_windows()}});
  if (batches.evaluation_windows() == 0) {
    LogWarning("no_held_out_data",
               {{"worker", worker_id}, {"reason", "no sequence is held out: this worker cannot evaluate"}});
  }
  TorchTrainerOptions options{.device = machine.device, .threads = machine.threads, .initial = {}};
  if (machine.initial.has_value()) {
    DILOCO_ASSIGN_OR_RETURN(options.initial,
                            ReadInitialParameters(*machine.initial, TransformerTensors(*config.model)));
  }
  return MakeTorchTrainer(config, std::move(batches), std::move(options));
}

}  // namespace diloco
