#include "worker/app/options.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/cpus.h"
#include "common/base/limits.h"
#include "common/base/name.h"
#include "common/base/status_macros.h"
#include "common/command_line/log_flags.h"
#include "common/command_line/tls_flags.h"
#include "common/command_line/trace_flag.h"
#include "common/command_line/usage_error.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

constexpr char kAbout[] =
    "Trains a model in one datacenter and exchanges outer gradients with the coordinator, which also says what to "
    "train.\n\n"
    "Examples:\n"
    "  diloco-worker --coordinator 127.0.0.1:7070 --id east --data text/\n"
    "  diloco-worker --coordinator 10.0.0.1:7070 --id west --data train.bin --held-out val.bin --device cuda:0\n"
    "  diloco-worker --coordinator 10.0.0.1:7070 --id west --data train.bin --checkpoint-folder /var/lib/diloco\n"
    "  diloco-worker simulate --config run.yaml --worker east=east.txt --worker west=west.txt\n"
    "  diloco-worker unigram --data train.txt --held-out test.txt\n\n"
    "Data is a file or a folder of files: `.bin` files hold uint16 tokens, of any other file each byte is a token.\n"
    "Each flag of training may come as a variable instead: DILOCO_DATA for --data.";

// As written; checked afterwards.
struct RawFlags {
  std::string coordinator;
  std::string http = "none";
  std::string connect_timeout;
  std::string give_up_after;
};

constexpr char kDeviceHelp[] = "auto (the first GPU, else the CPU), cpu or cuda:N";

void AddMachineFlags(CLI::App& app, WorkerFlags* flags) {
  app.add_option("--data", flags->data, "File or folder to train on")->envname("DILOCO_DATA");
  app.add_option("--held-out", flags->held_out,
                 "File or folder to evaluate on; default: the last eval.held_out of --data")
      ->envname("DILOCO_HELD_OUT");
  app.add_option("--device", flags->device, kDeviceHelp)->envname("DILOCO_DEVICE")->capture_default_str();
  app.add_option("--threads", flags->threads, "CPU threads of one operation; default: the CPUs it may use")
      ->envname("DILOCO_THREADS")
      ->check(CLI::Range(1, kMaxThreads))
      ->capture_default_str();
  app.add_option("--init", flags->init, "First parameters (.safetensors), if this worker is the one to seed the run")
      ->envname("DILOCO_INIT");
}

void AddFlags(CLI::App& app, RawFlags* raw, WorkerFlags* flags) {
  app.add_option("--coordinator", raw->coordinator, "HOST:PORT of the coordinator")->envname("DILOCO_COORDINATOR");
  app.add_option("--id", flags->id, "This worker's name in the run, such as its datacenter's")->envname("DILOCO_ID");
  AddTlsFlags(app, &flags->tls);
  AddMachineFlags(app, flags);
  app.add_option("--run", flags->run_id, "Refuse to take part in any other run; default: take what there is")
      ->envname("DILOCO_RUN");
  app.add_option("--checkpoint-folder", flags->checkpoint_folder,
                 "Folder, of this worker alone, where it keeps what it needs to go on after a restart; default: none")
      ->envname("DILOCO_CHECKPOINT_FOLDER");
  app.add_option("--checkpoint-every", flags->checkpoint_every,
                 "Rounds from one checkpoint to the next; SIGTERM and Ctrl-C write one too")
      ->envname("DILOCO_CHECKPOINT_EVERY")
      ->check(CLI::Range(int64_t{1}, kMaxRounds))
      ->capture_default_str();
  app.add_option("--connect-timeout", raw->connect_timeout,
                 "Give up when there is no coordinator for this long at first")
      ->envname("DILOCO_CONNECT_TIMEOUT")
      ->capture_default_str();
  app.add_option("--give-up-after", raw->give_up_after, "Give up when the coordinator is gone for this long later on")
      ->envname("DILOCO_GIVE_UP_AFTER")
      ->capture_default_str();
  app.add_option("--http", raw->http, "HOST:PORT for /metrics, /healthz and /readyz, port 0: any free one; or `none`")
      ->envname("DILOCO_HTTP")
      ->capture_default_str();
  app.add_option("--port-file", flags->port_file, "File that the actual HTTP address is written to, as JSON")
      ->envname("DILOCO_PORT_FILE");
  const std::map<std::string, ProgressStyle> styles = {
      {"auto", ProgressStyle::kAuto}, {"plain", ProgressStyle::kPlain}, {"none", ProgressStyle::kNone}};
  app.add_option("--progress", flags->progress, "auto (in place on a terminal), plain (lines) or none")
      ->envname("DILOCO_PROGRESS")
      ->transform(CLI::CheckedTransformer(styles).description(""))
      ->default_str("auto");
  AddLogFlags(app, &flags->log);
  AddTraceFlag(app, &flags->trace_file);
  app.set_version_flag("--version", absl::StrFormat("%s %s", kWorkerProgram, DILOCO_VERSION));
}

CLI::App* AddSimulate(CLI::App& app, std::vector<std::string>* workers, SimulateFlags* flags) {
  CLI::App* simulate = app.add_subcommand(
      "simulate",
      "Train all workers of a run in this process, without a network: the consensus is the service's, bit for\n"
      "bit, with every average on time. Writes one JSON line for each evaluation");
  simulate->add_option("--config", flags->config, "The run's configuration, as diloco-coordinator takes it")
      ->required();
  simulate
      ->add_option("--worker", *workers,
                   "NAME=DATA: a worker and the file or folder it trains on; once for each worker")
      ->allow_extra_args(false)
      ->required();
  simulate->add_option("--held-out", flags->held_out,
                       "File or folder to evaluate on; default: the last eval.held_out of the first worker's data");
  simulate->add_option("--device", flags->device, kDeviceHelp)->capture_default_str();
  simulate->add_option("--threads", flags->threads, "CPU threads of one operation; default: the CPUs it may use")
      ->check(CLI::Range(1, kMaxThreads))
      ->capture_default_str();
  simulate->add_option("--init", flags->init, "First parameters (.safetensors); default: drawn from run.seed");
  simulate->add_option("--out", flags->out, "File for the lines; - for stdout")->capture_default_str();
  AddLogFlags(*simulate, &flags->log);
  return simulate;
}

CLI::App* AddUnigram(CLI::App& app, UnigramFlags* flags) {
  CLI::App* unigram =
      app.add_subcommand("unigram", "Print the loss that token frequencies alone reach on held-out data");
  unigram->add_option("--data", flags->data, "File or folder to count")->required();
  unigram->add_option("--held-out", flags->held_out, "File or folder to predict")->required();
  unigram->add_option("--vocabulary", flags->vocabulary, "Number of tokens")
      ->check(CLI::Range(2, 65536))
      ->capture_default_str();
  return unigram;
}

absl::StatusOr<absl::Duration> ParseTimeout(const char* flag, const std::string& text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration <= absl::ZeroDuration() || duration > absl::Hours(24 * 365)) {
    return absl::InvalidArgumentError(absl::StrFormat("%s %s: use a duration such as 30s or 5m", flag, text));
  }
  return duration;
}

absl::Status Missing(const char* flag) {
  return absl::InvalidArgumentError(absl::StrFormat("%s is required; see %s --help", flag, kWorkerProgram));
}

absl::StatusOr<WorkerFlags> Check(const RawFlags& raw, WorkerFlags flags) {
  // Not `required` to the parser, because the subcommand does without them.
  if (raw.coordinator.empty()) return Missing("--coordinator");
  if (flags.id.empty()) return Missing("--id");
  if (flags.data.empty()) return Missing("--data");
  DILOCO_ASSIGN_OR_RETURN(flags.coordinator, ParseHostPort("--coordinator", raw.coordinator, PortZero::kRefuse));
  DILOCO_RETURN_IF_ERROR(flags.tls.CheckComplete());
  DILOCO_RETURN_IF_ERROR(ValidateName("worker id", flags.id));
  if (!flags.run_id.empty()) {
    DILOCO_RETURN_IF_ERROR(ValidateName("run id", flags.run_id));
  }
  if (raw.http != "none") {
    DILOCO_ASSIGN_OR_RETURN(flags.http, ParseHostPort("--http", raw.http, PortZero::kAllow));
  }
  DILOCO_ASSIGN_OR_RETURN(flags.connect_timeout, ParseTimeout("--connect-timeout", raw.connect_timeout));
  DILOCO_ASSIGN_OR_RETURN(flags.give_up_after, ParseTimeout("--give-up-after", raw.give_up_after));
  return flags;
}

absl::StatusOr<SimulateFlags> CheckSimulate(const std::vector<std::string>& workers, SimulateFlags flags) {
  std::set<std::string> ids;
  for (const std::string& worker : workers) {
    const size_t equals = worker.find('=');
    if (equals == std::string::npos || equals + 1 == worker.size()) {
      return absl::InvalidArgumentError(absl::StrFormat("--worker %s: use NAME=DATA, such as east=text/", worker));
    }
    const std::string id = worker.substr(0, equals);
    DILOCO_RETURN_IF_ERROR(ValidateName("worker id", id));
    if (!ids.insert(id).second) {
      return absl::InvalidArgumentError(absl::StrFormat("--worker %s: %s is named twice", worker, id));
    }
    flags.workers.push_back({.id = id, .data = worker.substr(equals + 1)});
  }
  return flags;
}

}  // namespace

absl::StatusOr<WorkerCommand> ParseWorkerCommand(int argc, const char* const* argv) {
  WorkerFlags flags;
  flags.threads = std::min(UsableCpus(), kMaxThreads);
  RawFlags raw;
  raw.connect_timeout = absl::FormatDuration(flags.connect_timeout);
  raw.give_up_after = absl::FormatDuration(flags.give_up_after);
  SimulateFlags simulate_flags;
  simulate_flags.threads = flags.threads;
  std::vector<std::string> simulated_workers;
  UnigramFlags unigram_flags;
  CLI::App app(kAbout, kWorkerProgram);
  AddFlags(app, &raw, &flags);
  const CLI::App* simulate = AddSimulate(app, &simulated_workers, &simulate_flags);
  const CLI::App* unigram = AddUnigram(app, &unigram_flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return TextToPrint{app.help()};
  } catch (const CLI::CallForVersion& version) {
    return TextToPrint{absl::StrFormat("%s\n", version.what())};
  } catch (const CLI::ParseError& error) {
    return UsageError(app, error);
  }
  if (simulate->parsed()) {
    return CheckSimulate(simulated_workers, std::move(simulate_flags));
  }
  if (unigram->parsed()) {
    return unigram_flags;
  }
  return Check(raw, std::move(flags));
}

}  // namespace diloco
