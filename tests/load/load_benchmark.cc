// Load on one machine: a coordinator and any number of synthetic workers, and what they took.
#include <iostream>
#include <string>

#include "absl/strings/str_format.h"

#include "CLI/CLI.hpp"
#include "common/base/exit_code.h"
#include "tests/load/load_run.h"

namespace diloco::testing {
namespace {

void Print(const LoadOptions& options, const LoadReport& report) {
  const double seconds = absl::ToDoubleSeconds(report.training);
  const double gigabytes = static_cast<double>(report.received_bytes + report.sent_bytes) / 1e9;
  const auto print = [](const char* name, const std::string& value) {
    std::cout << absl::StrFormat("%-28s %s\n", name, value);
  };
  print("rounds", absl::StrFormat("%d in %.1f s, %.2f/s", report.rounds_committed, seconds,
                                  static_cast<double>(report.rounds_committed) / seconds));
  print("payload received", absl::StrFormat("%.1f MB/s", static_cast<double>(report.received_bytes) / 1e6 / seconds));
  print("payload sent", absl::StrFormat("%.1f MB/s", static_cast<double>(report.sent_bytes) / 1e6 / seconds));
  print("contributions a round", absl::StrFormat("%.2f of %d",
                                                 static_cast<double>(report.merged) /
                                                     static_cast<double>(report.rounds_listed * options.fragments),
                                                 options.workers));
  print("utilization of the workers", absl::StrFormat("%.1f %%", 100 * report.utilization));
  print("reconnects", absl::StrFormat("%d", report.reconnects));
  print("coordinator CPU", absl::StrFormat("%.2f s, %.2f s/GB of payload", report.coordinator.cpu_seconds,
                                           report.coordinator.cpu_seconds / gigabytes));
  for (const auto& [name, facts] :
       {std::pair("coordinator", report.coordinator), std::pair("workers", report.workers)}) {
    print(name,
          absl::StrFormat("%.1f MiB resident, %d open files, %d threads",
                          static_cast<double>(facts.resident_bytes) / (1 << 20), facts.open_files, facts.threads));
  }
}

int Main(int argc, char** argv) {
  LoadOptions options;
  int64_t step_milliseconds = absl::ToInt64Milliseconds(options.step_time);
  CLI::App app(
      "A coordinator and synthetic workers, and what they took.\n\nExample: load_benchmark --workers 64 --elements "
      "1000000");
  app.add_option("--workers", options.workers, "Workers, all in one process")->capture_default_str();
  app.add_option("--rounds", options.rounds, "Rounds")->capture_default_str();
  app.add_option("--inner-steps", options.inner_steps, "Inner steps of a round")->capture_default_str();
  app.add_option("--step-ms", step_milliseconds, "Milliseconds that a step takes at least")->capture_default_str();
  app.add_option("--elements", options.elements, "Parameters")->capture_default_str();
  app.add_option("--tensors", options.tensors, "Tensors, each a layer")->capture_default_str();
  app.add_option("--fragments", options.fragments, "Fragments")->capture_default_str();
  app.add_option("--uplink", options.uplink, "Codec of contributions")->capture_default_str();
  app.add_option("--downlink", options.downlink, "Codec of averages")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk) : static_cast<int>(ExitCode::kUsage);
  }
  options.step_time = absl::Milliseconds(step_milliseconds);
  const absl::StatusOr<LoadReport> report = RunLoad(options);
  if (!report.ok()) {
    std::cerr << "load_benchmark: " << report.status().message() << '\n';
    return static_cast<int>(ExitCodeFor(report.status()));
  }
  Print(options, *report);
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace
}  // namespace diloco::testing

int main(int argc, char** argv) { return diloco::testing::Main(argc, argv); }
