#include "worker/app/options.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/cpus.h"
#include "common/base/name.h"
#include "common/base/status_macros.h"
#include "common/command_line/usage_error.h"
#include "common/log/log.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

constexpr char kAbout[] =
    "Trains a model in one datacenter and exchanges outer gradients with the coordinator, which also says what to "
    "train.\n\n"
    "Examples:\n"
    "  diloco-worker --coordinator 127.0.0.1:7070 --id east --data text/\n"
    "  diloco-worker --coordinator 10.0.0.1:7070 --id west --data train.bin --held-out val.bin --device cuda:0\n"
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

void AddMachineFlags(CLI::App& app, WorkerFlags* flags) {
  app.add_option("--data", flags->data, "File or folder to train on")->envname("DILOCO_DATA");
  app.add_option("--held-out", flags->held_out,
                 "File or folder to evaluate on; default: the last eval.held_out of --data")
      ->envname("DILOCO_HELD_OUT");
  app.add_option("--device", flags->device, "auto (the first GPU, else the CPU), cpu or cuda:N")
      ->envname("DILOCO_DEVICE")
      ->capture_default_str();
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
  AddMachineFlags(app, flags);
  app.add_option("--run", flags->run_id, "Refuse to take part in any other run; default: take what there is")
      ->envname("DILOCO_RUN");
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
  app.add_option("--log-level", flags->log_level, absl::StrFormat("One of %s", kLogLevels))
      ->envname("DILOCO_LOG_LEVEL")
      ->capture_default_str();
  app.set_version_flag("--version", absl::StrFormat("%s %s", kWorkerProgram, DILOCO_VERSION));
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

}  // namespace

absl::StatusOr<WorkerCommand> ParseWorkerCommand(int argc, const char* const* argv) {
  WorkerFlags flags;
  flags.threads = std::min(UsableCpus(), kMaxThreads);
  RawFlags raw;
  raw.connect_timeout = absl::FormatDuration(flags.connect_timeout);
  raw.give_up_after = absl::FormatDuration(flags.give_up_after);
  UnigramFlags unigram_flags;
  CLI::App app(kAbout, kWorkerProgram);
  AddFlags(app, &raw, &flags);
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
  if (unigram->parsed()) {
    return unigram_flags;
  }
  return Check(raw, std::move(flags));
}

}  // namespace diloco
