#include "tests/support/coordinator_process.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"

namespace diloco::testing {
namespace {

int PortOf(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

}  // namespace

CoordinatorProcess::CoordinatorProcess(std::string folder, const std::string& config_yaml, Options options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  WriteFile(folder_ + "/run.yaml", config_yaml);
}

std::string CoordinatorProcess::address() const { return absl::StrFormat("%s:%d", options_.host, port_); }

absl::Status CoordinatorProcess::Start() {
  const std::string port_file = folder_ + "/ports.json";
  std::remove(port_file.c_str());
  std::vector<std::string> arguments = {Program("diloco-coordinator"),
                                        "--config",
                                        folder_ + "/run.yaml",
                                        "--data-dir",
                                        data_folder(),
                                        "--listen",
                                        address(),
                                        "--http",
                                        "127.0.0.1:0",
                                        "--port-file",
                                        port_file};
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  DILOCO_ASSIGN_OR_RETURN(
      process_,
      Process::Start({.arguments = arguments, .output_path = log_path(), .environment = options_.environment}));
  if (absl::Status status = WaitForFile(port_file, kPatience); !status.ok()) {
    return absl::UnavailableError(absl::StrCat("the coordinator did not start: ", Log()));
  }
  const nlohmann::json ports = nlohmann::json::parse(ReadFile(port_file));
  port_ = PortOf(ports.at("listen"));
  http_port_ = PortOf(ports.at("http"));
  return absl::OkStatus();
}

void CoordinatorProcess::Kill() {
  process_->Signal(SIGKILL);
  process_->Wait(kPatience).IgnoreError();  // Nothing survives SIGKILL.
}

absl::StatusOr<int> CoordinatorProcess::Stop() {
  process_->Signal(SIGTERM);
  return process_->Wait(kPatience);
}

absl::StatusOr<nlohmann::json> CoordinatorProcess::Ctl(const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = {Program("dilococtl"), "--coordinator", address()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.insert(command.end(), {"-o", "json"});
  DILOCO_ASSIGN_OR_RETURN(const Finished finished, RunProcess(command, kPatience));
  if (finished.exit_code != 0) {
    return absl::UnknownError(absl::StrFormat("dilococtl: exit code %d: %s", finished.exit_code, finished.errors));
  }
  nlohmann::json parsed = nlohmann::json::parse(finished.output, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return absl::DataLossError(absl::StrCat("not JSON: ", finished.output));
  return parsed;
}

}  // namespace diloco::testing
