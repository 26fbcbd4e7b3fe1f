// What diloco-coordinator is told by flags and DILOCO_* variables; everything about the run is in the configuration.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "common/log/log.h"
#include "common/net/host_port.h"
#include "common/tls/tls_files.h"

namespace diloco {

inline constexpr char kCoordinatorProgram[] = "diloco-coordinator";
inline constexpr int kMaxMergeThreads = 256;

struct CoordinatorOptions {
  std::string config_path;
  std::string data_folder;
  HostPort listen;
  std::optional<HostPort> http;  // nullopt: none.
  std::string port_file;         // Empty: none.
  int merge_threads = 1;         // [1, kMaxMergeThreads].
  LogOptions log;
  std::string trace_file;  // Empty: none.
  bool reflection = false;
  bool exit_when_finished = false;
  TlsFiles tls;  // Not given: plaintext.
  bool allow_plaintext = false;
};

// What to do after reading the command line: run, or print `text` on stdout and exit with 0 (--help, --version).
struct CommandLine {
  std::optional<std::string> text;
  CoordinatorOptions options;
};

// Flags win over variables. Errors, kInvalidArgument: an unknown flag, a flag without its value, a value that is none,
// a required flag that is absent, an address beyond loopback with neither TLS nor --allow-plaintext.
absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv);

}  // namespace diloco
