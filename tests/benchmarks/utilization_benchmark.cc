// How much of a round's time the workers compute, over links that need a good part of it for the transfers: the eager
// method beside the blocking one. A coordinator process, two workers on the real client whose steps take a fixed time
// and no processor, each behind a proxy of limited rate. The blocking method waits for less than upload and download
// one after the other: the links are duplex, so early fragments come back while later ones still go out.
// Run on a quiet machine: build/tests/utilization_benchmark
//
// Exit code 0: the eager method is above 95 %, the blocking one below 75 %, and the transfers took the share of a round
// that they should; 1: not so, or a run failed.
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

#include "CLI/CLI.hpp"
#include "common/base/check.h"
#include "common/base/exit_code.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"
#include "common/log/log.h"
#include "tests/benchmarks/limited_run.h"

namespace diloco::testing {
namespace {

constexpr double kEagerAbove = 0.95;
constexpr double kBlockingBelow = 0.75;
constexpr double kShareAtLeast = 0.5;
constexpr double kShareAtMost = 0.8;

double RoundSeconds(const LimitedRun& run) {
  return static_cast<double>(run.step_milliseconds * run.inner_steps) / 1e3;
}

// Bytes a second, each way, that carry a round's upload and then its download in `share` of H inner steps.
uint64_t LinkRate(const LimitedRun& run, double share) {
  const auto elements = static_cast<uint64_t>(run.elements);
  const uint64_t payload =
      FindCodec(run.uplink)->encoded_bytes(elements) + FindCodec(run.downlink)->encoded_bytes(elements);
  return static_cast<uint64_t>(static_cast<double>(payload) / (share * RoundSeconds(run)));
}

// Runs `method` and prints its figures. True: every worker's are what `good` wants, over the link that was asked for.
template <typename Good>
absl::StatusOr<bool> Report(LimitedRun run, const std::string& method, const Good& good) {
  run.method = method;
  DILOCO_ASSIGN_OR_RETURN(const std::vector<LimitedFigures> workers, RunLimited(run));
  bool all = true;
  for (size_t m = 0; m < workers.size(); ++m) {
    const LimitedFigures& figures = workers[m];
    const double share = figures.bytes_per_round / static_cast<double>(run.link_rate) / RoundSeconds(run);
    std::cout << absl::StrFormat(
                     "%-7s w%d: utilization %5.1f %%, blocked %.2f s of %.2f s, transfers %.2f of H steps\n", method, m,
                     100 * figures.utilization(), figures.blocked_seconds, figures.wall_seconds, share)
              << std::flush;
    all = all && good(figures.utilization()) && share >= kShareAtLeast && share <= kShareAtMost;
  }
  return all;
}

absl::StatusOr<bool> Run(const LimitedRun& run) {
  std::cout << absl::StrFormat(
      "%d workers, %d parameters, %s up, %s down, H = %d steps of %d ms, links of %d bytes/s each way, rounds %d to "
      "%d\n",
      run.workers, run.elements, run.uplink, run.downlink, run.inner_steps, run.step_milliseconds, run.link_rate,
      run.first_measured, run.rounds - 2);
  DILOCO_ASSIGN_OR_RETURN(const bool eager, Report(run, "eager", [](double u) { return u > kEagerAbove; }));
  DILOCO_ASSIGN_OR_RETURN(const bool blocking, Report(run, "diloco", [](double u) { return u < kBlockingBelow; }));
  return eager && blocking;
}

int Main(int argc, char** argv) {
  LimitedRun run;
  double share = 0.65;
  CLI::App app("Utilization of the eager and the blocking method over links of limited rate.");
  app.add_option("--step-ms", run.step_milliseconds, "Milliseconds of an inner step")->check(CLI::Range(1, 60'000));
  app.add_option("--inner-steps", run.inner_steps, "H")->check(CLI::Range(1, 10'000));
  app.add_option("--rounds", run.rounds, "Rounds of each run; the first two and the last are not measured")
      ->check(CLI::Range(static_cast<int>(run.first_measured) + 2, 10'000));
  app.add_option("--share", share, "Share of H inner steps that a round's transfers take")
      ->check(CLI::Range(kShareAtLeast, kShareAtMost));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk) : static_cast<int>(ExitCode::kUsage);
  }
  DILOCO_CHECK(InitLog({.level = "warning"}).ok());
  run.link_rate = LinkRate(run, share);
  const absl::StatusOr<bool> passed = Run(run);
  if (!passed.ok()) {
    std::cerr << "utilization_benchmark: " << passed.status().message() << '\n';
    return static_cast<int>(ExitCode::kFailure);
  }
  std::cout << absl::StrFormat("eager above %.0f %%, diloco below %.0f %%: %s\n", 100 * kEagerAbove,
                               100 * kBlockingBelow, *passed ? "yes" : "no");
  return static_cast<int>(*passed ? ExitCode::kOk : ExitCode::kFailure);
}

}  // namespace
}  // namespace diloco::testing

int main(int argc, char** argv) { return diloco::testing::Main(argc, argv); }
