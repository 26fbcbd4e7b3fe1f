// Every command of dilococtl, each in a file of its own: see Command.
#pragma once

#include <vector>

#include "coordinator/ctl/command.h"

namespace diloco {

Command StatusCommand();
Command RoundListCommand();
Command RoundDescribeCommand();
Command RoundWatchCommand();
Command EventsCommand();
Command WorkerListCommand();
Command WorkerDescribeCommand();
Command WorkerDrainCommand();
Command WorkerEvictCommand();
Command WorkerAdmitCommand();
Command CheckpointListCommand();
Command CheckpointSaveCommand();
Command CheckpointVerifyCommand();
Command ConfigCheckCommand();
Command ConfigShowCommand();
Command JournalVerifyCommand();
Command RunPauseCommand();
Command RunResumeCommand();
Command RunSetCommand();
Command RunExtendCommand();
Command RunStopCommand();
Command RunRecoverCommand();
Command PlanCommand();
Command CertsInitCommand();
Command CertsIssueCommand();
Command PreflightCommand();
Command CompletionCommand();

// In the order in which help shows them.
inline std::vector<Command> AllCommands() {
  return {StatusCommand(),           RoundListCommand(),   RoundDescribeCommand(),  RoundWatchCommand(),
          EventsCommand(),           WorkerListCommand(),  WorkerDescribeCommand(), WorkerDrainCommand(),
          WorkerEvictCommand(),      WorkerAdmitCommand(), CheckpointListCommand(), CheckpointSaveCommand(),
          CheckpointVerifyCommand(), ConfigCheckCommand(), ConfigShowCommand(),     JournalVerifyCommand(),
          RunPauseCommand(),         RunResumeCommand(),   RunSetCommand(),         RunExtendCommand(),
          RunStopCommand(),          RunRecoverCommand(),  PlanCommand(),           CertsInitCommand(),
          CertsIssueCommand(),       PreflightCommand(),   CompletionCommand()};
}

}  // namespace diloco
