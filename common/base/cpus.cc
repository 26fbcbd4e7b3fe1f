#include "common/base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "absl/strings/str_split.h"

namespace diloco {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Quota of one group: version 2 has "QUOTA PERIOD" in one file, "max" for none; version 1 a file for each, -1 for none.
double GroupQuota(const std::string& folder) {
  std::istringstream text(ReadAll(folder + "/cpu.max") + " " + ReadAll(folder + "/cpu.cfs_quota_us") + " " +
                          ReadAll(folder + "/cpu.cfs_period_us"));
  double quota = 0;
  double period = 0;
  return text >> quota >> period && quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

namespace internal {

double CgroupCpuQuota(const std::string& root, const std::string& membership) {
  double smallest = 0;
  for (const auto line : absl::StrSplit(membership, '\n')) {
    // "HIERARCHY:CONTROLLERS:PATH"; version 2 has no controllers there.
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) {
      continue;
    }
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    const bool version1 = std::find(controllers.begin(), controllers.end(), "cpu") != controllers.end();
    if (!version1 && !fields[1].empty()) {
      continue;
    }
    const std::string mount = version1 ? root + "/" + fields[1] : root;
    for (std::filesystem::path group = fields[2];; group = group.parent_path()) {
      const double quota = GroupQuota(mount + group.string());
      if (quota > 0 && (smallest == 0 || quota < smallest)) {
        smallest = quota;
      }
      if (group == group.parent_path()) {
        break;
      }
    }
  }
  return smallest;
}

}  // namespace internal

int UsableCpus() {
  // Larger than any machine's mask, so that the call does not fail on many cores.
  constexpr int kMaxCpus = 8192;
  cpu_set_t* mask = CPU_ALLOC(kMaxCpus);
  const size_t size = CPU_ALLOC_SIZE(kMaxCpus);
  int cpus = sched_getaffinity(0, size, mask) == 0 ? CPU_COUNT_S(size, mask) : 1;
  CPU_FREE(mask);
  const double quota = internal::CgroupCpuQuota("/sys/fs/cgroup", ReadAll("/proc/self/cgroup"));
  if (quota > 0) {
    cpus = std::min(cpus, static_cast<int>(std::ceil(quota)));
  }
  return std::max(cpus, 1);
}

}  // namespace diloco
