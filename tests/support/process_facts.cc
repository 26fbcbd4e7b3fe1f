#include "tests/support/process_facts.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

#include "absl/strings/str_format.h"

namespace diloco::testing {

absl::StatusOr<ProcessFacts> ReadProcessFacts(pid_t pid) {
  const std::string folder = absl::StrFormat("/proc/%d", pid);
  const absl::Status absent = absl::NotFoundError(absl::StrFormat("there is no process %d", pid));
  ProcessFacts facts;
  std::ifstream status(folder + "/status");
  if (!status) return absent;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    int64_t value = 0;
    words >> key >> value;
    if (key == "VmRSS:") facts.resident_bytes = value * 1024;
    if (key == "Threads:") facts.threads = value;
  }
  std::error_code error;
  const std::filesystem::directory_iterator files(folder + "/fd", error);
  if (error) return absent;
  facts.open_files = std::distance(begin(files), end(files));
  return facts;
}

}  // namespace diloco::testing
