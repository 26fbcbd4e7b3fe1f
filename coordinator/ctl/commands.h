// Every command of dilococtl, each in a file of its own: see Command.
#pragma once

#include <vector>

#include "coordinator/ctl/command.h"

namespace diloco {

Command StatusCommand();
Command RoundListCommand();
Command RoundDescribeCommand();
Command WorkerListCommand();
Command WorkerDrainCommand();
Command WorkerEvictCommand();
Command WorkerAdmitCommand();
Command CheckpointSaveCommand();
Command RunRecoverCommand();
Command PlanCommand();

// In the order in which help shows them.
inline std::vector<Command> AllCommands() {
  return {StatusCommand(),      RoundListCommand(),   RoundDescribeCommand(), WorkerListCommand(),
          WorkerDrainCommand(), WorkerEvictCommand(), WorkerAdmitCommand(),   CheckpointSaveCommand(),
          RunRecoverCommand(),  PlanCommand()};
}

}  // namespace diloco
