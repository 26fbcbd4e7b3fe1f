#include "common/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace diloco {
namespace {

// Of /proc/self/stat, counted from the field behind the program's name, which may hold anything.
constexpr int kThreadsField = 17;
constexpr int kStartField = 19;
constexpr int kResidentPagesField = 21;

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// When the system booted, Unix seconds; 0 when it does not tell.
double BootTime() {
  std::ifstream stat("/proc/stat");
  for (std::string line; std::getline(stat, line);) {
    if (line.rfind("btime ", 0) == 0) return std::stod(line.substr(6));
  }
  return 0;
}

}  // namespace

ProcessMetrics::ProcessMetrics(prometheus::Registry& registry)
    : cpu_seconds_(OneCounter(registry, kProcessCpu)),
      resident_memory_bytes_(OneGauge(registry, kProcessMemory)),
      open_files_(OneGauge(registry, kProcessFiles)),
      max_files_(OneGauge(registry, kProcessMaxFiles)),
      threads_(OneGauge(registry, kProcessThreads)),
      start_time_seconds_(OneGauge(registry, kProcessStart)) {
  Refresh();
}

void ProcessMetrics::Refresh() {
  if (rusage usage{}; getrusage(RUSAGE_SELF, &usage) == 0) {
    cpu_seconds_.Increment(Seconds(usage.ru_utime) + Seconds(usage.ru_stime) - cpu_seconds_.Value());
  }
  if (rlimit limit{}; getrlimit(RLIMIT_NOFILE, &limit) == 0) max_files_.Set(static_cast<double>(limit.rlim_cur));
  std::error_code error;
  double files = 0;
  for (auto it = std::filesystem::directory_iterator("/proc/self/fd", error); !error && it != end(it);
       it.increment(error)) {
    ++files;
  }
  if (files > 0) open_files_.Set(files - 1);  // Without the one that reads the folder.

  std::ifstream stat("/proc/self/stat");
  std::string line;
  std::getline(stat, line);
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 0; fields >> field; ++i) {
    if (i == kThreadsField) threads_.Set(std::stod(field));
    if (i == kStartField) {
      start_time_seconds_.Set(BootTime() + std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK)));
    }
    if (i == kResidentPagesField) {
      resident_memory_bytes_.Set(std::stod(field) * static_cast<double>(sysconf(_SC_PAGESIZE)));
    }
  }
}

}  // namespace diloco
