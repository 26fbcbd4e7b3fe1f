// What methods must have in common, whatever the numbers: several workers in one process, each with the outer loop that
// it has in a run, on losses that are sums of quadratics.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/schedule/inner_schedule.h"
#include "common/schedule/outer_schedule.h"
#include "worker/outer/boundary.h"
#include "worker/outer/fragment_outer.h"

namespace diloco {
namespace {

using Floats = std::vector<float>;

constexpr size_t kSize = 6;
constexpr float kTolerance = 3e-6f;
// The last half decays.
const std::vector<ElementRange> kDecayed = {{.offset = 3, .count = 3}};

// One sequence of a batch: loss 0.5 * sum_i curvature_i * (theta_i - minimum_i)^2.
struct Example {
  Floats curvature;
  Floats minimum;
};

Example MakeExample(int seed) {
  Example example;
  for (size_t i = 0; i < kSize; ++i) {
    const auto x = static_cast<float>(static_cast<size_t>(seed) * kSize + i);
    example.curvature.push_back(0.7f + 0.5f * std::sin(x));
    example.minimum.push_back(2.0f * std::cos(3.0f * x));
  }
  return example;
}

using Batch = std::vector<Example>;

// Of the mean loss of a batch.
Floats GradientOf(const Batch& batch, const Floats& theta) {
  Floats gradient(kSize, 0.0f);
  for (const Example& example : batch) {
    for (size_t i = 0; i < kSize; ++i) {
      gradient[i] += example.curvature[i] * (theta[i] - example.minimum[i]) / static_cast<float>(batch.size());
    }
  }
  return gradient;
}

// How many averages a worker has applied after its boundary of `round`.
using Applied = std::function<int64_t(int64_t round, size_t worker)>;

Applied AllOfThem() {
  return [](int64_t round, size_t) { return round + 1; };
}
Applied OneRoundLate() {
  return [](int64_t round, size_t) { return round; };
}
// Up to four rounds late, a different lateness for each worker and round.
Applied Irregular() {
  return [](int64_t round, size_t worker) {
    constexpr int64_t kApplied[3][8] = {{0, 1, 1, 3, 3, 4, 6, 7}, {0, 0, 0, 0, 4, 4, 4, 7}, {0, 1, 2, 3, 4, 5, 6, 7}};
    return kApplied[worker % 3][round];
  };
}

class Worker {
 public:
  Worker(const RunConfig& config, Batch batch)
      : config_(config),
        method_(*FindMethod(config.method)),
        batch_(std::move(batch)),
        theta_(kSize, 1.0f),
        anchor_(theta_),
        outer_({.method = &method_,
                .lookahead = config.lookahead,
                .blend = config.blend,
                .next_scalars = ComputeStepScalars(config, 0, 0, config.run.workers)},
               Consensus(FindOuterOptimizer(config.outer.optimizer), theta_, kDecayed)) {}

  // Trains a round with plain SGD, or not at all, and returns what it contributes.
  Floats Train(int64_t round) {
    if (method_.payload == Payload::kGradient) {
      fresh_ = GradientOf(batch_, theta_);
      return fresh_;
    }
    for (int64_t i = 0; i < config_.inner_steps; ++i) {
      const int64_t step = round * config_.inner_steps + i;
      const auto rate = static_cast<float>(InnerRate(config_.inner, config_.run.rounds * config_.inner_steps, step));
      const Floats gradient = GradientOf(batch_, theta_);
      StepFromBase(theta_, rate, gradient, absl::MakeSpan(theta_));
    }
    fresh_.resize(kSize);
    EXPECT_TRUE(TakeOuterGradient(anchor_, theta_, absl::MakeSpan(fresh_)));
    return fresh_;
  }

  // The boundary of `round`, with the first `applied` averages, each of which merged what this worker sent.
  void Finish(int64_t round, int64_t applied, const std::vector<Floats>& averages,
              const std::vector<StepScalars>& scalars) {
    while (outer_.consensus().version() < applied) {
      const int64_t next = outer_.consensus().version();
      const std::vector<OwnSettlement> settled = {
          {.round = next, .digest = DigestFor(next), .merged = true, .weight = 1}};
      ASSERT_TRUE(outer_.Apply(scalars[static_cast<size_t>(next)], averages[static_cast<size_t>(next)], settled).ok());
    }
    const FragmentOuter::Staged staged = outer_.Stage();
    staged.LookAhead(fresh_, absl::MakeSpan(theta_));
    anchor_ = theta_;
    if (applied <= round) {
      outer_.Contribute({.round = round, .digest = DigestFor(round), .lambda = staged.lambda, .decoded = fresh_});
    }
  }

  const Floats& theta() const { return theta_; }

 private:
  static Digest DigestFor(int64_t round) { return {1, static_cast<uint64_t>(round)}; }

  const RunConfig& config_;
  const Method& method_;
  Batch batch_;
  Floats theta_;
  Floats anchor_;
  Floats fresh_;
  FragmentOuter outer_;
};

constexpr int64_t kRounds = 8;

RunConfig Config(size_t workers, const std::string& lines) {
  return ParseRunConfig(absl::StrFormat("run: {id: a, workers: %d, rounds: %d}\n%s\n", workers, kRounds, lines), "test")
      .value();
}

// theta[round][worker].
std::vector<std::vector<Floats>> Train(const std::vector<Batch>& batches, const std::string& lines,
                                       const Applied& applied) {
  const RunConfig config = Config(batches.size(), lines);
  std::vector<Worker> workers;
  for (const Batch& batch : batches) workers.emplace_back(config, batch);
  std::vector<Floats> averages;
  std::vector<StepScalars> scalars;
  std::vector<std::vector<Floats>> history;
  for (int64_t round = 0; round < kRounds; ++round) {
    Floats average(kSize, 0.0f);
    for (Worker& worker : workers) {
      const Floats fresh = worker.Train(round);
      for (size_t i = 0; i < kSize; ++i) average[i] += fresh[i] / static_cast<float>(workers.size());
    }
    const double norm = std::sqrt(std::inner_product(average.begin(), average.end(), average.begin(), 0.0));
    averages.push_back(average);
    scalars.push_back(ComputeStepScalars(config, round, norm, static_cast<double>(workers.size())));
    history.emplace_back();
    for (size_t m = 0; m < workers.size(); ++m) {
      workers[m].Finish(round, applied(round, m), averages, scalars);
      history.back().push_back(workers[m].theta());
    }
  }
  return history;
}

void ExpectNear(const Floats& actual, const Floats& expected, const std::string& what) {
  for (size_t i = 0; i < kSize; ++i) {
    EXPECT_NEAR(actual[i], expected[i], kTolerance * std::max(1.0f, std::abs(expected[i])))
        << what << ", element " << i;
  }
}

// Every worker of `runs` is where the first worker of `expected` is.
void ExpectAll(const std::vector<std::vector<Floats>>& actual, const std::vector<std::vector<Floats>>& expected,
               const std::string& what) {
  for (size_t round = 0; round < actual.size(); ++round) {
    for (const Floats& theta : actual[round]) {
      ExpectNear(theta, expected[round][0], absl::StrFormat("%s, round %d", what, round));
    }
  }
}

constexpr char kInner[] = "inner_steps: 5\ninner: {rate: 0.1, warmup_steps: 3}\n";

// `outer` sections that fit eager with shared momentum.
constexpr const char* kOuters[] = {"{optimizer: nesterov, rate: 0.4, momentum: 0.9}",
                                   "{optimizer: sgd, rate: 0.8}",
                                   "{optimizer: adam, rate: 0.05}",
                                   "{optimizer: yogi, rate: 0.05, beta1: 0.5}",
                                   "{optimizer: adagrad, rate: 0.1}",
                                   "{optimizer: adamw, rate: 0.05, beta2: 0.9}"};

std::vector<std::string> MomentaFor(const std::string& outer) {
  const bool linear = outer.find("nesterov") != std::string::npos || outer.find("sgd") != std::string::npos;
  return linear ? std::vector<std::string>{"own", "shared"} : std::vector<std::string>{"shared"};
}

TEST(ClosedFormsTest, OneEagerWorkerIsBlockingDiloco) {
  const std::vector<Batch> batches = {{MakeExample(1), MakeExample(2)}};
  for (const std::string outer : kOuters) {
    const auto diloco = Train(batches, absl::StrFormat("%smethod: diloco\nouter: %s", kInner, outer), AllOfThem());
    for (const std::string& momentum : MomentaFor(outer)) {
      const std::string lines = absl::StrFormat("%smethod: eager\nlookahead: {lambda: share, momentum: %s}\nouter: %s",
                                                kInner, momentum, outer);
      ExpectAll(Train(batches, lines, OneRoundLate()), diloco, outer + momentum);
      ExpectAll(Train(batches, lines, Irregular()), diloco, outer + momentum + " late");
    }
  }
}

TEST(ClosedFormsTest, IdenticalEagerWorkersAreBlockingDilocoHoweverLate) {
  const std::vector<Batch> batches(3, {MakeExample(4)});
  for (const std::string outer : kOuters) {
    const auto diloco = Train(batches, absl::StrFormat("%smethod: diloco\nouter: %s", kInner, outer), AllOfThem());
    for (const std::string& momentum : MomentaFor(outer)) {
      const std::string lines =
          absl::StrFormat("%smethod: eager\nlookahead: {lambda: 1, momentum: %s}\nouter: %s", kInner, momentum, outer);
      ExpectAll(Train(batches, lines, Irregular()), diloco, outer + momentum);
    }
  }
}

// The mean of the blending workers follows alpha * D(t) + (1 - alpha) * D(t - 1), so that one worker with alpha 1 is
// blocking, and with alpha 0 delayed.
TEST(ClosedFormsTest, BlendLiesBetweenBlockingAndDelayed) {
  const std::vector<Batch> batches = {{MakeExample(1)}};
  const auto blend = [&](const char* alpha) {
    return Train(batches, absl::StrFormat("%smethod: blend\nblend: {alpha: %s}", kInner, alpha), OneRoundLate());
  };
  ExpectAll(blend("1"), Train(batches, absl::StrFormat("%smethod: diloco", kInner), AllOfThem()), "alpha 1");
  // `delayed` measures from the consensus, which is where theta was set at the boundary before.
  ExpectAll(blend("0"), Train(batches, absl::StrFormat("%smethod: delayed", kInner), OneRoundLate()), "alpha 0");
}

TEST(ClosedFormsTest, DataParallelWorkersAreOneWithTheirBatchesTogether) {
  const Batch all = {MakeExample(1), MakeExample(2), MakeExample(3), MakeExample(4)};
  const std::vector<Batch> apart = {{all[0]}, {all[1]}, {all[2]}, {all[3]}};
  for (const char* outer : {"adamw", "sgd", "nesterov", "adam"}) {
    const std::string lines = absl::StrFormat(
        "method: data-parallel\nouter: {optimizer: %s}\ninner: {rate: 0.1, warmup_steps: 3, clip: 0.5}", outer);
    ExpectAll(Train(apart, lines, AllOfThem()), Train({all}, lines, AllOfThem()), outer);
  }
}

TEST(ClosedFormsTest, DilocoOfOneSgdStepIsDataParallelSgd) {
  const std::vector<Batch> batches = {{MakeExample(1)}, {MakeExample(2), MakeExample(3)}};
  const std::string inner = "inner: {rate: 0.1, warmup_steps: 3, clip: 0, weight_decay: 0}\n";
  ExpectAll(Train(batches, inner + "method: diloco\ninner_steps: 1\nouter: {optimizer: sgd, rate: 1}", AllOfThem()),
            Train(batches, inner + "method: data-parallel\nouter: {optimizer: sgd}", AllOfThem()), "sgd");
}

// AdamW of Loshchilov and Hutter with warm-up, cosine and clipping, in double precision.
TEST(ClosedFormsTest, DataParallelFollowsAdamW) {
  const Batch batch = {MakeExample(1), MakeExample(2)};
  const RunConfig config = Config(1, "method: data-parallel\ninner: {rate: 0.1, warmup_steps: 3, clip: 0.5}");
  const auto actual =
      Train({batch}, "method: data-parallel\ninner: {rate: 0.1, warmup_steps: 3, clip: 0.5}", AllOfThem());
  std::vector<double> theta(kSize, 1.0);
  std::vector<double> mean(kSize, 0.0);
  std::vector<double> square(kSize, 0.0);
  int clipped = 0;
  for (int step = 0; step < kRounds; ++step) {
    std::vector<double> gradient(kSize, 0.0);
    for (size_t i = 0; i < kSize; ++i) {
      for (const Example& example : batch) {
        gradient[i] +=
            static_cast<double>(example.curvature[i]) * (theta[i] - static_cast<double>(example.minimum[i])) / 2;
      }
    }
    const double norm = std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
    clipped += norm > 0.5 ? 1 : 0;
    const double rate = InnerRate(config.inner, kRounds, step);
    for (size_t i = 0; i < kSize; ++i) {
      const double g = norm > 0.5 ? gradient[i] * 0.5 / norm : gradient[i];
      mean[i] = 0.9 * mean[i] + 0.1 * g;
      square[i] = 0.99 * square[i] + 0.01 * g * g;
      const double corrected_mean = mean[i] / (1 - std::pow(0.9, step + 1));
      const double corrected_square = square[i] / (1 - std::pow(0.99, step + 1));
      if (i >= 3) theta[i] -= rate * 0.1 * theta[i];
      theta[i] -= rate * corrected_mean / (std::sqrt(corrected_square) + 1e-8);
    }
    ExpectNear(actual[static_cast<size_t>(step)][0], Floats(theta.begin(), theta.end()),
               absl::StrFormat("step %d", step));
  }
  EXPECT_GT(clipped, 0);
}

}  // namespace
}  // namespace diloco
