// The outer loop against trajectories that an independent program computed in double precision: several workers in one
// process, each with its own FragmentOuter, in lockstep and late.
#include "tests/support/trajectories.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/outer/consensus.h"
#include "common/schedule/outer_schedule.h"
#include "tests/support/paths.h"
#include "worker/outer/boundary.h"
#include "worker/outer/fragment_outer.h"
#include "worker/outer/schedule.h"

namespace diloco {
namespace {

using testing::QuadraticTrainer;
using testing::Trajectory;
using Floats = std::vector<float>;

// What a coordinator would publish for one round: a mean in float32, and who is in it.
struct Round {
  Floats average;
  std::vector<int> merged;
};

class LocalWorker {
 public:
  LocalWorker(const Trajectory& trajectory, const RunConfig& config, int index)
      : index_(index),
        method_(FindMethod(trajectory.method)),
        trainer_(trajectory, index),
        theta_(static_cast<size_t>(trajectory.size)),
        outer_({.method = method_,
                .lookahead = config.lookahead,
                .blend = config.blend,
                .next_scalars = ComputeStepScalars(config, 0, 0, config.run.workers)},
               Consensus(FindOuterOptimizer("nesterov"), Start(trajectory))) {
    anchor_ = Start(trajectory);
    scalars_ = ComputeStepScalars(config, 0, 0, config.run.workers);
  }

  // Trains a round and returns its outer gradient.
  const Floats& Train(int64_t inner_steps) {
    for (int64_t i = 0; i < inner_steps; ++i) EXPECT_TRUE(trainer_.Step(i, 0).ok());
    EXPECT_TRUE(trainer_.ReadParameters(0, absl::MakeSpan(theta_)).ok());
    gradients_.emplace_back(theta_.size());
    EXPECT_TRUE(TakeOuterGradient(anchor_, theta_, absl::MakeSpan(gradients_.back())));
    return gradients_.back();
  }

  // The boundary of `round` with the first `applied` averages.
  void FinishRound(int64_t round, int64_t applied, const std::vector<Round>& rounds) {
    while (outer_.consensus().version() < applied) {
      const int64_t next = outer_.consensus().version();
      const Round& published = rounds[static_cast<size_t>(next)];
      const bool in = std::count(published.merged.begin(), published.merged.end(), index_) > 0;
      const std::vector<OwnSettlement> settled = {
          {.round = next, .digest = DigestFor(next), .merged = in, .weight = in ? 1.0 : 0.0}};
      ASSERT_TRUE(outer_.Apply(scalars_, published.average, settled).ok());
    }
    const FragmentOuter::Staged staged = outer_.Stage();
    const Floats& gradient = gradients_.back();
    staged.LookAhead(gradient, absl::MakeSpan(theta_));
    ASSERT_TRUE(trainer_.WriteParameters(0, theta_).ok());
    anchor_ = method_->anchor == Anchor::kOwn ? theta_ : staged.base;
    // The average of this very round settles it at once when there is no overlap.
    if (applied <= round) {
      outer_.Contribute({.round = round, .digest = DigestFor(round), .lambda = staged.lambda, .decoded = gradient});
    }
  }

  const Floats& theta() const { return theta_; }
  const Consensus& consensus() const { return outer_.consensus(); }

 private:
  static Floats Start(const Trajectory& trajectory) { return {trajectory.start.begin(), trajectory.start.end()}; }
  static Digest DigestFor(int64_t round) { return {1, static_cast<uint64_t>(round)}; }

  int index_;
  const Method* method_;
  QuadraticTrainer trainer_;
  Floats theta_;
  Floats anchor_;
  std::vector<Floats> gradients_;
  StepScalars scalars_;
  FragmentOuter outer_;
};

Floats Mean(const std::vector<const Floats*>& vectors) {
  Floats mean(vectors.front()->size(), 0.0f);
  for (const Floats* vector : vectors) {
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += (*vector)[i] / static_cast<float>(vectors.size());
  }
  return mean;
}

void ExpectNear(const Floats& actual, const testing::Vector& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance) << what << " element " << i;
  }
}

std::vector<Trajectory> Trajectories(bool streaming) {
  absl::StatusOr<std::vector<Trajectory>> trajectories = testing::LoadTrajectories(testing::TrajectoriesPath());
  if (!trajectories.ok()) {
    ADD_FAILURE() << trajectories.status();
    return {};
  }
  std::erase_if(*trajectories, [&](const Trajectory& trajectory) { return trajectory.streaming() != streaming; });
  return *std::move(trajectories);
}

TEST(TrajectoriesTest, CopyInTheTreeHoldsEveryMethodOfOuterGradients) {
  const absl::StatusOr<std::vector<Trajectory>> loaded =
      testing::LoadTrajectories(testing::SourcePath("tests/worker/outer/vectors.json"));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::vector<Trajectory>& trajectories = *loaded;
  for (const Method& method : Methods()) {
    if (method.payload != Payload::kOuterGradient) continue;
    EXPECT_TRUE(std::any_of(trajectories.begin(), trajectories.end(), [&](const Trajectory& trajectory) {
      return trajectory.method == method.name;
    })) << method.name;
  }
}

class TrajectoryTest : public ::testing::TestWithParam<Trajectory> {};

TEST_P(TrajectoryTest, OuterLoopFollowsIt) {
  const Trajectory& trajectory = GetParam();
  const RunConfig config = trajectory.Config();
  const Schedule schedule(config, 1);
  std::vector<LocalWorker> workers;
  for (int m = 0; m < trajectory.workers; ++m) workers.emplace_back(trajectory, config, m);
  std::vector<Round> rounds;
  for (int64_t t = 0; t < trajectory.rounds; ++t) {
    const size_t at = static_cast<size_t>(t);
    std::vector<const Floats*> gradients;
    for (LocalWorker& worker : workers) gradients.push_back(&worker.Train(trajectory.inner_steps));
    Round round;
    for (int m = 0; m < trajectory.workers; ++m) {
      if (trajectory.merged.empty() || std::count(trajectory.merged[at].begin(), trajectory.merged[at].end(), m) > 0) {
        round.merged.push_back(m);
      }
    }
    std::vector<const Floats*> in;
    for (const int m : round.merged) in.push_back(gradients[static_cast<size_t>(m)]);
    round.average = Mean(in);
    rounds.push_back(std::move(round));
    const double tolerance = testing::Tolerance(trajectory.theta[at]);
    for (int m = 0; m < trajectory.workers; ++m) {
      LocalWorker& worker = workers[static_cast<size_t>(m)];
      const int64_t applied =
          trajectory.lockstep() ? schedule.Plan(t, t).required : trajectory.applied[at][static_cast<size_t>(m)];
      worker.FinishRound(t, applied, rounds);
      ExpectNear(worker.theta(), trajectory.theta[at][static_cast<size_t>(m)], tolerance,
                 absl::StrFormat("round %d worker %d theta", t, m));
      if (!trajectory.consensus.empty()) {
        const Floats parameters(worker.consensus().parameters().begin(), worker.consensus().parameters().end());
        ExpectNear(parameters, trajectory.consensus[static_cast<size_t>(applied)], tolerance,
                   absl::StrFormat("round %d worker %d consensus", t, m));
        EXPECT_EQ(worker.consensus().version(), applied);
      }
    }
  }
}

std::string CaseName(const ::testing::TestParamInfo<Trajectory>& parameter) {
  return absl::StrFormat("%s%d", parameter.param.method, parameter.param.index);
}

INSTANTIATE_TEST_SUITE_P(Cases, TrajectoryTest, ::testing::ValuesIn(Trajectories(/*streaming=*/false)), CaseName);

// One fragment of all workers, in lockstep: what the schedule says, with one average for everybody.
class StreamedFragment {
 public:
  StreamedFragment(const RunConfig& config, const Schedule& schedule, int fragment, FragmentRange range, Floats start)
      : schedule_(schedule),
        fragment_(fragment),
        range_(range),
        mixing_(static_cast<float>(config.streaming.mixing)),
        scalars_(ComputeStepScalars(config, 0, 0, config.run.workers)),
        outer_({.method = FindMethod(config.method), .next_scalars = scalars_},
               Consensus(FindOuterOptimizer("nesterov"), start)),
        anchor_(std::move(start)),
        next_(schedule.FirstAfter(fragment, 0, 0)) {}

  void StopAt(int64_t step, std::vector<QuadraticTrainer>* trainers) {
    for (; next_ && next_->step == step; next_ = schedule_.Next(fragment_, *next_, 0)) {
      if (next_->takes) Take(trainers);
      if (next_->sets) Set(trainers);
    }
  }
  const FragmentRange& range() const { return range_; }
  absl::Span<const float> consensus() const { return outer_.consensus().parameters(); }

 private:
  void Take(std::vector<QuadraticTrainer>* trainers) {
    std::vector<Floats> gradients;
    for (QuadraticTrainer& trainer : *trainers) {
      Floats theta(anchor_.size());
      ASSERT_TRUE(trainer.ReadParameters(range_.offset, absl::MakeSpan(theta)).ok());
      gradients.emplace_back(theta.size());
      ASSERT_TRUE(TakeOuterGradient(anchor_, theta, absl::MakeSpan(gradients.back())));
    }
    std::vector<const Floats*> all;
    for (const Floats& gradient : gradients) all.push_back(&gradient);
    average_ = Mean(all);
  }
  void Set(std::vector<QuadraticTrainer>* trainers) {
    ASSERT_EQ(schedule_.Plan(next_->round, outer_.consensus().version() + 1).required,
              outer_.consensus().version() + 1);
    ASSERT_TRUE(outer_.Apply(scalars_, average_, {}).ok());
    anchor_ = outer_.Stage().base;
    for (QuadraticTrainer& trainer : *trainers) {
      Floats theta(anchor_.size());
      ASSERT_TRUE(trainer.ReadParameters(range_.offset, absl::MakeSpan(theta)).ok());
      Mix(mixing_, anchor_, absl::MakeSpan(theta));
      ASSERT_TRUE(trainer.WriteParameters(range_.offset, theta).ok());
    }
  }

  const Schedule& schedule_;
  const int fragment_;
  const FragmentRange range_;
  const float mixing_;
  const StepScalars scalars_;
  FragmentOuter outer_;
  Floats anchor_;
  Floats average_;
  std::optional<Stop> next_;
};

class StreamingTrajectoryTest : public ::testing::TestWithParam<Trajectory> {};

TEST_P(StreamingTrajectoryTest, FragmentsFollowIt) {
  const Trajectory& trajectory = GetParam();
  const RunConfig config = trajectory.Config();
  std::vector<QuadraticTrainer> trainers;
  for (int m = 0; m < trajectory.workers; ++m) trainers.emplace_back(trajectory, m);
  const absl::StatusOr<Layout> layout = Layout::Cut(trainers[0].Tensors(), config.fragments.cut);
  ASSERT_TRUE(layout.ok()) << layout.status();
  for (QuadraticTrainer& trainer : trainers) trainer.SetLayout(*layout);
  const Schedule schedule(config, layout->fragment_count());
  std::vector<StreamedFragment> fragments;
  for (int f = 0; f < layout->fragment_count(); ++f) {
    const FragmentRange& range = layout->fragments()[static_cast<size_t>(f)];
    Floats start(static_cast<size_t>(range.count));
    ASSERT_TRUE(trainers[0].ReadParameters(range.offset, absl::MakeSpan(start)).ok());
    fragments.emplace_back(config, schedule, f, range, std::move(start));
  }
  for (size_t step = 0; step < trajectory.theta.size(); ++step) {
    for (QuadraticTrainer& trainer : trainers) ASSERT_TRUE(trainer.Step(static_cast<int64_t>(step), 0).ok());
    for (StreamedFragment& fragment : fragments) fragment.StopAt(static_cast<int64_t>(step) + 1, &trainers);
    const double tolerance = testing::Tolerance(trajectory.theta[step]);
    for (size_t m = 0; m < trainers.size(); ++m) {
      for (size_t i = 0; i < trainers[m].theta().size(); ++i) {
        EXPECT_NEAR(trainers[m].theta()[i], trajectory.theta[step][m][i], tolerance)
            << "step " << step + 1 << " worker " << m << " element " << i;
      }
    }
    for (const StreamedFragment& fragment : fragments) {
      for (const TensorPlacement& place : layout->placements()) {
        const int64_t at = place.offset - fragment.range().offset;
        if (at < 0 || at >= fragment.range().count) continue;
        EXPECT_NEAR(fragment.consensus()[static_cast<size_t>(at)],
                    trajectory.consensus[step][static_cast<size_t>(place.tensor)], tolerance)
            << "step " << step + 1 << " element " << place.tensor;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, StreamingTrajectoryTest, ::testing::ValuesIn(Trajectories(/*streaming=*/true)),
                         CaseName);

}  // namespace
}  // namespace diloco
