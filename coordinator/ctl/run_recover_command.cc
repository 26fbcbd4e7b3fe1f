#include <memory>
#include <string>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/confirm.h"
#include "coordinator/ctl/flags.h"
#include "coordinator/ctl/show.h"
#include "coordinator/ctl/views.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

struct Flags {
  std::string from;
  bool discard_workers = false;
  bool force = false;
  bool yes = false;
};

absl::StatusOr<ExitCode> Run(const CommandContext& context, const Flags& flags) {
  v1::RecoverConsensusRequest request;
  request.set_worker_id(flags.from);
  request.set_discard_workers(flags.discard_workers);
  request.set_force(flags.force);
  request.set_dry_run(true);
  DILOCO_ASSIGN_OR_RETURN(v1::RecoverConsensusResponse response, context.client.RecoverConsensus(request));
  DILOCO_RETURN_IF_ERROR(Confirm(context.io, flags.yes, RecoverSentence(request, response)));
  request.set_dry_run(false);
  DILOCO_ASSIGN_OR_RETURN(response, context.client.RecoverConsensus(request));
  Show(context, response,
       absl::StrFormat("%s; `dilococtl status` shows how far it is\n", RecoverSentence(request, response)));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::Option* from = app.add_option("--from", flags->from, "Worker whose consensus the run goes on from");
  app.add_flag("--discard-workers", flags->discard_workers,
               "Go on from the data folder; what workers hold beyond it is lost")
      ->excludes(from);
  app.add_flag("--force", flags->force, "Take that worker's although another one is further ahead")->needs(from);
  AddYesFlag(app, flags->yes);
  return [flags](const CommandContext& context) { return Run(context, *flags); };
}

}  // namespace

Command RunRecoverCommand() {
  return {.path = "run recover",
          .summary =
              "End the hold of a run whose coordinator lost its disk while workers hold newer versions "
              "(`status` says which)",
          .examples =
              "dilococtl run recover --from east        take the consensus of worker east\n"
              "dilococtl run recover --discard-workers  go on from the data folder as it is",
          .declare = &Declare};
}

}  // namespace diloco
