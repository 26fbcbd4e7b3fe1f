// Workers on the real client with trainers that need no model. For tests and load: one worker a process where processes
// are killed and stopped, or any number of them that share nothing but the process. `--trace` writes what happened, one
// JSON line each.
#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "CLI/CLI.hpp"
#include "common/base/exit_code.h"
#include "common/base/status_macros.h"
#include "common/command_line/log_flags.h"
#include "common/command_line/tls_flags.h"
#include "common/log/log.h"
#include "common/rpc/server.h"
#include "common/trace/trace.h"
#include "nlohmann/json.hpp"
#include "tests/load/synthetic_trainer.h"
#include "tests/load/trace.h"
#include "worker/app/worker_http.h"
#include "worker/loop/run_worker.h"

namespace diloco::testing {
namespace {

std::atomic<bool> interrupted = false;
std::atomic<bool> terminated = false;

struct Flags {
  std::string coordinator;
  TlsFiles tls;
  std::string id;
  std::string run_id;
  int workers = 1;
  SyntheticTrainerOptions trainer;
  int64_t step_milliseconds = 0;
  std::string checkpoint_folder;
  int64_t checkpoint_every = 10;
  std::string trace;
  std::string port_file;
  std::string slices;
  LogOptions log;
};

// Theta in the trace of models up to this size.
constexpr size_t kTracedElements = 4096;

void TraceInto(Trace* trace, WorkerOptions* options, SyntheticTrainerOptions* trainer) {
  if (!trace->on()) return;
  const std::string& id = options->worker_id;
  options->on_stop = [trace, id](const StopReport& report) {
    nlohmann::json line = {{"event", "boundary"},       {"worker", id},
                           {"round", report.round},     {"next_round", report.next_round},
                           {"version", report.version}, {"finite", report.finite},
                           {"waited", report.waited},   {"blocked_seconds", report.blocked_seconds}};
    if (report.theta.size() <= kTracedElements) {
      line["theta"] = std::vector<float>(report.theta.begin(), report.theta.end());
    }
    trace->Write(line);
  };
  options->on_wait = [trace, id](int64_t round) {
    trace->Write({{"event", "wait"}, {"worker", id}, {"round", round}});
  };
  options->on_consensus = [trace, id](int fragment, int64_t version, const Digest& digest) {
    trace->Write({{"event", "consensus"},
                  {"worker", id},
                  {"fragment", fragment},
                  {"version", version},
                  {"digest", digest.Hex()}});
  };
  trainer->on_step = [trace, id](int64_t step, const Vector& theta) {
    trace->Write({{"event", "step"}, {"worker", id}, {"step", step}, {"parameters", theta}});
  };
}

absl::Status RunOne(const Flags& flags, int index, Trace* trace, Tracer* tracer) {
  WorkerOptions options;
  StatusBoard board;
  options.board = &board;
  std::unique_ptr<WorkerHttp> http;
  if (!flags.port_file.empty() && flags.workers == 1) {
    DILOCO_ASSIGN_OR_RETURN(http, WorkerHttp::Start({"127.0.0.1", 0}, &board));
    DILOCO_RETURN_IF_ERROR(WritePortFile(flags.port_file, http.get()));
  }
  options.coordinator = flags.coordinator;
  options.tls = flags.tls;
  options.worker_id = flags.workers == 1 ? flags.id : absl::StrCat(flags.id, index);
  options.run_id = flags.run_id;
  options.interrupt = &interrupted;
  options.tracer = tracer;
  if (!flags.checkpoint_folder.empty()) {
    options.checkpoint_folder =
        flags.workers == 1 ? flags.checkpoint_folder : absl::StrCat(flags.checkpoint_folder, "/", options.worker_id);
  }
  options.checkpoint_every = flags.checkpoint_every;
  SyntheticTrainerOptions trainer = flags.trainer;
  trainer.worker += index;
  trainer.step_time = absl::Milliseconds(flags.step_milliseconds);
  TraceInto(trace, &options, &trainer);
  WorkerStatus last;
  options.on_progress = [&last](const WorkerStatus& status) { last = status; };
  DILOCO_RETURN_IF_ERROR(RunWorker(options, [&](const RunConfig& config) {
    if (flags.workers == 1) SetLogContext({{"run", config.run.id}, {"worker", options.worker_id}});
    return MakeSyntheticTrainer(trainer, config);
  }));
  trace->Write({{"event", "end"},
                {"worker", options.worker_id},
                {"version", last.version},
                {"step", last.step},
                {"rounds_skipped", last.rounds_skipped},
                {"outer_gradients_not_finite", last.outer_gradients_not_finite},
                {"blocked_seconds", last.blocked_seconds},
                {"wall_seconds", last.wall_seconds},
                {"uploaded_bytes", last.uploaded_bytes},
                {"downloaded_bytes", last.downloaded_bytes},
                {"reconnects", last.Reconnects()}});
  return absl::OkStatus();
}

// The first error, once all workers have ended.
absl::Status Run(const Flags& flags) {
  Trace trace(flags.trace);
  std::unique_ptr<Tracer> tracer;
  if (!flags.slices.empty()) {
    DILOCO_ASSIGN_OR_RETURN(tracer, Tracer::Open({.path = flags.slices, .process_name = "worker " + flags.id}));
  }
  if (flags.workers == 1) return RunOne(flags, 0, &trace, tracer.get());
  std::vector<absl::Status> statuses(static_cast<size_t>(flags.workers));
  std::vector<std::thread> threads;
  for (int index = 0; index < flags.workers; ++index) {
    threads.emplace_back(
        [&, index] { statuses[static_cast<size_t>(index)] = RunOne(flags, index, &trace, tracer.get()); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) DILOCO_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

void AddFlags(CLI::App& app, Flags* flags) {
  app.add_option("--coordinator", flags->coordinator, "HOST:PORT")->required();
  AddTlsFlags(app, &flags->tls);
  app.add_option("--id", flags->id, "Worker id; of several workers what precedes each one's number")->required();
  app.add_option("--run", flags->run_id, "Run id; default: whatever run the coordinator has");
  app.add_option("--workers", flags->workers, "Workers in this process, --worker and up")->check(CLI::PositiveNumber);
  auto* vectors = app.add_option("--vectors", flags->trainer.vectors, "Trajectory file whose world is trained in");
  app.add_option("--case", flags->trainer.trajectory, "Index of the trajectory in the file")->needs(vectors);
  app.add_option("--worker", flags->trainer.worker, "Which worker of the world, or seed of the drift");
  auto* elements = app.add_option("--elements", flags->trainer.elements, "Parameters of a drifting model instead")
                       ->check(CLI::PositiveNumber)
                       ->excludes(vectors);
  app.add_option("--tensors", flags->trainer.tensors, "Tensors of the drifting model, each a layer")
      ->check(CLI::PositiveNumber)
      ->needs(elements);
  app.add_option("--step-ms", flags->step_milliseconds, "Milliseconds that a step takes at least")->needs(elements);
  app.add_option("--nan-at-round", flags->trainer.nan_at_round, "Round whose outer gradient is not finite");
  app.add_option("--checkpoint-folder", flags->checkpoint_folder,
                 "Where checkpoints lie; of several workers, a folder for each in it");
  app.add_option("--checkpoint-every", flags->checkpoint_every, "Rounds from one to the next")
      ->check(CLI::PositiveNumber);
  app.add_option("--trace", flags->trace, "File for JSON lines");
  app.add_option("--port-file", flags->port_file,
                 "Serves metrics as diloco-worker does, on a port that is written into this file; one worker only");
  app.add_option("--slices", flags->slices, "File for what diloco-worker's --trace writes");
  AddLogFlags(app, &flags->log);
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("diloco workers with a synthetic trainer, for tests and load.");
  AddFlags(app, &flags);
  try {
    app.parse(argc, argv);
    if (flags.trainer.vectors.empty() && flags.trainer.elements == 0) {
      throw CLI::RequiredError("--vectors or --elements");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk) : static_cast<int>(ExitCode::kUsage);
  }
  std::signal(SIGINT, [](int) { interrupted = true; });
  std::signal(SIGTERM, [](int) {
    terminated = true;
    interrupted = true;
  });
  absl::Status status = InitLog(flags.log);
  RouteGrpcLog();
  if (status.ok()) {
    status = Run(flags);
  }
  // As diloco-worker: leaving on request is what was asked for.
  if (absl::IsCancelled(status) && terminated) return static_cast<int>(ExitCode::kOk);
  if (!status.ok()) {
    SayFailure("synthetic_worker", std::string(status.message()));
  }
  return static_cast<int>(ExitCodeFor(status));
}

}  // namespace
}  // namespace diloco::testing

int main(int argc, char** argv) { return diloco::testing::Main(argc, argv); }
