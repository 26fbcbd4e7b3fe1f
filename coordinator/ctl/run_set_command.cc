#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/event_view.h"
#include "coordinator/ctl/show.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

using Settings = std::vector<std::string>;

absl::StatusOr<ExitCode> Run(const CommandContext& context, const Settings& settings) {
  v1::SetConfigRequest request;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s: write KEY=VALUE, such as outer.rate=0.2", Printable(setting)));
    }
    v1::Setting* added = request.add_settings();
    added->set_key(setting.substr(0, equals));
    added->set_value(setting.substr(equals + 1));
  }
  DILOCO_ASSIGN_OR_RETURN(const v1::SetConfigResponse response, context.client.SetConfig(request));
  Show(context, response,
       response.changes().empty() ? "nothing has changed: the run has these values already\n"
                                  : ChangesText(response.changes()));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto settings = std::make_shared<Settings>();
  app.add_option("KEY=VALUE", *settings,
                 "As in the configuration file; a key that may not change is answered with those that may")
      ->required();
  return [settings](const CommandContext& context) { return Run(context, *settings); };
}

}  // namespace

Command RunSetCommand() {
  return {.path = "run set",
          .summary = "Change settings in mid-run: rates, quorum, waits, how often",
          .examples =
              "dilococtl run set outer.rate=0.2\n"
              "dilococtl run set rounds.quorum=1 rounds.grace_window=adaptive",
          .declare = &Declare};
}

}  // namespace diloco
