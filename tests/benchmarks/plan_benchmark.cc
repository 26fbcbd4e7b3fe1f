// The planner's utilization beside what a run of the service measures over links of limited rate, at several rates and
// for each method. Step time is taken from the measured run, so that a busy machine's late timers count for both.
// Framing, about 2 %, favours the planner, which leaves it out.
//
//   build/tests/plan_benchmark
//
// Exit code 0: every difference is within 5 points; 1: not so, or a run failed.
#include <algorithm>
#include <cmath>
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
#include "coordinator/plan/plan.h"
#include "tests/benchmarks/limited_run.h"

namespace diloco::testing {
namespace {

constexpr double kWithinPoints = 5;
constexpr int64_t kStreamingOverlap = 5;

struct Flags {
  std::vector<std::string> methods = {"diloco", "streaming", "delayed", "eager"};
  std::vector<double> shares = {0.4, 0.8, 1.6};
};

absl::StatusOr<MethodPlan> PlanOf(const LimitedRun& run, double step_seconds) {
  const auto rate = static_cast<double>(run.link_rate);
  const PlanModel model = {
      .layers = run.fragments, .layer_parameters = run.elements / run.fragments, .step_seconds = step_seconds};
  return PlanFor(model, {.links = {{.workers = run.workers, .up = rate, .down = rate}}},
                 {.method = run.method,
                  .inner_steps = run.inner_steps,
                  .overlap_steps = run.overlap,
                  .max_late = run.max_late,
                  .fragments = run.fragments,
                  .layers_each = 1,
                  .uplink = FindCodec(run.uplink),
                  .downlink = FindCodec(run.downlink)});
}

// True: the planner is within kWithinPoints of the slowest worker.
absl::StatusOr<bool> Compare(LimitedRun run, const std::string& method, double share) {
  run.method = method;
  run.max_late = method == "eager" ? 1 : 0;
  run.overlap = method == "streaming" ? kStreamingOverlap : 0;
  const double round_seconds = static_cast<double>(run.inner_steps * run.step_milliseconds) / 1e3;
  const auto download = FindCodec(run.downlink)->encoded_bytes(static_cast<uint64_t>(run.elements));
  run.link_rate = static_cast<uint64_t>(static_cast<double>(download) / (share * round_seconds));
  DILOCO_ASSIGN_OR_RETURN(const std::vector<LimitedFigures> workers, RunLimited(run));
  double measured = 1;
  double step_seconds = 0;
  for (const LimitedFigures& figures : workers) {
    measured = std::min(measured, figures.utilization());
    step_seconds = std::max(step_seconds, figures.step_seconds());
  }
  DILOCO_ASSIGN_OR_RETURN(const MethodPlan plan, PlanOf(run, step_seconds));
  const double points = 100 * (plan.outcome.utilization - measured);
  std::cout << absl::StrFormat("%-8s %9d %8.2f %12.2f %10.1f %10.1f %+8.1f\n", method, run.link_rate, share,
                               1e3 * step_seconds, 100 * plan.outcome.utilization, 100 * measured, points)
            << std::flush;
  return std::abs(points) <= kWithinPoints;
}

absl::StatusOr<bool> Run(const LimitedRun& run, const Flags& flags) {
  std::cout << absl::StrFormat(
      "%d workers, %d parameters in %d fragments, %s up, %s down, H = %d steps of %d ms, rounds %d to %d\n"
      "rate: bytes/s each way of a worker's link; share: of H steps that a round's download takes at it\n"
      "method        rate    share   step (ms)    planned   measured   points\n",
      run.workers, run.elements, run.fragments, run.uplink, run.downlink, run.inner_steps, run.step_milliseconds,
      run.first_measured, run.rounds - 2);
  bool all = true;
  for (const std::string& method : flags.methods) {
    for (const double share : flags.shares) {
      DILOCO_ASSIGN_OR_RETURN(const bool close, Compare(run, method, share));
      all = all && close;
    }
  }
  return all;
}

int Main(int argc, char** argv) {
  LimitedRun run{.inner_steps = 60, .rounds = 8, .first_measured = 4};
  Flags flags;
  CLI::App app("The planner's utilization beside what runs over links of limited rate measure.");
  app.add_option("--method", flags.methods, "Once for each method");
  app.add_option("--share", flags.shares, "Once for each share of H inner steps that a round's download takes")
      ->check(CLI::Range(0.01, 100.0));
  app.add_option("--step-ms", run.step_milliseconds, "Milliseconds of an inner step")->check(CLI::Range(1, 60'000));
  app.add_option("--inner-steps", run.inner_steps, "H")->check(CLI::Range(1, 10'000));
  app.add_option("--rounds", run.rounds, "Rounds of each run; the first four and the last are not measured")
      ->check(CLI::Range(static_cast<int>(run.first_measured) + 2, 10'000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk) : static_cast<int>(ExitCode::kUsage);
  }
  DILOCO_CHECK(InitLog({.level = "warning"}).ok());
  const absl::StatusOr<bool> passed = Run(run, flags);
  if (!passed.ok()) {
    std::cerr << "plan_benchmark: " << passed.status().message() << '\n';
    return static_cast<int>(ExitCode::kFailure);
  }
  std::cout << absl::StrFormat("all within %.0f points: %s\n", kWithinPoints, *passed ? "yes" : "no");
  return static_cast<int>(*passed ? ExitCode::kOk : ExitCode::kFailure);
}

}  // namespace
}  // namespace diloco::testing

int main(int argc, char** argv) { return diloco::testing::Main(argc, argv); }
