#include <memory>
#include <string>

#include "coordinator/ctl/command_tree.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/completion.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

Action Declare(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  app.add_option("SHELL", *shell, "bash")->required()->check(CLI::IsMember({"bash"}));
  return [shell](OutputFormat, const CtlIo& io) -> absl::StatusOr<ExitCode> {
    CommandTree tree;
    io.out(BashCompletion(tree.app()));
    return ExitCode::kOk;
  };
}

}  // namespace

Command CompletionCommand() {
  return {.path = "completion",
          .summary = "A script that completes command lines of this program",
          .examples = "dilococtl completion bash > /etc/bash_completion.d/dilococtl",
          .declare = &Declare};
}

}  // namespace diloco
