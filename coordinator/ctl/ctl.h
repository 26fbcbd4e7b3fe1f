// dilococtl's command line.
#pragma once

#include "coordinator/ctl/command.h"

namespace diloco {

// Parses the arguments, runs the command and prints what it says, errors included. Returns the exit code.
int RunCtl(int argc, const char* const* argv, const CtlIo& io);

}  // namespace diloco
