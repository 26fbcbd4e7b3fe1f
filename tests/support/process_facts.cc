#include "tests/support/process_facts.h"

#include <unistd.h>

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
  // pid (name) state and 10 more words, then user and system time; the name may hold anything but ends with the last
  // ')'.
  std::ifstream stat(folder + "/stat");
  std::string text;
  std::getline(stat, text);
  std::istringstream words(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int word = 0; word < 11; ++word) words >> skipped;
  int64_t user = 0;
  int64_t system = 0;
  words >> user >> system;
  facts.cpu_seconds = static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::error_code error;
  const std::filesystem::directory_iterator files(folder + "/fd", error);
  if (error) return absent;
  facts.open_files = std::distance(begin(files), end(files));
  return facts;
}

}  // namespace diloco::testing
