#include "tests/sim/runner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "tests/sim/cluster.h"

namespace diloco::sim {
namespace {

std::string DescribeFailure(const Cluster& cluster, Shim shim) {
  std::string command =
      absl::StrFormat("build/bin/diloco-sim --first-seed %d --seeds 1 --verbose", cluster.scenario().seed);
  for (const NamedShim& each : kShims) {
    if (each.shim == shim) absl::StrAppendFormat(&command, " --shim %s", each.name);
  }
  return absl::StrFormat("seed %d breaks a rule after %s of simulated time: %s\n\n%s\n%s\n\nagain: %s",
                         cluster.scenario().seed, absl::FormatDuration(cluster.loop().Elapsed()),
                         cluster.auditor().failure(), cluster.scenario().yaml,
                         absl::StrJoin(cluster.auditor().notes(), "\n"), command);
}

}  // namespace

std::string RunnerResult::Summary() const {
  const std::string figures = absl::StrFormat(
      "%d seeds, %d events, %d global deltas, %d contributions merged, %d deaths of the coordinator, %d lost disks, "
      "%.0f s of "
      "simulated time in %.1f s; memory at most %.0f %% and %.0f %% of what the coordinator and a worker may hold",
      seeds, events, global_deltas, contributions_merged, coordinator_deaths, disks_lost, simulated_seconds, seconds,
      100 * coordinator_memory, 100 * worker_memory);
  return failure.empty() ? figures : absl::StrCat(failure, "\n\n", figures);
}

RunnerResult RunSeeds(const RunnerOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  RunnerResult result;
  for (uint64_t seed = options.first_seed; seed < options.first_seed + options.seeds && result.failure.empty();
       ++seed) {
    Cluster cluster(DrawScenario(seed), options.shim);
    cluster.Run();
    ++result.seeds;
    result.events += cluster.loop().events();
    result.global_deltas += cluster.auditor().deltas();
    result.contributions_merged += cluster.auditor().merged();
    result.coordinator_deaths += cluster.coordinator().deaths();
    result.disks_lost += cluster.disks_lost();
    result.simulated_seconds += absl::ToDoubleSeconds(cluster.loop().Elapsed());
    result.coordinator_memory = std::max(result.coordinator_memory, cluster.CoordinatorMemory().share());
    result.worker_memory = std::max(result.worker_memory, cluster.WorkerMemory().share());
    if (cluster.auditor().failed()) {
      result.failed_seed = seed;
      result.failure = DescribeFailure(cluster, options.shim);
    }
    if (options.verbose) {
      const MemoryUse coordinator = cluster.CoordinatorMemory();
      const MemoryUse worker = cluster.WorkerMemory();
      std::printf("seed %d: %d events, %s, the coordinator has held %d of %d bytes, a worker %d of %d\n%s%s\n",
                  static_cast<int>(seed), static_cast<int>(cluster.loop().events()),
                  absl::FormatDuration(cluster.loop().Elapsed()).c_str(), static_cast<int>(coordinator.held),
                  static_cast<int>(coordinator.bound), static_cast<int>(worker.held), static_cast<int>(worker.bound),
                  cluster.scenario().yaml.c_str(), absl::StrJoin(cluster.auditor().notes(), "\n").c_str());
    }
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace diloco::sim
