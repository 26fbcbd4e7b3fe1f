#include <memory>
#include <string>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/confirm.h"
#include "coordinator/ctl/flags.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/views.h"

namespace diloco {
namespace {

struct Flags {
  std::string worker;
  bool yes = false;
};

absl::StatusOr<ExitCode> Run(const CommandContext& context, const Flags& flags) {
  DILOCO_RETURN_IF_ERROR(
      Confirm(context.io, flags.yes, absl::StrFormat("worker %s finishes its round and leaves the run", flags.worker)));
  DILOCO_ASSIGN_OR_RETURN(const v1::DrainWorkerResponse response, context.client.DrainWorker(flags.worker));
  Show(context, response, DrainText(response));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  AddWorkerArgument(app, flags->worker);
  AddYesFlag(app, flags->yes);
  return [flags](const CommandContext& context) { return Run(context, *flags); };
}

}  // namespace

Command WorkerDrainCommand() {
  return {.path = "worker drain",
          .summary = "Let a worker finish its round and leave; no later round waits for it",
          .examples =
              "dilococtl worker drain west\n"
              "dilococtl worker drain west --yes",
          .declare = &Declare};
}

}  // namespace diloco
