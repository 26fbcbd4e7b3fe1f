#include "coordinator/ctl/ctl.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

#include "common/base/name.h"
#include "common/base/status_macros.h"
#include "common/command_line/examples.h"
#include "common/command_line/usage_error.h"
#include "common/net/host_port.h"
#include "coordinator/ctl/plan_command.h"
#include "coordinator/ctl/table.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

constexpr char kDescription[] = R"(Shows and steers a run, by way of its coordinator.

Examples:
  dilococtl status                                  the run at a glance
  dilococtl status --watch                          follow it to its end
  dilococtl --coordinator 10.0.0.5:7070 worker list
  dilococtl worker drain west                       let it finish its round and leave
  dilococtl round list                              rounds, newest first
  dilococtl round describe 42                       why round 42 has not closed
  dilococtl -o json status | jq .rounds_committed
  dilococtl checkpoint save                         write the consensus on the coordinator's disk
  dilococtl run recover --from east                 the coordinator lost its disk: take east's consensus
  dilococtl plan --preset 1B --up 400Mbit           what a run would take, before there is one
)";

constexpr char kFooter[] = R"(
Exit codes: 0 done, 1 failure, 2 wrong usage, 3 the coordinator cannot be reached, 4 not found, 5 not allowed now,
6 `status`: the run is held, 130 interrupted.
JSON is the message of proto/diloco/v1/admin.proto (`plan` has its own objects): 64-bit integers are strings, NaN and infinity are null.)";

struct Options {
  std::string coordinator = "127.0.0.1:7070";
  std::string run;
  std::string output = "table";
  std::string timeout = "10s";
  std::string interval = "2s";
  bool watch = false;
  uint32_t limit = 20;
  std::string round;
  std::string worker;
  bool yes = false;
  RecoverFlags recover;
  PlanFlags plan;
};

absl::StatusOr<absl::Duration> ParseWait(const std::string& flag, const std::string& text) {
  absl::Duration duration;
  if (absl::ParseDuration(text, &duration) && duration >= absl::Milliseconds(10) && duration <= absl::Hours(1)) {
    return duration;
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("%s %s: use a duration such as 500ms or 10s, 10ms to 1h", flag, text));
}

absl::StatusOr<int64_t> ParseRound(const std::string& text) {
  int64_t round = 0;  // Not left to CLI11, which reads a number that is too large as 0.
  if (absl::SimpleAtoi(text, &round) && round >= 0) return round;
  return absl::InvalidArgumentError(absl::StrFormat("ROUND %s: use the number of a round, 0 or more", text));
}

absl::StatusOr<ExitCode> DispatchWorker(const CLI::App& worker, const Options& options, const CommandContext& context) {
  if (worker.got_subcommand("list")) return RunWorkerList(context);
  DILOCO_RETURN_IF_ERROR(ValidateName("NAME", options.worker));
  if (worker.got_subcommand("drain")) return RunWorkerDrain(context, options.worker, options.yes);
  if (worker.got_subcommand("evict")) return RunWorkerEvict(context, options.worker, options.yes);
  return RunWorkerAdmit(context, options.worker);
}

absl::StatusOr<ExitCode> Dispatch(const CLI::App& app, const Options& options, const CtlIo& io) {
  const OutputFormat format = options.output == "json" ? OutputFormat::kJson : OutputFormat::kTable;
  if (app.got_subcommand("plan")) return RunPlan(options.plan, format, io);
  DILOCO_ASSIGN_OR_RETURN(const HostPort address,
                          ParseHostPort("--coordinator", options.coordinator, PortZero::kRefuse));
  if (!options.run.empty()) DILOCO_RETURN_IF_ERROR(ValidateName("--run", options.run));
  DILOCO_ASSIGN_OR_RETURN(const absl::Duration timeout, ParseWait("--timeout", options.timeout));
  DILOCO_ASSIGN_OR_RETURN(const absl::Duration interval, ParseWait("--interval", options.interval));
  const AdminClient client(address.ToString(), options.run, timeout);
  const CommandContext context{.client = client, .format = format, .timeout = timeout, .io = io};
  if (app.got_subcommand("status")) {
    return options.watch ? RunStatusWatch(context, interval) : RunStatus(context);
  }
  if (app.got_subcommand("worker")) return DispatchWorker(*app.get_subcommand("worker"), options, context);
  if (app.got_subcommand("checkpoint")) return RunCheckpointSave(context);
  if (app.got_subcommand("run")) return RunRecover(context, options.recover, options.yes);
  if (app.get_subcommand("round")->got_subcommand("list")) return RunRoundList(context, options.limit);
  DILOCO_ASSIGN_OR_RETURN(const int64_t round, ParseRound(options.round));
  return RunRoundDescribe(context, round);
}

void AddWorkerCommands(CLI::App& app, Options& options) {
  CLI::App* worker = app.add_subcommand("worker", "Workers: list, drain, evict, admit")->require_subcommand(1);
  ShowExamples(worker, "dilococtl worker list\ndilococtl worker drain west\ndilococtl worker evict west --yes");
  ShowExamples(worker->add_subcommand("list", "Workers and what each reported last"),
               "dilococtl worker list\n"
               "dilococtl --coordinator 10.0.0.5:7070 worker list\n"
               "dilococtl -o json worker list | jq '.workers[].progress.loss'");
  const auto about_one = [&options](CLI::App* command) {
    command->add_option("NAME", options.worker, "Id of the worker")->required();
    return command;
  };
  const auto asks = [&options](CLI::App* command) {
    command->add_flag("--yes", options.yes, "Do not ask");
    return command;
  };
  ShowExamples(asks(about_one(worker->add_subcommand(
                   "drain", "Let a worker finish its round and leave; no later round waits for it"))),
               "dilococtl worker drain west\ndilococtl worker drain west --yes");
  ShowExamples(asks(about_one(worker->add_subcommand(
                   "evict", "Throw a worker out at once and refuse its id, until `worker admit`"))),
               "dilococtl worker evict west\ndilococtl worker evict west --yes");
  ShowExamples(about_one(worker->add_subcommand("admit", "Let an evicted worker join again")),
               "dilococtl worker admit west");
}

void AddCommands(CLI::App& app, Options& options) {
  CLI::App* status = app.add_subcommand("status", "The run at a glance");
  ShowExamples(status,
               "dilococtl status\n"
               "dilococtl status --watch --interval 10s\n"
               "dilococtl -o json status | jq .rounds_committed");
  status->add_flag("--watch", options.watch, "Follow the run until it has ended, then sum it up");
  status->add_option("--interval", options.interval, "Between two looks of --watch")->capture_default_str();

  CLI::App* round = app.add_subcommand("round", "Rounds: list, describe")->require_subcommand(1);
  ShowExamples(round, "dilococtl round list\ndilococtl round describe 42");
  CLI::App* list = round->add_subcommand("list", "Rounds, newest first");
  ShowExamples(list, "dilococtl round list --limit 5\ndilococtl -o json round list | jq '.rounds[].merged'");
  list->add_option("--limit", options.limit, "At most this many")->check(CLI::Range(1, 1000))->capture_default_str();
  CLI::App* describe = round->add_subcommand("describe", "One round in full, with the reason why it has not closed");
  ShowExamples(describe, "dilococtl round describe 42\ndilococtl -o json round describe 42");
  describe->add_option("ROUND", options.round, "Number of the round")
      ->required()
      ->check(CLI::Range(int64_t{0}, INT64_MAX));

  AddWorkerCommands(app, options);

  CLI::App* checkpoint = app.add_subcommand("checkpoint", "Checkpoints: save")->require_subcommand(1);
  ShowExamples(checkpoint, "dilococtl checkpoint save");
  ShowExamples(checkpoint->add_subcommand("save", "Write model.safetensors and run.yaml on the coordinator's disk"),
               "dilococtl checkpoint save\ndilococtl --timeout 5m checkpoint save");

  CLI::App* run = app.add_subcommand("run", "The run: recover")->require_subcommand(1);
  ShowExamples(run, "dilococtl run recover --from east");
  CLI::App* recover = run->add_subcommand(
      "recover",
      "End the hold of a run whose coordinator lost its disk while workers hold newer versions (`status` says which)");
  ShowExamples(recover,
               "dilococtl run recover --from east        take the consensus of worker east\n"
               "dilococtl run recover --discard-workers  go on from the data folder as it is");
  CLI::Option* from =
      recover->add_option("--from", options.recover.from, "Worker whose consensus the run goes on from");
  recover
      ->add_flag("--discard-workers", options.recover.discard_workers,
                 "Go on from the data folder; what workers hold beyond it is lost")
      ->excludes(from);
  recover->add_flag("--force", options.recover.force, "Take that worker's although another one is further ahead")
      ->needs(from);
  recover->add_flag("--yes", options.yes, "Do not ask");

  AddPlanCommand(app, options.plan);
}

}  // namespace

int RunCtl(int argc, const char* const* argv, const CtlIo& io) {
  Options options;
  CLI::App app(kDescription, "dilococtl");
  app.fallthrough();  // Global flags may follow the command.
  app.require_subcommand(1);
  app.set_version_flag("--version", "dilococtl " DILOCO_VERSION);
  app.add_option("--coordinator", options.coordinator, "Address, HOST:PORT")
      ->envname("DILOCO_COORDINATOR")
      ->capture_default_str();
  app.add_option("--run", options.run, "Id of the run; default: whatever run the coordinator has");
  app.add_option("-o,--output", options.output, "table or json")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str();
  app.add_option("--timeout", options.timeout, "Of one call; with --watch also of losing the coordinator")
      ->capture_default_str();
  AddCommands(app, options);
  app.footer(kFooter);  // After the commands, which would inherit it.

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    io.out(app.help());
    return static_cast<int>(ExitCode::kOk);
  } catch (const CLI::CallForVersion& version) {
    io.out(absl::StrFormat("%s\n", version.what()));
    return static_cast<int>(ExitCode::kOk);
  } catch (const CLI::ParseError& error) {
    io.err(absl::StrFormat("dilococtl: %s\n", Printable(std::string(UsageError(app, error).message()))));
    return static_cast<int>(ExitCode::kUsage);
  }
  const absl::StatusOr<ExitCode> code = Dispatch(app, options, io);
  if (code.ok()) return static_cast<int>(*code);
  io.err(absl::StrFormat("dilococtl: %s\n", Printable(std::string(code.status().message()))));
  return static_cast<int>(ExitCodeFor(code.status()));
}

}  // namespace diloco
