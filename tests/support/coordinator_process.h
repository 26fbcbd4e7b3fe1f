// A real diloco-coordinator in a process of its own, on a port that the system chose.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "nlohmann/json.hpp"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace diloco::testing {

// Deadline of what takes a healthy process milliseconds, on a machine that may be busy.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

class CoordinatorProcess {
 public:
  struct Options {
    std::string host = "127.0.0.1";        // That it listens on.
    std::vector<std::string> arguments;    // On top of what names files and addresses.
    std::vector<std::string> environment;  // "NAME=value".
  };
  // Files go into `folder`: run.yaml, data/, coordinator.log, ports.json.
  CoordinatorProcess(std::string folder, const std::string& config_yaml)
      : CoordinatorProcess(std::move(folder), config_yaml, Options()) {}
  CoordinatorProcess(std::string folder, const std::string& config_yaml, Options options);

  // Starts it and waits until its port is open. The first start chooses the port, later ones use it again.
  absl::Status Start();
  // kill -9, and waits until it is gone.
  void Kill();
  // SIGTERM; its exit code.
  absl::StatusOr<int> Stop();

  int port() const { return port_; }
  int http_port() const { return http_port_; }
  std::string address() const;
  std::string data_folder() const { return folder_ + "/data"; }
  std::string log_path() const { return folder_ + "/coordinator.log"; }
  std::string Log() const { return ReadFile(log_path()); }
  Process& process() { return *process_; }

  // dilococtl ARGUMENTS -o json. Errors: its exit code and what it said.
  absl::StatusOr<nlohmann::json> Ctl(const std::vector<std::string>& arguments) const;

 private:
  std::string folder_;
  Options options_;
  int port_ = 0;
  int http_port_ = 0;
  std::optional<Process> process_;
};

}  // namespace diloco::testing
