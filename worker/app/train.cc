#include "worker/app/train.h"

#include <unistd.h>

#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "common/trace/trace.h"
#include "worker/app/progress_printer.h"
#include "worker/app/trainer_inputs.h"
#include "worker/app/worker_http.h"
#include "worker/loop/run_worker.h"
#include "worker/trainer/torch_trainer.h"

namespace diloco {

absl::Status Train(const WorkerFlags& flags, const std::atomic<bool>* interrupt) {
  std::unique_ptr<Tracer> tracer;
  if (!flags.trace_file.empty()) {
    DILOCO_ASSIGN_OR_RETURN(
        tracer, Tracer::Open({.path = flags.trace_file, .process_name = absl::StrCat("worker ", flags.id)}));
  }
  DILOCO_ASSIGN_OR_RETURN(const DataFiles files, OpenDataFiles(flags.data, flags.held_out));
  DILOCO_ASSIGN_OR_RETURN(const TrainerMachine machine, OpenTrainerMachine(flags.device, flags.threads, flags.init));
  StatusBoard board;
  std::unique_ptr<WorkerHttp> http;
  if (flags.http.has_value()) {
    DILOCO_ASSIGN_OR_RETURN(http, WorkerHttp::Start(*flags.http, &board));
  }
  const absl::Cleanup remove_port_file = [&flags] {
    if (!flags.port_file.empty()) unlink(flags.port_file.c_str());
  };
  if (!flags.port_file.empty()) {
    DILOCO_RETURN_IF_ERROR(WritePortFile(flags.port_file, http.get()));
  }
  SetLogContext({{"worker", flags.id}});
  LogInfo("start", {{"software", DILOCO_VERSION},
                    {"libtorch", LibTorchVersion()},
                    {"device", machine.device},
                    {"threads", flags.threads},
                    {"http", http == nullptr ? "none" : http->address().ToString()}});

  const SteadyClock clock;
  ProgressPrinter printer(flags.progress, flags.id, &clock);
  WorkerOptions options;
  options.coordinator = flags.coordinator.ToString();
  options.tls = flags.tls;
  options.run_id = flags.run_id;
  options.worker_id = flags.id;
  options.connect_timeout = flags.connect_timeout;
  options.give_up_after = flags.give_up_after;
  options.interrupt = interrupt;
  options.checkpoint_folder = flags.checkpoint_folder;
  options.checkpoint_every = flags.checkpoint_every;
  options.board = &board;
  options.tracer = tracer.get();
  options.on_progress = [&printer](const WorkerStatus& status) { printer.Show(status); };
  const absl::Status status = RunWorker(options, [&](const RunConfig& config) {
    SetLogContext({{"run", config.run.id}, {"worker", flags.id}});
    return MakeTrainer(machine, files, flags.id, config);
  });
  printer.Finish();
  return status;
}

}  // namespace diloco
