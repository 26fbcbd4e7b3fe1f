#include "coordinator/app/options.h"

#include "absl/strings/str_format.h"

#include "common/base/cpus.h"
#include "common/base/status_macros.h"
#include "common/command_line/log_flags.h"
#include "common/command_line/tls_flags.h"
#include "common/command_line/trace_flag.h"
#include "common/command_line/usage_error.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

constexpr char kAbout[] =
    "Averages what the workers of a run send and publishes the averages.\n\n"
    "Examples:\n"
    "  diloco-coordinator --config run.yaml --data-dir /var/lib/diloco\n"
    "  diloco-coordinator --config run.yaml --data-dir data --listen 127.0.0.1:0 --port-file ports.json\n\n"
    "Each flag may come as a variable instead: DILOCO_DATA_DIR for --data-dir.";

// As written; addresses are checked afterwards.
struct RawFlags {
  std::string listen = "127.0.0.1:7070";
  std::string http = "127.0.0.1:7071";
};

void AddFlags(CLI::App& app, RawFlags* raw, CoordinatorOptions* options) {
  app.add_option("--config", options->config_path, "The run's configuration (YAML)")
      ->envname("DILOCO_CONFIG")
      ->required();
  app.add_option("--data-dir", options->data_folder,
                 "Folder of the journal, snapshots and checkpoints; created if absent")
      ->envname("DILOCO_DATA_DIR")
      ->required();
  app.add_option("--listen", raw->listen, "HOST:PORT for workers and dilococtl; port 0: any free one")
      ->envname("DILOCO_LISTEN")
      ->capture_default_str();
  app.add_option("--http", raw->http, "HOST:PORT for the status page, /metrics, /healthz and /readyz; `none`: no HTTP")
      ->envname("DILOCO_HTTP")
      ->capture_default_str();
  app.add_option("--port-file", options->port_file,
                 "File that the actual addresses are written to, as JSON, when ready")
      ->envname("DILOCO_PORT_FILE");
  app.add_option("--merge-threads", options->merge_threads, "Threads that average; default: the CPUs it may use")
      ->envname("DILOCO_MERGE_THREADS")
      ->check(CLI::Range(1, kMaxMergeThreads))
      ->capture_default_str();
  AddLogFlags(app, &options->log);
  AddTraceFlag(app, &options->trace_file);
  app.add_flag("--reflection", options->reflection, "Serve gRPC reflection, for tools such as grpcurl")
      ->envname("DILOCO_REFLECTION");
  app.add_flag("--exit-when-finished", options->exit_when_finished, "Exit with 0 when the run has ended and all left")
      ->envname("DILOCO_EXIT_WHEN_FINISHED");
  AddTlsFlags(app, &options->tls);
  app.add_flag("--allow-plaintext", options->allow_plaintext,
               "Listen beyond loopback without TLS, on a trusted network")
      ->envname("DILOCO_ALLOW_PLAINTEXT");
  app.set_version_flag("--version", absl::StrFormat("%s %s", kCoordinatorProgram, DILOCO_VERSION));
}

absl::Status ReadAddresses(const RawFlags& raw, CoordinatorOptions* options) {
  DILOCO_ASSIGN_OR_RETURN(options->listen, ParseHostPort("--listen", raw.listen, PortZero::kAllow));
  DILOCO_RETURN_IF_ERROR(options->tls.CheckComplete());
  if (!IsLoopback(options->listen.host) && !options->tls.given() && !options->allow_plaintext) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--listen %s is beyond loopback, where traffic would be plaintext; give --tls-cert, --tls-key "
                        "and --tls-ca, or on a trusted network --allow-plaintext",
                        options->listen.ToString()));
  }
  options->http.reset();
  if (raw.http == "none") return absl::OkStatus();
  DILOCO_ASSIGN_OR_RETURN(options->http, ParseHostPort("--http", raw.http, PortZero::kAllow));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  CommandLine result;
  result.options.merge_threads = std::min(UsableCpus(), kMaxMergeThreads);
  RawFlags raw;
  CLI::App app(kAbout, kCoordinatorProgram);
  AddFlags(app, &raw, &result.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    result.text = app.help();
    return result;
  } catch (const CLI::CallForVersion& version) {
    result.text = std::string(version.what()) + "\n";
    return result;
  } catch (const CLI::ParseError& error) {
    return UsageError(app, error);
  }
  DILOCO_RETURN_IF_ERROR(ReadAddresses(raw, &result.options));
  return result;
}

}  // namespace diloco
