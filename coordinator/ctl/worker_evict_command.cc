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
  DILOCO_RETURN_IF_ERROR(Confirm(context.io, flags.yes,
                                 absl::StrFormat("worker %s is thrown out at once, and what it has sent for rounds "
                                                 "that have not closed is dropped",
                                                 flags.worker)));
  DILOCO_ASSIGN_OR_RETURN(const v1::EvictWorkerResponse response, context.client.EvictWorker(flags.worker));
  Show(context, response, EvictText(response));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  AddWorkerArgument(app, flags->worker);
  AddYesFlag(app, flags->yes);
  return [flags](const CommandContext& context) { return Run(context, *flags); };
}

}  // namespace

Command WorkerEvictCommand() {
  return {.path = "worker evict",
          .summary = "Throw a worker out at once and refuse its id, until `worker admit`",
          .examples =
              "dilococtl worker evict west\n"
              "dilococtl worker evict west --yes",
          .declare = &Declare};
}

}  // namespace diloco
