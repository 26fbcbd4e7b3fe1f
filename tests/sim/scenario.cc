#include "tests/sim/scenario.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/check.h"

namespace diloco::sim {
namespace {

std::string Milliseconds(int64_t count) { return absl::StrCat(count, "ms"); }

std::string DrawMethod(Random& random) {
  const std::string method =
      random.Pick<std::string>({"eager", "eager", "eager", "delayed", "diloco", "streaming", "blend", "data-parallel"});
  std::string yaml = absl::StrCat("method: ", method, "\n");
  const int64_t steps = method == "data-parallel" ? 1 : random.Between(1, 4);
  if (method != "data-parallel") absl::StrAppend(&yaml, "inner_steps: ", steps, "\n");
  if (method == "streaming") {
    absl::StrAppend(&yaml, "overlap: ", random.Between(0, steps - 1), "\n");
  } else if (method == "eager" || method == "delayed" || method == "blend") {
    absl::StrAppend(&yaml, "overlap: ", steps * random.Between(1, 2), "\n");
  }
  std::string optimizer = random.Pick<std::string>({"nesterov", "nesterov", "sgd"});
  if (method == "eager") {
    absl::StrAppend(&yaml, "max_late: ", random.Between(0, 2), "\n");
    const bool shared = random.Chance(0.4);
    absl::StrAppend(&yaml, "lookahead: {lambda: ", random.Pick<std::string>({"share", "1", "0.5"}),
                    ", momentum: ", shared ? "shared" : "own", "}\n");
    if (shared) optimizer = random.Pick<std::string>({"nesterov", "adam", "yogi", "adagrad", "adamw"});
  } else if (method == "delayed" || method == "diloco" || method == "streaming") {
    optimizer = random.Pick<std::string>({"nesterov", "sgd", "adam", "yogi", "adagrad"});
  }
  absl::StrAppend(&yaml, "outer: {");
  if (method != "data-parallel") absl::StrAppend(&yaml, "optimizer: ", optimizer, ", ");
  absl::StrAppend(&yaml, "weights: ", random.Pick<std::string>({"uniform", "tokens"}), "}\n");
  if (method != "data-parallel") {
    const bool spread = (method == "streaming" || method == "eager") && random.Chance(0.4);
    absl::StrAppend(&yaml, "fragments: {count: ", random.Between(1, 3), ", offsets: ", spread ? "spread" : "together",
                    "}\n");
  }
  return yaml;
}

std::string DrawWire(Random& random) {
  const std::initializer_list<std::string> codecs = {"fp32", "bf16", "fp8", "int8", "int4", "e3m0"};
  const std::string uplink = random.Pick(codecs);
  const std::string downlink = random.Pick(codecs);
  const bool up = uplink != "fp32" && random.Chance(0.3);
  const bool down = downlink != "fp32" && random.Chance(0.3);
  const bool rounds = (uplink != "fp32" || downlink != "fp32") && random.Chance(0.3);
  return absl::StrFormat("wire: {uplink: %s, downlink: %s, rounding: %s, error_feedback: %s, connections: %d}\n",
                         uplink, downlink, rounds ? "stochastic" : "nearest",
                         up && down ? "both"
                         : up       ? "uplink"
                         : down     ? "downlink"
                                    : "none",
                         random.Between(1, 3));
}

// How long a round waits for the rest after its quorum.
std::string DrawWaits(Random& random) {
  std::string waits = absl::StrCat("grace_window: ", Milliseconds(random.Between(0, 3000)));
  if (random.Chance(0.4)) {
    const int64_t floor = random.Between(0, 500);
    waits = absl::StrFormat("grace_window: adaptive, grace_floor: %s, grace_cap: %s", Milliseconds(floor),
                            Milliseconds(random.Between(floor, 5000)));
  }
  if (random.Chance(0.3)) absl::StrAppend(&waits, ", timeout: ", Milliseconds(random.Between(100, 5000)));
  return waits;
}

std::string DrawYaml(Random& random, int workers, bool everybody) {
  std::string yaml = absl::StrFormat("run: {id: sim, workers: %d, rounds: %d, seed: %d}\n", workers,
                                     random.Between(3, 20), random.Between(1, 1000));
  absl::StrAppend(&yaml, DrawMethod(random), DrawWire(random));
  const int64_t heartbeat = random.Pick<int64_t>({200, 500, 1000});
  absl::StrAppendFormat(&yaml,
                        "rounds: {quorum: %d, %s, late: %s, heartbeat_interval: %s, lease: %s, "
                        "snapshot_every: %d}\n",
                        everybody || random.Chance(0.4) ? workers : random.Between(1, workers), DrawWaits(random),
                        random.Pick<std::string>({"merge", "drop"}), Milliseconds(heartbeat),
                        Milliseconds(heartbeat * random.Between(3, 8)), random.Between(1, 6));
  absl::StrAppend(&yaml, "eval: {every: ", random.Between(0, 3), "}\n");
  return yaml;
}

WorkerNode::Options DrawWorker(Random& random, int index, int elements, int tensors, bool uneven) {
  WorkerNode::Options options;
  options.id = absl::StrCat("w", index);
  options.trainer = QuadraticTrainer::World(index, elements);
  options.trainer.tensors = tensors;
  options.trainer.tokens = static_cast<uint64_t>(1 + index);
  options.trainer.evaluates = random.Chance(0.9);
  if (random.Chance(0.1)) options.trainer.nan_at_step = random.Between(0, 12);
  const int64_t slowest = uneven ? 400 : 60;
  options.step_time = absl::Milliseconds(random.Between(20, slowest));
  options.chunk_bytes = random.Pick<uint64_t>({65, 130, 1 << 20});
  if (random.Chance(0.5)) options.checkpoint_every = random.Between(1, 3);
  options.checkpoint_time = absl::Milliseconds(random.Pick<int64_t>({1, 20, 500}));
  return options;
}

void LetDiskBeLost(Scenario* scenario) {
  std::erase_if(scenario->faults, [](Fault fault) {
    return fault == Fault::kWorkerKilled || fault == Fault::kWorkerSuspended || fault == Fault::kWorkerAtCheckpoint ||
           fault == Fault::kDrain || fault == Fault::kEvict;
  });
  scenario->faults.insert(scenario->faults.end(), 2, Fault::kDiskLost);
}

}  // namespace

absl::Duration Scenario::Deadline() const {
  const absl::Duration round =
      config.rounds.grace_window.value_or(config.rounds.grace_cap) + 2 * config.rounds.lease + absl::Seconds(30);
  return faults_until + absl::Minutes(10) + round * static_cast<double>(2 * config.run.rounds);
}

Scenario CalmScenario(uint64_t seed, const std::string& yaml, int count) {
  Random random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.yaml = yaml;
  absl::StatusOr<RunConfig> config = ParseRunConfig(yaml, "the scenario");
  if (!config.ok()) fprintf(stderr, "%s\n%s", config.status().ToString().c_str(), yaml.c_str());
  DILOCO_CHECK(config.ok());
  scenario.config = *std::move(config);
  const int tensors = static_cast<int>(random.Between(1, 5));
  const int elements = tensors + static_cast<int>(random.Between(0, 80));
  const bool uneven = random.Chance(0.5);
  for (int i = 0; i < count; ++i) {
    scenario.workers.push_back({.options = DrawWorker(random, i, elements, tensors, uneven),
                                .starts_at = random.Between(absl::ZeroDuration(), absl::Seconds(1)),
                                .region = static_cast<int>(random.Below(2))});
  }
  scenario.disk_time = absl::Milliseconds(random.Pick<int64_t>({1, 5, 40}));
  scenario.pool_time = absl::Milliseconds(random.Pick<int64_t>({1, 5, 40}));
  scenario.link.delay = absl::Milliseconds(random.Pick<int64_t>({0, 2, 40}));
  scenario.link.jitter = absl::Milliseconds(random.Pick<int64_t>({0, 1, 30}));
  return scenario;
}

Scenario BusyScenario(uint64_t seed) {
  Scenario scenario = CalmScenario(seed,
                                   "run: {id: sim, workers: 3, rounds: 12}\n"
                                   "method: eager\ninner_steps: 2\nfragments: {count: 2}\n"
                                   "rounds: {quorum: 1, grace_window: 300ms, heartbeat_interval: 200ms, lease: 800ms, "
                                   "snapshot_every: 2}\neval: {every: 1}\n",
                                   4);
  scenario.workers.back().starts_at = absl::Seconds(3);
  scenario.faults = {Fault::kWorkerKilled, Fault::kWorkerCut, Fault::kDrain,
                     Fault::kEvict,        Fault::kPause,     Fault::kSteer};
  scenario.fault_every = absl::Milliseconds(400);
  scenario.faults_until = absl::Seconds(10);
  scenario.power_cuts = true;
  return scenario;
}

Scenario WeekScenario(uint64_t seed) {
  Scenario scenario = CalmScenario(seed,
                                   "run: {id: sim, workers: 3, rounds: 5040}\n"
                                   "method: eager\ninner_steps: 2\nfragments: {count: 2}\n"
                                   "rounds: {quorum: 2, grace_window: 60s, heartbeat_interval: 30s, lease: 120s, "
                                   "snapshot_every: 10}\neval: {every: 10}\n",
                                   4);
  for (Scenario::Worker& worker : scenario.workers) worker.options.step_time = absl::Seconds(29);
  scenario.faults = {Fault::kCoordinatorAtPoint,
                     Fault::kCoordinatorStopped,
                     Fault::kWorkerKilled,
                     Fault::kWorkerStopped,
                     Fault::kWorkerCut,
                     Fault::kRegionCut,
                     Fault::kSlowReader,
                     Fault::kDiskFull,
                     Fault::kDrain,
                     Fault::kEvict,
                     Fault::kWorkerSuspended,
                     Fault::kWorkerAtCheckpoint,
                     Fault::kCheckpointDamaged,
                     Fault::kPause};
  scenario.fault_every = absl::Minutes(10);
  scenario.faults_until = absl::Hours(24 * 7);
  scenario.power_cuts = true;
  return scenario;
}

Scenario DrawScenario(uint64_t seed) {
  Random random(seed);
  const int workers = static_cast<int>(random.Between(1, 6));
  const bool loses_disk = random.Chance(0.06);
  const int joiners = !loses_disk && random.Chance(0.3) ? static_cast<int>(random.Between(1, 2)) : 0;
  Scenario scenario = CalmScenario(seed, DrawYaml(random, workers, loses_disk), workers + joiners);
  scenario.seed = seed;
  scenario.fault_every = random.Between(absl::Milliseconds(300), absl::Seconds(6));
  scenario.faults_until = random.Between(absl::ZeroDuration(), absl::Seconds(60));
  for (size_t i = static_cast<size_t>(workers); i < scenario.workers.size(); ++i) {
    scenario.workers[i].starts_at = random.Between(absl::Seconds(1), absl::Seconds(30));
  }
  if (random.Chance(0.05)) return scenario;  // None at all.
  const double share = random.Pick<double>({0.1, 0.3, 0.6});
  for (int fault = 0; fault < kFaults; ++fault) {
    if (random.Chance(share)) scenario.faults.push_back(static_cast<Fault>(fault));
  }
  if (loses_disk) LetDiskBeLost(&scenario);
  scenario.power_cuts = random.Chance(0.5);
  if (random.Chance(share)) scenario.link.break_chance = random.Pick<double>({0.001, 0.01, 0.05});
  if (random.Chance(share)) scenario.link.half_open_chance = 0.5;
  if (random.Chance(share)) scenario.service.duplicate_chance = random.Pick<double>({0.01, 0.2});
  if (random.Chance(share)) scenario.service.corrupt_chance = random.Pick<double>({0.01, 0.1});
  if (random.Chance(0.5)) scenario.service.subscriber_queue_bytes = random.Pick<uint64_t>({500, 2000});
  return scenario;
}

}  // namespace diloco::sim
