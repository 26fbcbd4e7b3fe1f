// Flags that every command takes, and what follows from them.
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "common/tls/tls_files.h"
#include "coordinator/ctl/command.h"

namespace diloco {

// As given on the command line or in the environment.
struct GlobalOptions {
  std::string coordinator = "127.0.0.1:7070";
  TlsFiles tls;  // Not given: plaintext.
  std::string run;
  std::string output = "table";
  std::string timeout = "10s";

  OutputFormat format() const {
    if (output == "json") return OutputFormat::kJson;
    return output == "wide" ? OutputFormat::kWide : OutputFormat::kTable;
  }
};

void AddGlobalOptions(CLI::App& app, GlobalOptions& options);

// Runs the action with a client for the coordinator that `options` name, which connects with the first call.
// Errors: kInvalidArgument for what is wrong with them; the action's.
absl::StatusOr<ExitCode> RunRemotely(const RemoteAction& action, const GlobalOptions& options, const CtlIo& io);

}  // namespace diloco
