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
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

#include "CLI/CLI.hpp"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"
#include "common/log/log.h"
#include "tests/support/coordinator_process.h"
#include "tests/support/drift_trainer.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/temp_folder.h"
#include "worker/loop/run_worker.h"

namespace diloco::testing {
namespace {

constexpr int kWorkers = 2;
constexpr int kFragments = 8;
constexpr int64_t kElements = 1 << 20;
// Rounds before this one are warm-up: seed, snapshot, full buckets at the proxies.
constexpr int64_t kFirstMeasured = 2;

constexpr double kEagerAbove = 0.95;
constexpr double kBlockingBelow = 0.75;
constexpr double kShareAtLeast = 0.5;
constexpr double kShareAtMost = 0.8;

struct Flags {
  int64_t step_milliseconds = 100;
  int64_t inner_steps = 30;
  int64_t rounds = 12;
  double share = 0.65;

  double RoundSeconds() const { return static_cast<double>(step_milliseconds * inner_steps) / 1e3; }
};

// Of the measured rounds of one worker.
struct Figures {
  double wall_seconds = 0;
  double blocked_seconds = 0;
  double share = 0;  // Bytes up and down at the link's rate, as a share of H inner steps.

  double utilization() const { return 1 - blocked_seconds / wall_seconds; }
};

// Bytes a second, each way, that carry a round's upload and then its download in `share` of H inner steps.
uint64_t LinkRate(const Flags& flags) {
  const uint64_t payload = FindCodec("e3m0")->encoded_bytes(kElements) + FindCodec("int8")->encoded_bytes(kElements);
  return static_cast<uint64_t>(static_cast<double>(payload) / (flags.share * flags.RoundSeconds()));
}

absl::StatusOr<Figures> RunOneWorker(const Flags& flags, int worker, int coordinator_port) {
  TcpProxy link(coordinator_port);
  const uint64_t rate = LinkRate(flags);
  const auto moved = [&link] { return static_cast<double>(link.upstream_bytes() + link.downstream_bytes()); };
  const SteadyClock clock;
  MonotonicTime began;
  double moved_before = 0;
  Figures figures;
  WorkerOptions options;
  options.coordinator = link.address();
  options.worker_id = absl::StrFormat("w%d", worker);
  options.on_stop = [&](const StopReport& report) {
    if (report.round < kFirstMeasured) {
      began = clock.Now();
      moved_before = moved();
      link.SetRate(rate);  // Seed and snapshot went freely.
      return;
    }
    figures.blocked_seconds += report.blocked_seconds;
    figures.wall_seconds = absl::ToDoubleSeconds(clock.Now() - began);
    const auto rounds = static_cast<double>(report.round + 1 - kFirstMeasured);
    figures.share = (moved() - moved_before) / rounds / static_cast<double>(rate) / flags.RoundSeconds();
    if (report.next_round == flags.rounds) {
      link.SetRate(0);
    }
  };
  DILOCO_RETURN_IF_ERROR(RunWorker(options, [&](const RunConfig&) {
    return std::make_unique<DriftTrainer>(
        DriftTrainer::Options{.elements = kElements,
                              .tensors = kFragments,
                              .seed = worker,
                              .step_time = absl::Milliseconds(flags.step_milliseconds)});
  }));
  return figures;
}

absl::StatusOr<std::vector<Figures>> RunMethod(const Flags& flags, const std::string& method) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(),
                                 absl::StrFormat("run: {id: utilization, workers: %d, rounds: %d}\n"
                                                 "method: %s\n"
                                                 "inner_steps: %d\n"
                                                 "max_late: 0\n"
                                                 "fragments: {count: %d}\nwire: {uplink: e3m0, downlink: int8}\n",
                                                 kWorkers, flags.rounds, method, flags.inner_steps, kFragments));
  DILOCO_RETURN_IF_ERROR(coordinator.Start());
  std::vector<absl::StatusOr<Figures>> results(kWorkers);
  std::vector<std::thread> threads;
  for (int m = 0; m < kWorkers; ++m) {
    threads.emplace_back([&, m] { results[static_cast<size_t>(m)] = RunOneWorker(flags, m, coordinator.port()); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::vector<Figures> figures;
  for (const absl::StatusOr<Figures>& result : results) {
    DILOCO_RETURN_IF_ERROR(result.status());
    figures.push_back(*result);
  }
  return figures;
}

// Prints the figures of `method`. True: every worker's are what `good` wants, over the link that was asked for.
template <typename Good>
absl::StatusOr<bool> Report(const Flags& flags, const std::string& method, const Good& good) {
  DILOCO_ASSIGN_OR_RETURN(const std::vector<Figures> workers, RunMethod(flags, method));
  bool all = true;
  for (size_t m = 0; m < workers.size(); ++m) {
    const Figures& figures = workers[m];
    std::cout << absl::StrFormat(
                     "%-7s w%d: utilization %5.1f %%, blocked %.2f s of %.2f s, transfers %.2f of H steps\n", method, m,
                     100 * figures.utilization(), figures.blocked_seconds, figures.wall_seconds, figures.share)
              << std::flush;
    all = all && good(figures.utilization()) && figures.share >= kShareAtLeast && figures.share <= kShareAtMost;
  }
  return all;
}

absl::StatusOr<bool> Run(const Flags& flags) {
  std::cout << absl::StrFormat(
      "%d workers, %d parameters, e3m0 up, int8 down, H = %d steps of %d ms, links of %d bytes/s each way, rounds %d "
      "to "
      "%d\n",
      kWorkers, kElements, flags.inner_steps, flags.step_milliseconds, LinkRate(flags), kFirstMeasured,
      flags.rounds - 1);
  DILOCO_ASSIGN_OR_RETURN(const bool eager, Report(flags, "eager", [](double u) { return u > kEagerAbove; }));
  DILOCO_ASSIGN_OR_RETURN(const bool blocking, Report(flags, "diloco", [](double u) { return u < kBlockingBelow; }));
  return eager && blocking;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Utilization of the eager and the blocking method over links of limited rate.");
  app.add_option("--step-ms", flags.step_milliseconds, "Milliseconds of an inner step")->check(CLI::Range(1, 60'000));
  app.add_option("--inner-steps", flags.inner_steps, "H")->check(CLI::Range(1, 10'000));
  app.add_option("--rounds", flags.rounds, "Rounds of each run; the first two are not measured")
      ->check(CLI::Range(static_cast<int>(kFirstMeasured) + 1, 10'000));
  app.add_option("--share", flags.share, "Share of H inner steps that a round's transfers take")
      ->check(CLI::Range(kShareAtLeast, kShareAtMost));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk) : static_cast<int>(ExitCode::kUsage);
  }
  DILOCO_CHECK(InitLog("warning").ok());
  const absl::StatusOr<bool> passed = Run(flags);
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
