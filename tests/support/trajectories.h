// Trajectories of the outer loop, computed in double precision by an independent program, and the quadratic world that
// they live in: worker m minimises 0.5 * sum_i a[m][i] * (theta_i - c[m][i])^2 with plain SGD.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/config/run_config.h"
#include "tests/support/saved_doubles.h"
#include "worker/trainer/trainer.h"

namespace diloco::testing {

using Vector = std::vector<double>;

struct Trajectory {
  int index = 0;  // In the file.
  std::string method;
  int workers = 0;
  int size = 0;
  int64_t inner_steps = 0;
  int64_t rounds = 0;
  double inner_rate = 0;
  double rate = 0;      // Outer.
  double momentum = 0;  // Outer.
  double alpha = 0;     // Of `blend`.
  std::optional<double> lambda;
  bool shared_momentum = false;
  // `streaming`. Fragments are lists of elements.
  double mixing = 0;
  int64_t overlap = 0;
  std::vector<std::vector<int>> fragments;
  std::vector<int64_t> offsets;

  // The world: curvature a and minimum c by worker, and the start.
  std::vector<Vector> curvature;
  std::vector<Vector> minimum;
  Vector start;

  // What must come out. theta[round][worker]; consensus[r] holds the averages up to round r - 1, empty if not given.
  // `streaming`: theta[step - 1][worker] and consensus[step - 1] after that step and what is received at it.
  std::vector<std::vector<Vector>> theta;
  std::vector<Vector> consensus;

  // applied[round][worker]: averages that the worker has applied at that boundary. Empty: in lockstep.
  std::vector<std::vector<int64_t>> applied;
  // merged[round]: workers whose contribution the average merged. Empty: all.
  std::vector<std::vector<int>> merged;

  bool lockstep() const { return applied.empty(); }
  bool streaming() const { return !fragments.empty(); }
  // The run that this trajectory describes, with a fixed schedule and fp32 both ways.
  RunConfig Config() const;
  // The same as a file.
  std::string ConfigYaml(const std::string& run_id) const;

  // Names the case in a test's output.
  friend void PrintTo(const Trajectory& trajectory, std::ostream* out) {
    *out << trajectory.method << trajectory.index;
  }
};

// The trajectories of `path` whose method this project has. Errors: kNotFound, kInvalidArgument.
absl::StatusOr<std::vector<Trajectory>> LoadTrajectories(const std::string& path);

// $DILOCO_VECTORS, or the copy in the source tree.
std::string TrajectoriesPath();

// Largest difference allowed in a round: 2e-6 of its largest magnitude.
double Tolerance(const std::vector<Vector>& round);

// The trainer of worker `worker` in the world of `trajectory`: one tensor of `size` elements; `streaming`: as many
// tensors, each a layer.
class QuadraticTrainer : public Trainer {
 public:
  QuadraticTrainer(const Trajectory& trajectory, int worker);

  std::vector<TensorSpec> Tensors() const override;
  void SetLayout(const Layout& layout) override;
  absl::StatusOr<StepReport> Step(int64_t step, double /*rate*/) override;
  absl::StatusOr<StepReport> ComputeGradient(int64_t step, absl::Span<float> out) override;
  absl::Status ReadParameters(int64_t offset, absl::Span<float> out) override;
  absl::Status WriteParameters(int64_t offset, absl::Span<const float> parameters) override;
  void ResetInnerOptimizer() override {}
  absl::StatusOr<TrainerState> SaveState() override { return SaveDoubles(theta_); }
  absl::Status LoadState(TrainerState state) override { return LoadDoubles(std::move(state), &theta_); }
  absl::StatusOr<EvaluationReport> Evaluate(absl::Span<const float> parameters) override;

  // In the order of the world, whatever the layout.
  const Vector& theta() const { return theta_; }

 private:
  double Loss() const;

  bool layers_;                   // Each element is one.
  std::vector<size_t> elements_;  // At each place of the flat vector.
  Vector curvature_;
  Vector minimum_;
  double rate_;
  Vector theta_;  // Rounded to float32 at boundaries only.
};

}  // namespace diloco::testing
