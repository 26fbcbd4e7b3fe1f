#include "coordinator/app/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace diloco {
namespace {

constexpr char kCgroupRoot[] = "/sys/fs/cgroup";

std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Path of the process's cgroup v2 below the root: the line "0::/path". Empty: the root, or none.
std::string CgroupPath() {
  for (const absl::string_view line : absl::StrSplit(ReadSmallFile("/proc/self/cgroup"), '\n')) {
    if (absl::StartsWith(line, "0::/")) return std::string(absl::StripAsciiWhitespace(line.substr(3)));
  }
  return "";
}

int AffinityCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace

std::optional<double> ParseCpuMax(std::string_view text) {
  const std::vector<std::string> fields = absl::StrSplit(std::string(text), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  double quota = 0;
  double period = 0;
  if (fields.size() != 2 || !absl::SimpleAtod(fields[0], &quota) || !absl::SimpleAtod(fields[1], &period) ||
      !(quota > 0) || !(period > 0)) {
    return std::nullopt;
  }
  return quota / period;
}

int UsableCpus() {
  int cpus = AffinityCpus();
  std::string path = CgroupPath();
  while (true) {
    if (const std::optional<double> quota = ParseCpuMax(ReadSmallFile(kCgroupRoot + path + "/cpu.max"))) {
      cpus = std::min(cpus, std::max(1, static_cast<int>(std::ceil(std::min(*quota, 1e6)))));
    }
    const size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return cpus;
    path.resize(slash);
  }
}

}  // namespace diloco
