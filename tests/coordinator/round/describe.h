// Effects and what the machine shows of itself, as the lines of scenario files.
#pragma once

#include <string>
#include <vector>

#include "coordinator/round/round_events.h"
#include "coordinator/round/round_machine.h"

namespace diloco {

std::string Describe(const RoundEffect& effect);
std::string Describe(Verdict verdict);
// The run, its members, and every open round.
std::vector<std::string> Describe(const RoundMachine& machine, int fragments, MonotonicTime now);

}  // namespace diloco
