// How many threads this process can run at once, for sizing pools: never the machine's core count, which a container's
// quota or an affinity mask may make far too large.
#pragma once

#include <string>

namespace diloco {

// The smaller of the CPUs in the affinity mask and the CPU quota of the control groups that hold the process, rounded
// up; at least 1. Reads both versions of cgroups.
int UsableCpus();

namespace internal {

// The quota in CPUs of the groups that `membership` (the text of /proc/self/cgroup) names in the hierarchy mounted at
// `root`, and of their ancestors; 0 for no quota.
double CgroupCpuQuota(const std::string& root, const std::string& membership);

}  // namespace internal
}  // namespace diloco
