#include "coordinator/ctl/global_options.h"

#include <memory>

#include "common/base/name.h"
#include "common/base/status_macros.h"
#include "common/command_line/tls_flags.h"
#include "common/net/host_port.h"
#include "common/rpc/coordinator_link.h"
#include "coordinator/ctl/flags.h"
#include <CLI/CLI.hpp>

namespace diloco {

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  app.add_option("--coordinator", options.coordinator, "Address, HOST:PORT")
      ->envname("DILOCO_COORDINATOR")
      ->capture_default_str();
  AddTlsFlags(app, &options.tls);
  app.add_option("--run", options.run, "Id of the run; default: whatever run the coordinator has");
  app.add_option("-o,--output", options.output, "table, wide (more columns) or json")
      ->check(CLI::IsMember({"table", "wide", "json"}))
      ->capture_default_str();
  app.add_option("--timeout", options.timeout, "Of one call; with --watch also of losing the coordinator")
      ->capture_default_str();
}

absl::StatusOr<ExitCode> RunRemotely(const RemoteAction& action, const GlobalOptions& options, const CtlIo& io) {
  DILOCO_ASSIGN_OR_RETURN(const HostPort address,
                          ParseHostPort("--coordinator", options.coordinator, PortZero::kRefuse));
  if (!options.run.empty()) DILOCO_RETURN_IF_ERROR(ValidateName("--run", options.run));
  DILOCO_ASSIGN_OR_RETURN(const absl::Duration timeout, ParseWait("--timeout", options.timeout));
  DILOCO_RETURN_IF_ERROR(options.tls.CheckComplete());
  DILOCO_ASSIGN_OR_RETURN(const CoordinatorLink link, CoordinatorLink::Open(address.ToString(), options.tls));
  const std::shared_ptr<grpc::Channel> channel = link.NewChannel();
  const AdminClient client(channel, link, options.run, timeout);
  return action({.client = client,
                 .link = link,
                 .channel = channel,
                 .address = address,
                 .run_id = options.run,
                 .format = options.format(),
                 .timeout = timeout,
                 .io = io});
}

}  // namespace diloco
