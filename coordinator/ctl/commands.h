// Every command of dilococtl, each in a file of its own: see Command.
#pragma once

#include <vector>

#include "coordinator/ctl/command.h"

namespace diloco {

Command StatusCommand();
Command RoundListCommand();
Command RoundDescribeCommand();
Command WorkerListCommand();
Command WorkerDescribeCommand();
Command WorkerDrainCommand();
Command WorkerEvictCommand();
Command WorkerAdmitCommand();
Command CheckpointListCommand();
Command CheckpointSaveCommand();
Command CheckpointVerifyCommand();
Command ConfigCheckCommand();
Command JournalVerifyCommand();
Command RunRecoverCommand();
Command PlanCommand();
Command CertsInitCommand();
Command CertsIssueCommand();
Command PreflightCommand();
Command CompletionCommand();

// In the order in which help shows them.
inline std::vector<Command> AllCommands() {
  return {StatusCommand(),         RoundListCommand(),        RoundDescribeCommand(),
          WorkerListCommand(),     WorkerDescribeCommand(),   WorkerDrainCommand(),
          WorkerEvictCommand(),    WorkerAdmitCommand(),      CheckpointListCommand(),
          CheckpointSaveCommand(), CheckpointVerifyCommand(), ConfigCheckCommand(),
          JournalVerifyCommand(),  RunRecoverCommand(),       PlanCommand(),
          CertsInitCommand(),      CertsIssueCommand(),       PreflightCommand(),
          CompletionCommand()};
}

}  // namespace diloco
