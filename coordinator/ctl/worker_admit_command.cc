#include <memory>
#include <string>

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/flags.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/views.h"

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const CommandContext& context, const std::string& worker) {
  DILOCO_ASSIGN_OR_RETURN(const v1::AdmitWorkerResponse response, context.client.AdmitWorker(worker));
  Show(context, response, AdmitText(response));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto worker = std::make_shared<std::string>();
  AddWorkerArgument(app, *worker);
  return [worker](const CommandContext& context) { return Run(context, *worker); };
}

}  // namespace

Command WorkerAdmitCommand() {
  return {.path = "worker admit",
          .summary = "Let an evicted worker join again",
          .examples = "dilococtl worker admit west",
          .declare = &Declare};
}

}  // namespace diloco
