// What diloco-worker is told by flags and DILOCO_* variables; everything about the run comes from the coordinator.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/log/log.h"
#include "common/net/host_port.h"
#include "common/tls/tls_files.h"

namespace diloco {

inline constexpr char kWorkerProgram[] = "diloco-worker";
inline constexpr int kMaxThreads = 1024;

enum class ProgressStyle {
  kAuto,   // In place on a terminal, else as plain.
  kPlain,  // A line now and then.
  kNone,
};

// `diloco-worker`: train.
struct WorkerFlags {
  HostPort coordinator;
  TlsFiles tls;  // Not given: plaintext.
  std::string id;
  std::string data;      // File or folder.
  std::string held_out;  // Empty: the configuration's share of `data`.
  std::string device = "auto";
  std::string run_id;             // Empty: whatever run the coordinator has.
  std::string init;               // .safetensors with the first parameters. Empty: drawn from run.seed.
  int threads = 1;                // [1, kMaxThreads].
  std::optional<HostPort> http;   // nullopt: none.
  std::string port_file;          // Empty: none.
  std::string checkpoint_folder;  // Empty: no checkpoints.
  int64_t checkpoint_every = 10;  // Rounds, >= 1.
  absl::Duration connect_timeout = absl::Minutes(1);
  absl::Duration give_up_after = absl::Minutes(30);
  ProgressStyle progress = ProgressStyle::kAuto;
  LogOptions log;
  std::string trace_file;  // Empty: none.
};

// `diloco-worker simulate`: train a whole run in one process.
struct SimulateFlags {
  std::string config;  // YAML file.
  struct Worker {
    std::string id;    // See ValidateName.
    std::string data;  // File or folder.
  };
  std::vector<Worker> workers;  // In the order given, ids distinct.
  std::string held_out;         // Empty: the configuration's share of the first worker's data.
  std::string device = "auto";
  std::string init;       // .safetensors with the first parameters. Empty: drawn from run.seed.
  int threads = 1;        // [1, kMaxThreads].
  std::string out = "-";  // File for JSON lines; `-`: stdout.
  LogOptions log = {.level = "warning"};
};

// `diloco-worker unigram`: print the loss to beat.
struct UnigramFlags {
  std::string data;
  std::string held_out;
  int vocabulary = 256;  // [2, 65536].
};

// `--help` or `--version`: print this and exit with 0.
struct TextToPrint {
  std::string text;
};

using WorkerCommand = std::variant<WorkerFlags, SimulateFlags, UnigramFlags, TextToPrint>;

// Flags win over variables. Errors, kInvalidArgument: an unknown flag, a flag without its value, a value that is none,
// a required flag that is absent.
absl::StatusOr<WorkerCommand> ParseWorkerCommand(int argc, const char* const* argv);

}  // namespace diloco
