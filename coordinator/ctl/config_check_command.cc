#include <memory>
#include <string>

#include "common/base/status_macros.h"
#include "common/config/config_file.h"
#include "common/config/config_json.h"
#include "common/config/run_config.h"
#include "coordinator/ctl/commands.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const std::string& path, OutputFormat format, const CtlIo& io) {
  DILOCO_ASSIGN_OR_RETURN(const std::string yaml, ReadConfigFile(path));
  DILOCO_ASSIGN_OR_RETURN(const RunConfig config, ParseRunConfig(yaml, path));
  io.out(format == OutputFormat::kJson ? ConfigJson(config) : ConfigText(config));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  app.add_option("FILE", *path, "Configuration of a run")->required();
  return [path](OutputFormat format, const CtlIo& io) { return Run(*path, format, io); };
}

}  // namespace

Command ConfigCheckCommand() {
  return {.path = "config check",
          .summary = "Read a run's configuration as the coordinator would, and show it with every default",
          .examples =
              "dilococtl config check run.yaml\n"
              "dilococtl -o json config check run.yaml | jq .rounds.quorum",
          .declare = &Declare};
}

}  // namespace diloco
