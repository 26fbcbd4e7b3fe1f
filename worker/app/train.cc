#include "worker/app/train.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"

#include "common/base/atomic_file.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/http/http_server.h"
#include "common/log/log.h"
#include "common/metrics/worker_metrics.h"
#include "common/safetensors/safetensors_reader.h"
#include "nlohmann/json.hpp"
#include "prometheus/registry.h"
#include "spdlog/spdlog.h"
#include "worker/app/progress_printer.h"
#include "worker/loop/run_worker.h"
#include "worker/trainer/batches.h"
#include "worker/trainer/initial_parameters.h"
#include "worker/trainer/torch_trainer.h"
#include "worker/trainer/transformer.h"

namespace diloco {
namespace {

// What the flags name, found to be good.
struct Inputs {
  DataFiles files;
  std::string device;
  std::optional<SafetensorsReader> initial;
};

absl::StatusOr<Inputs> OpenInputs(const WorkerFlags& flags) {
  DILOCO_ASSIGN_OR_RETURN(DataFiles files, OpenDataFiles(flags.data, flags.held_out));
  DILOCO_ASSIGN_OR_RETURN(std::string device, ResolveDevice(flags.device));
  Inputs inputs{.files = std::move(files), .device = std::move(device), .initial = std::nullopt};
  if (!flags.init.empty()) {
    absl::StatusOr<SafetensorsReader> reader = SafetensorsReader::Open(flags.init);
    if (!reader.ok()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("--init %s; use a .safetensors file", std::string(reader.status().message())));
    }
    inputs.initial.emplace(*std::move(reader));
  }
  return inputs;
}

absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const WorkerFlags& flags, const Inputs& inputs,
                                                     const RunConfig& config) {
  if (!config.model.has_value()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "run %s has no `model` in its configuration: it is for another kind of worker; add `model` to the "
        "configuration of a new run",
        config.run.id));
  }
  DILOCO_ASSIGN_OR_RETURN(Batches batches, Batches::Create(inputs.files, config, flags.id));
  spdlog::info("event=data training_tokens={} held_out_tokens={} evaluation_sequences={}", batches.training_tokens(),
               batches.held_out_tokens(), batches.evaluation_windows());
  if (batches.evaluation_windows() == 0) {
    spdlog::warn("event=no_held_out_data reason={}", Quoted("no sequence is held out: this worker cannot evaluate"));
  }
  TorchTrainerOptions options{.device = inputs.device, .threads = flags.threads, .initial = {}};
  if (inputs.initial.has_value()) {
    DILOCO_ASSIGN_OR_RETURN(options.initial, ReadInitialParameters(*inputs.initial, TransformerTensors(*config.model)));
  }
  return MakeTorchTrainer(config, std::move(batches), std::move(options));
}

void Report(const WorkerStatus& status, WorkerMetrics* metrics) {
  metrics->Report(ToProgress(status));
  metrics->connected.Set(status.connected ? 1 : 0);
  const auto reconnects = static_cast<double>(status.Reconnects());
  metrics->reconnects.Increment(reconnects - metrics->reconnects.Value());
  metrics->evaluation_loss.Set(status.evaluation_loss);
  metrics->evaluation_version.Set(static_cast<double>(status.evaluation_version));
}

// {"http": "127.0.0.1:7071", "pid": 4711}, "http" null for `none`; all of it or nothing.
absl::Status WritePortFile(const std::string& path, const HttpServer* http) {
  const nlohmann::json ports = {
      {"http", http == nullptr ? nlohmann::json() : nlohmann::json(http->address().ToString())}, {"pid", getpid()}};
  const absl::Status status = [&] {
    DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
    DILOCO_RETURN_IF_ERROR(file->Write(ports.dump() + "\n"));
    return file->Commit();
  }();
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrFormat("--port-file: %s", std::string(status.message())));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Train(const WorkerFlags& flags, const std::atomic<bool>* interrupt) {
  DILOCO_ASSIGN_OR_RETURN(const Inputs inputs, OpenInputs(flags));
  prometheus::Registry registry;
  WorkerMetrics metrics(registry);
  std::atomic<bool> training = false;
  std::unique_ptr<HttpServer> http;
  if (flags.http.has_value()) {
    const auto ready = [&training] { return training ? absl::OkStatus() : absl::UnavailableError("not training yet"); };
    DILOCO_ASSIGN_OR_RETURN(
        http, HttpServer::Start("--http", {.address = *flags.http, .registry = &registry, .ready = ready}));
  }
  const absl::Cleanup remove_port_file = [&flags] {
    if (!flags.port_file.empty()) unlink(flags.port_file.c_str());
  };
  if (!flags.port_file.empty()) {
    DILOCO_RETURN_IF_ERROR(WritePortFile(flags.port_file, http.get()));
  }
  spdlog::info("event=start worker={} version={} libtorch={} device={} threads={} http={}", flags.id, DILOCO_VERSION,
               LibTorchVersion(), inputs.device, flags.threads, http == nullptr ? "none" : http->address().ToString());

  const SteadyClock clock;
  ProgressPrinter printer(flags.progress, flags.id, &clock);
  WorkerOptions options;
  options.coordinator = flags.coordinator.ToString();
  options.run_id = flags.run_id;
  options.worker_id = flags.id;
  options.connect_timeout = flags.connect_timeout;
  options.give_up_after = flags.give_up_after;
  options.interrupt = interrupt;
  options.on_progress = [&](const WorkerStatus& status) {
    training = true;
    Report(status, &metrics);
    printer.Show(status);
  };
  const absl::Status status =
      RunWorker(options, [&](const RunConfig& config) { return MakeTrainer(flags, inputs, config); });
  printer.Finish();
  return status;
}

}  // namespace diloco
