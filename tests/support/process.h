// Real processes for tests: started, waited for with a deadline, killed with any signal.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "tests/support/temp_folder.h"

namespace diloco::testing {

std::string ReadFile(const std::string& path);  // Empty when there is no such file.
void WriteFile(const std::string& path, const std::string& content);

// Waits until `path` exists (it must be created or renamed into place whole). Errors: kDeadlineExceeded.
absl::Status WaitForFile(const std::string& path, absl::Duration deadline);

// Killed and reaped by the destructor.
class Process {
 public:
  struct Options {
    std::vector<std::string> arguments;    // arguments[0]: path of the program.
    std::string output_path;               // stdout and stderr, appended; empty: inherited.
    std::string stdout_path;               // stdout alone, when it is to be apart.
    std::vector<std::string> environment;  // "NAME=value", on top of this process's.
  };
  static absl::StatusOr<Process> Start(const Options& options);
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Exit code, or 128 + signal. Errors: kDeadlineExceeded, and the process still runs.
  absl::StatusOr<int> Wait(absl::Duration deadline);
  bool running();

 private:
  explicit Process(pid_t pid) : pid_(pid) {}
  void Reap();

  pid_t pid_ = -1;      // -1: moved from.
  int exit_code_ = -1;  // -1: not reaped yet.
};

// Starts it, waits, and returns exit code, stdout and stderr.
struct Finished {
  int exit_code = -1;
  std::string output;
  std::string errors;
};
absl::StatusOr<Finished> RunProcess(const std::vector<std::string>& arguments, absl::Duration deadline,
                                    const std::vector<std::string>& environment = {});

}  // namespace diloco::testing
