// Closed forms, in a world where every step is linear in the parameters. That the bits are the service's is tested with
// whole processes, in tests/e2e.
#include "worker/simulate/train_simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "tests/support/drift_trainer.h"

namespace diloco {
namespace {

using testing::DriftTrainer;

constexpr int64_t kElements = 300;
constexpr int kRounds = 6;
constexpr int kInnerSteps = 4;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

RunConfig Config(int workers, const std::string& settings) {
  const std::string yaml =
      absl::StrFormat("run: {id: r, workers: %d, rounds: %d}\ninner_steps: %d\neval: {every: 1}\n%s", workers, kRounds,
                      kInnerSteps, settings);
  const absl::StatusOr<RunConfig> config = ParseRunConfig(yaml, "test");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.value_or(RunConfig{});
}

constexpr char kExact[] = "wire: {uplink: fp32, downlink: fp32}\n";

// What the trainers of a run saw.
struct Seen {
  std::vector<std::vector<float>> evaluated;  // By version, from 1.
  std::vector<std::vector<float>> theta;      // By worker, at the end.
};

class WatchedTrainer final : public DriftTrainer {
 public:
  struct Options {
    int seed = 0;
    int64_t nan_at_step = -1;  // After it one parameter is not a number.
  };
  WatchedTrainer(const Options& options, Seen* seen, size_t index)
      : DriftTrainer({.elements = kElements, .tensors = 5, .seed = options.seed}),
        nan_at_step_(options.nan_at_step),
        seen_(*seen),
        index_(index) {}

  absl::StatusOr<StepReport> Step(int64_t step, double rate) override {
    absl::StatusOr<StepReport> report = DriftTrainer::Step(step, rate);
    if (step == nan_at_step_) DILOCO_RETURN_IF_ERROR(WriteParameters(7, {kNaN}));
    report->loss = static_cast<double>(10 * index_) + static_cast<double>(step);
    return report;
  }
  absl::Status ReadParameters(int64_t offset, absl::Span<float> out) override {
    const absl::Status status = DriftTrainer::ReadParameters(offset, out);
    if (static_cast<int64_t>(out.size()) == kElements) seen_.theta[index_].assign(out.begin(), out.end());
    return status;
  }
  absl::StatusOr<EvaluationReport> Evaluate(absl::Span<const float> parameters) override {
    seen_.evaluated.emplace_back(parameters.begin(), parameters.end());
    return EvaluationReport{.loss = 2.5, .tokens = 1};
  }

 private:
  const int64_t nan_at_step_;
  Seen& seen_;
  const size_t index_;
};

struct Outcome {
  Seen seen;
  std::vector<SimulationReport> reports;
  absl::Status status;
};

// Runs with one worker for each entry, named w0, w1, ...
Outcome Simulate(const RunConfig& config, const std::vector<WatchedTrainer::Options>& trainers,
                 const std::atomic<bool>* interrupt = nullptr) {
  Outcome outcome;
  outcome.seen.theta.resize(trainers.size());
  std::vector<SimulatedWorker> workers;
  for (size_t m = 0; m < trainers.size(); ++m) {
    workers.push_back(
        {.id = absl::StrFormat("w%d", m), .trainer = std::make_unique<WatchedTrainer>(trainers[m], &outcome.seen, m)});
  }
  const auto on_report = [&](const SimulationReport& report) {
    outcome.reports.push_back(report);
    return absl::OkStatus();
  };
  const auto simulator =
      TrainSimulator::Create({.interrupt = interrupt, .on_report = on_report}, &config, std::move(workers));
  outcome.status = simulator.ok() ? (*simulator)->Run() : simulator.status();
  return outcome;
}

const std::vector<WatchedTrainer::Options> kTwo = {{.seed = 1}, {.seed = 2}};

// The same averages at every version, to float32's rounding.
void ExpectNear(const Outcome& a, const Outcome& b) {
  ASSERT_TRUE(a.status.ok() && b.status.ok()) << a.status << b.status;
  ASSERT_EQ(a.seen.evaluated.size(), static_cast<size_t>(kRounds));
  ASSERT_EQ(b.seen.evaluated.size(), static_cast<size_t>(kRounds));
  for (size_t v = 0; v < a.seen.evaluated.size(); ++v) {
    for (size_t i = 0; i < a.seen.evaluated[v].size(); ++i) {
      ASSERT_NEAR(a.seen.evaluated[v][i], b.seen.evaluated[v][i], 1e-8) << "version " << v + 1 << " element " << i;
    }
  }
}

void ExpectSameBits(const Outcome& a, const Outcome& b) {
  ASSERT_TRUE(a.status.ok() && b.status.ok()) << a.status << b.status;
  ASSERT_EQ(a.reports.size(), static_cast<size_t>(kRounds));
  for (size_t v = 0; v < a.reports.size(); ++v) EXPECT_EQ(a.reports[v].digests, b.reports[v].digests) << v;
}

TEST(TrainSimulatorTest, OneWorkerGainsNothingFromWaiting) {
  const Outcome diloco = Simulate(Config(1, std::string("method: diloco\n") + kExact), {{.seed = 1}});
  ExpectNear(Simulate(Config(1, std::string("method: eager\n") + kExact), {{.seed = 1}}), diloco);
  ExpectNear(Simulate(Config(1, std::string("method: eager\noverlap: 8\n") + kExact), {{.seed = 1}}), diloco);
  ExpectNear(Simulate(Config(1, std::string("method: eager\nlookahead: {momentum: shared}\n") + kExact), {{.seed = 1}}),
             diloco);
  EXPECT_GT(std::abs(diloco.seen.evaluated.back().front()), 1e-6);
}

TEST(TrainSimulatorTest, IdenticalWorkersForeseeTheAverage) {
  const std::vector<WatchedTrainer::Options> twins = {{.seed = 1}, {.seed = 1}};
  const Outcome diloco = Simulate(Config(2, std::string("method: diloco\n") + kExact), twins);
  for (const std::string momentum : {"own", "shared"}) {
    const std::string eager = "method: eager\nlookahead: {lambda: 1, momentum: " + momentum + "}\n";
    ExpectNear(Simulate(Config(2, eager + kExact), twins), diloco);
    ExpectNear(Simulate(Config(2, eager + "overlap: 12\n" + kExact), twins), diloco);
  }
  // Workers that differ do not.
  const Outcome apart = Simulate(Config(2, std::string("method: diloco\n") + kExact), kTwo);
  EXPECT_NE(apart.reports.back().digests, diloco.reports.back().digests);
}

TEST(TrainSimulatorTest, StreamingThatMixesNothingInTrainsAlone) {
  const Outcome outcome =
      Simulate(Config(2, std::string("method: streaming\nstreaming: {mixing: 1}\n") + kExact), kTwo);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  for (size_t m = 0; m < 2; ++m) {
    DriftTrainer alone({.elements = kElements, .tensors = 5, .seed = kTwo[m].seed});
    for (int64_t step = 0; step < kRounds * kInnerSteps; ++step) ASSERT_TRUE(alone.Step(step, 0).ok());
    std::vector<float> expected(kElements);
    ASSERT_TRUE(alone.ReadParameters(0, absl::MakeSpan(expected)).ok());
    EXPECT_EQ(outcome.seen.theta[m], expected);
  }
}

TEST(TrainSimulatorTest, StreamingOfOneFragmentWithoutOverlapIsDiLoCo) {
  const std::string one = "fragments: {count: 1}\n";
  const Outcome diloco = Simulate(Config(2, "method: diloco\n" + one), kTwo);
  const Outcome streaming = Simulate(Config(2, "method: streaming\noverlap: 0\nstreaming: {mixing: 0}\n" + one), kTwo);
  ExpectSameBits(streaming, diloco);
  EXPECT_EQ(streaming.seen.theta, diloco.seen.theta);
  EXPECT_EQ(diloco.reports.back().replica_distance, 0);
}

TEST(TrainSimulatorTest, ReportsWhatItCounts) {
  RunConfig config = Config(2, "method: eager\n");
  config.eval.every = 4;
  const Outcome outcome = Simulate(config, kTwo);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  ASSERT_EQ(outcome.reports.size(), 2u);
  // An average is applied a round after its boundary.
  const SimulationReport& first = outcome.reports[0];
  EXPECT_EQ(first.version, 4);
  EXPECT_EQ(first.step, 5 * kInnerSteps);
  EXPECT_EQ(first.tokens, (2u + 3u) * 5 * kInnerSteps);  // 1 + seed a step.
  ASSERT_TRUE(first.held_out.has_value());
  EXPECT_EQ(first.held_out->loss, 2.5);
  // Steps 0..19, and 10 more for the second worker.
  EXPECT_EQ(first.training_loss, 9.5 + 5);
  EXPECT_GT(first.replica_distance, 0);
  const SimulationReport& last = outcome.reports[1];
  EXPECT_EQ(last.version, kRounds);
  EXPECT_EQ(last.step, kRounds * kInnerSteps);
  EXPECT_EQ(last.training_loss, 21.5 + 5);  // Steps 20..23.
  EXPECT_EQ(last.digests.size(), 5u);       // A fragment for each of five layers.
}

TEST(TrainSimulatorTest, DistanceIsFromTheMean) {
  const Outcome outcome =
      Simulate(Config(2, std::string("method: streaming\nstreaming: {mixing: 1}\n") + kExact), kTwo);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  double apart = 0;
  double norm = 0;
  for (size_t i = 0; i < kElements; ++i) {
    const double a = outcome.seen.theta[0][i];
    const double b = outcome.seen.theta[1][i];
    apart += (a - b) * (a - b) / 4;
    norm += (a + b) * (a + b) / 4;
  }
  EXPECT_NEAR(outcome.reports.back().replica_distance, std::sqrt(apart / norm), 1e-6);
}

// The others' average counts, and whoever sat out goes on from it.
TEST(TrainSimulatorTest, AnOuterGradientThatIsNotFiniteIsLeftOut) {
  const Outcome outcome =
      Simulate(Config(2, std::string("method: diloco\nouter: {optimizer: sgd, rate: 1}\n") + kExact),
               {{.seed = 1, .nan_at_step = kInnerSteps - 1}, {.seed = 2}});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  DriftTrainer other({.elements = kElements, .tensors = 5, .seed = 2});
  for (int64_t step = 0; step < kInnerSteps; ++step) ASSERT_TRUE(other.Step(step, 0).ok());
  std::vector<float> expected(kElements);
  ASSERT_TRUE(other.ReadParameters(0, absl::MakeSpan(expected)).ok());
  EXPECT_EQ(outcome.seen.evaluated.front(), expected);
  for (const std::vector<float>& consensus : outcome.seen.evaluated) {
    EXPECT_TRUE(std::all_of(consensus.begin(), consensus.end(), [](float value) { return std::isfinite(value); }));
  }
}

TEST(TrainSimulatorTest, ARoundOfNobodyLeavesTheConsensus) {
  const std::vector<WatchedTrainer::Options> both = {{.seed = 1, .nan_at_step = 0}, {.seed = 2, .nan_at_step = 0}};
  const Outcome outcome =
      Simulate(Config(2, std::string("method: diloco\nouter: {optimizer: sgd, rate: 1}\n") + kExact), both);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.seen.evaluated.front(), std::vector<float>(kElements));
  EXPECT_NE(outcome.seen.evaluated.back(), std::vector<float>(kElements));
}

TEST(TrainSimulatorTest, WorkersAreMergedInOrderOfTheirNames) {
  const RunConfig config = Config(3, std::string("method: diloco\n") + kExact);
  const auto digests = [&](std::vector<int> order) {
    std::vector<SimulatedWorker> workers;
    for (const int m : order) {
      workers.push_back({.id = absl::StrFormat("w%d", m),
                         .trainer = std::make_unique<DriftTrainer>(
                             DriftTrainer::Options{.elements = kElements, .tensors = 5, .seed = m})});
    }
    std::vector<Digest> last;
    const auto simulator = TrainSimulator::Create({.on_report =
                                                       [&](const SimulationReport& report) {
                                                         last = report.digests;
                                                         return absl::OkStatus();
                                                       }},
                                                  &config, std::move(workers));
    EXPECT_TRUE(simulator.ok() && (*simulator)->Run().ok());
    return last;
  };
  EXPECT_EQ(digests({2, 0, 1}), digests({0, 1, 2}));
}

TEST(TrainSimulatorTest, LeavesWhenInterrupted) {
  const std::atomic<bool> interrupt = true;
  const Outcome outcome = Simulate(Config(2, ""), kTwo, &interrupt);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(outcome.reports.empty());
}

TEST(TrainSimulatorTest, FragmentsThatDoNotFitTheModelAreRefused) {
  const Outcome outcome = Simulate(Config(2, "method: streaming\nfragments: {layers: [[0], [1]]}\n"), kTwo);
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace diloco
