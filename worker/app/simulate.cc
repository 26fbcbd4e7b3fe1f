#include "worker/app/simulate.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/config/config_file.h"
#include "common/log/log.h"
#include "nlohmann/json.hpp"
#include "worker/app/trainer_inputs.h"
#include "worker/simulate/train_simulator.h"
#include "worker/trainer/torch_trainer.h"

namespace diloco {
namespace {

absl::StatusOr<RunConfig> LoadConfig(const SimulateFlags& flags) {
  DILOCO_ASSIGN_OR_RETURN(const std::string yaml, ReadConfigFile(flags.config));
  DILOCO_ASSIGN_OR_RETURN(const RunConfig config, ParseRunConfig(yaml, flags.config));
  if (static_cast<int>(flags.workers.size()) != config.run.workers) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s has run.workers: %d, and there are %d --worker; name each of its workers once",
                        flags.config, config.run.workers, flags.workers.size()));
  }
  return config;
}

// NaN and infinities, which JSON lacks, are null.
nlohmann::ordered_json Number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

std::string JsonLine(const SimulationReport& report) {
  nlohmann::ordered_json line = {{"version", report.version}, {"step", report.step}, {"tokens", report.tokens}};
  line["loss"] = report.held_out ? Number(report.held_out->loss) : nullptr;
  line["training_loss"] = Number(report.training_loss);
  line["replica_distance"] = Number(report.replica_distance);
  for (const Digest& digest : report.digests) line["consensus_digests"].push_back(digest.Hex());
  return line.dump();
}

// A file that is written anew, or stdout.
class Output {
 public:
  static absl::StatusOr<Output> Open(const std::string& path) {
    Output output(path);
    if (path == "-") return output;
    output.file_.open(path);
    DILOCO_RETURN_IF_ERROR(output.Check());
    return output;
  }

  absl::Status WriteLine(const std::string& line) {
    (path_ == "-" ? std::cout : file_) << line << std::endl;
    return Check();
  }

 private:
  explicit Output(std::string path) : path_(std::move(path)) {}
  absl::Status Check() const {
    if (path_ == "-" ? std::cout.good() : file_.good()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrFormat("--out %s: cannot be written to; name a file in a folder that exists and has room", path_));
  }

  std::string path_;
  std::ofstream file_;
};

}  // namespace

absl::Status Simulate(const SimulateFlags& flags, const std::atomic<bool>* interrupt) {
  DILOCO_ASSIGN_OR_RETURN(const RunConfig config, LoadConfig(flags));
  DILOCO_ASSIGN_OR_RETURN(const TrainerMachine machine, OpenTrainerMachine(flags.device, flags.threads, flags.init));
  std::vector<SimulatedWorker> workers;
  for (const auto& [id, data] : flags.workers) {
    DILOCO_ASSIGN_OR_RETURN(const DataFiles files, OpenDataFiles(data, flags.held_out));
    DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer, MakeTrainer(machine, files, id, config));
    workers.push_back({.id = id, .trainer = std::move(trainer)});
  }
  DILOCO_ASSIGN_OR_RETURN(Output output, Output::Open(flags.out));
  LogInfo("simulation", {{"run", config.run.id},
                         {"workers", workers.size()},
                         {"software", DILOCO_VERSION},
                         {"libtorch", LibTorchVersion()},
                         {"device", machine.device},
                         {"threads", flags.threads}});
  const auto write = [&](const SimulationReport& report) { return output.WriteLine(JsonLine(report)); };
  DILOCO_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainSimulator> simulator,
      TrainSimulator::Create({.interrupt = interrupt, .on_report = write}, &config, std::move(workers)));
  return simulator->Run();
}

}  // namespace diloco
