// Runs seeds of the simulated cluster.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "CLI/CLI.hpp"
#include "spdlog/spdlog.h"
#include "tests/sim/runner.h"

int main(int argc, char** argv) {
  using namespace diloco::sim;
  spdlog::set_level(spdlog::level::off);
  CLI::App app("Runs a whole cluster in one thread, one run a seed, on simulated time, network and disk.");
  RunnerOptions options;
  std::string shim = "none";
  app.add_option("--first-seed", options.first_seed, "The first seed")->capture_default_str();
  app.add_option("--seeds", options.seeds, "How many")->capture_default_str();
  app.add_flag("--verbose", options.verbose, "Print each seed's configuration and what happened");
  app.add_option("--shim", shim, "Break a rule on purpose; --shim help lists them");
  CLI11_PARSE(app, argc, argv);
  for (const NamedShim& each : kShims) {
    if (shim == "help") std::printf("%s\n", std::string(each.name).c_str());
    if (shim == each.name) options.shim = each.shim;
  }
  if (shim == "help") return EXIT_SUCCESS;
  if (shim != "none" && options.shim == Shim::kNone) {
    std::fprintf(stderr, "no shim \"%s\"; --shim help lists them\n", shim.c_str());
    return EXIT_FAILURE;
  }
  const RunnerResult result = RunSeeds(options);
  std::printf("%s\n", result.Summary().c_str());
  return result.failure.empty() ? EXIT_SUCCESS : EXIT_FAILURE;
}
