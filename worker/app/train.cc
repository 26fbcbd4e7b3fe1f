#include "worker/app/train.h"

#include <unistd.h>

#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"

#include "common/base/atomic_file.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/http/http_server.h"
#include "common/metrics/worker_metrics.h"
#include "nlohmann/json.hpp"
#include "prometheus/registry.h"
#include "spdlog/spdlog.h"
#include "worker/app/progress_printer.h"
#include "worker/app/trainer_inputs.h"
#include "worker/loop/run_worker.h"
#include "worker/trainer/torch_trainer.h"

namespace diloco {
namespace {

void Report(const WorkerStatus& status, WorkerMetrics* metrics) {
  metrics->Report(ToProgress(status));
  metrics->connected.Set(status.connected ? 1 : 0);
  const auto reconnects = static_cast<double>(status.Reconnects());
  metrics->reconnects.Increment(reconnects - metrics->reconnects.Value());
  metrics->evaluation_loss.Set(status.evaluation_loss);
  metrics->evaluation_version.Set(static_cast<double>(status.evaluation_version));
  const auto written = static_cast<double>(status.checkpoints_written);
  metrics->checkpoints_written.Increment(written - metrics->checkpoints_written.Value());
  const auto failed = static_cast<double>(status.checkpoints_failed);
  metrics->checkpoints_failed.Increment(failed - metrics->checkpoints_failed.Value());
  metrics->checkpoint_step.Set(static_cast<double>(status.checkpoint_step));
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
  DILOCO_ASSIGN_OR_RETURN(const DataFiles files, OpenDataFiles(flags.data, flags.held_out));
  DILOCO_ASSIGN_OR_RETURN(const TrainerMachine machine, OpenTrainerMachine(flags.device, flags.threads, flags.init));
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
               LibTorchVersion(), machine.device, flags.threads, http == nullptr ? "none" : http->address().ToString());

  const SteadyClock clock;
  ProgressPrinter printer(flags.progress, flags.id, &clock);
  WorkerOptions options;
  options.coordinator = flags.coordinator.ToString();
  options.run_id = flags.run_id;
  options.worker_id = flags.id;
  options.connect_timeout = flags.connect_timeout;
  options.give_up_after = flags.give_up_after;
  options.interrupt = interrupt;
  options.checkpoint_folder = flags.checkpoint_folder;
  options.checkpoint_every = flags.checkpoint_every;
  options.on_progress = [&](const WorkerStatus& status) {
    training = true;
    Report(status, &metrics);
    printer.Show(status);
  };
  const absl::Status status =
      RunWorker(options, [&](const RunConfig& config) { return MakeTrainer(machine, files, flags.id, config); });
  printer.Finish();
  return status;
}

}  // namespace diloco
