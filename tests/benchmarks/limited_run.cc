#include "tests/benchmarks/limited_run.h"

#include <memory>
#include <thread>

#include "absl/strings/str_format.h"

#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "tests/support/coordinator_process.h"
#include "tests/support/drift_trainer.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/temp_folder.h"
#include "worker/loop/run_worker.h"

namespace diloco::testing {
namespace {

absl::StatusOr<LimitedFigures> RunOneWorker(const LimitedRun& run, int worker, int coordinator_port) {
  TcpProxy link(coordinator_port);
  const auto moved = [&link] { return static_cast<double>(link.upstream_bytes() + link.downstream_bytes()); };
  const SteadyClock clock;
  const int64_t first_step = run.first_measured * run.inner_steps;
  const int64_t last_step = (run.rounds - 1) * run.inner_steps;
  MonotonicTime began;
  int64_t began_step = 0;
  double moved_before = 0;
  LimitedFigures figures;
  WorkerOptions options;
  options.coordinator = link.address();
  options.worker_id = absl::StrFormat("w%d", worker);
  options.on_stop = [&](const StopReport& stop) {
    if (stop.step <= run.inner_steps) {
      link.SetRate(run.link_rate);  // Seed and snapshot went freely.
    }
    if (stop.step <= first_step) {
      began = clock.Now();
      began_step = stop.step;
      moved_before = moved();
    } else if (stop.step <= last_step) {
      figures.blocked_seconds += stop.blocked_seconds;
      figures.wall_seconds = absl::ToDoubleSeconds(clock.Now() - began);
      figures.steps = static_cast<double>(stop.step - began_step);
      figures.bytes_per_round = (moved() - moved_before) / figures.steps * static_cast<double>(run.inner_steps);
    } else {
      link.SetRate(0);
    }
  };
  DILOCO_RETURN_IF_ERROR(RunWorker(options, [&](const RunConfig&) {
    return std::make_unique<DriftTrainer>(
        DriftTrainer::Options{.elements = run.elements,
                              .tensors = run.fragments,
                              .seed = worker,
                              .step_time = absl::Milliseconds(run.step_milliseconds)});
  }));
  return figures;
}

}  // namespace

absl::StatusOr<std::vector<LimitedFigures>> RunLimited(const LimitedRun& run) {
  const std::string overlap = run.overlap == 0 ? "" : absl::StrFormat("overlap: %d\n", run.overlap);
  const TempFolder folder;
  CoordinatorProcess coordinator(
      folder.path(), absl::StrFormat("run: {id: limited, workers: %d, rounds: %d}\n"
                                     "method: %s\n"
                                     "inner_steps: %d\n"
                                     "%s"
                                     "max_late: %d\n"
                                     "fragments: {count: %d}\n"
                                     "wire: {uplink: %s, downlink: %s}\n",
                                     run.workers, run.rounds, run.method, run.inner_steps, overlap, run.max_late,
                                     run.fragments, run.uplink, run.downlink));
  DILOCO_RETURN_IF_ERROR(coordinator.Start());
  std::vector<absl::StatusOr<LimitedFigures>> results(static_cast<size_t>(run.workers));
  std::vector<std::thread> threads;
  for (int m = 0; m < run.workers; ++m) {
    threads.emplace_back([&, m] { results[static_cast<size_t>(m)] = RunOneWorker(run, m, coordinator.port()); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::vector<LimitedFigures> figures;
  for (const absl::StatusOr<LimitedFigures>& result : results) {
    DILOCO_RETURN_IF_ERROR(result.status());
    figures.push_back(*result);
  }
  return figures;
}

}  // namespace diloco::testing
