// How many CPUs this process may use: what the scheduler's affinity and the control group's quota leave of the machine.
#pragma once

#include <optional>
#include <string_view>

namespace diloco {

// PURE: the quota of a cgroup v2 `cpu.max` ("200000 100000": 2 CPUs; "max 100000": none), in CPUs. nullopt: no quota,
// or not that form.
std::optional<double> ParseCpuMax(std::string_view text);

// >= 1. A quota of a part of a CPU counts as a whole one. Takes the smallest quota from the process's group up to the
// root (cgroup v2; version 1 counts as no quota).
int UsableCpus();

}  // namespace diloco
