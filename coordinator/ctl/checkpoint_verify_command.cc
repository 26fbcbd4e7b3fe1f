#include <memory>
#include <string>

#include "common/base/status_macros.h"
#include "coordinator/ctl/checkpoint_verify.h"
#include "coordinator/ctl/commands.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const std::string& path, OutputFormat format, const CtlIo& io) {
  DILOCO_ASSIGN_OR_RETURN(const CheckpointReport report, VerifyCheckpoint(path));
  io.out(format == OutputFormat::kJson ? CheckpointReportJson(report) : CheckpointReportText(report));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto path = std::make_shared<std::string>();
  app.add_option("PATH", *path, "Folder of a checkpoint, or a safetensors file")->required();
  return [path](OutputFormat format, const CtlIo& io) { return Run(*path, format, io); };
}

}  // namespace

Command CheckpointVerifyCommand() {
  return {.path = "checkpoint verify",
          .summary = "Whether a checkpoint on this machine is whole: header, sizes, values, digests",
          .examples =
              "dilococtl checkpoint verify data/checkpoints/round-00000060\n"
              "dilococtl checkpoint verify model.safetensors\n"
              "dilococtl -o json checkpoint verify model.safetensors | jq -r .data_digest",
          .declare = &Declare};
}

}  // namespace diloco
