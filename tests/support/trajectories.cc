#include "tests/support/trajectories.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/base/check.h"
#include "common/outer/method.h"
#include "nlohmann/json.hpp"
#include "tests/support/paths.h"

namespace diloco::testing {
namespace {

using Json = nlohmann::json;

// A case's settings override the file's defaults.
template <typename T>
T Setting(const Json& file, const Json& config, const char* key) {
  return config.value(key, file.at("defaults").at(key).get<T>());
}

Trajectory ReadCase(const Json& file, const Json& entry, int index) {
  const Json& config = entry.at("config");
  Trajectory trajectory;
  trajectory.index = index;
  trajectory.method = entry.at("method");
  trajectory.workers = Setting<int>(file, config, "workers");
  trajectory.size = Setting<int>(file, config, "size");
  trajectory.inner_steps = Setting<int64_t>(file, config, "inner_steps");
  trajectory.rounds = Setting<int64_t>(file, config, "rounds");
  trajectory.inner_rate = Setting<double>(file, config, "inner_rate");
  trajectory.rate = Setting<double>(file, config, "eta");
  trajectory.momentum = Setting<double>(file, config, "mu");
  trajectory.alpha = Setting<double>(file, config, "alpha");
  if (config.contains("lam")) trajectory.lambda = config.at("lam").get<double>();
  trajectory.shared_momentum = config.value("momentum", "own") == "shared";
  if (trajectory.method == "streaming") {
    trajectory.mixing = Setting<double>(file, config, "alpha");
    trajectory.overlap = Setting<int64_t>(file, config, "overlap");
    trajectory.fragments = Setting<std::vector<std::vector<int>>>(file, config, "fragments");
    trajectory.offsets = Setting<std::vector<int64_t>>(file, config, "offsets");
    // One more round than the steps fill, so that none of them is the run's last, which ends early.
    trajectory.rounds = Setting<int64_t>(file, config, "steps") / trajectory.inner_steps + 2;
  }
  const int seed = Setting<int>(file, config, "seed");
  for (const Json& world : file.at("worlds")) {
    if (world.at("workers") == trajectory.workers && world.at("size") == trajectory.size && world.at("seed") == seed) {
      trajectory.curvature = world.at("a").get<std::vector<Vector>>();
      trajectory.minimum = world.at("c").get<std::vector<Vector>>();
      trajectory.start = world.at("theta").get<Vector>();
    }
  }
  trajectory.theta = entry.at("theta").get<std::vector<std::vector<Vector>>>();
  if (entry.contains("consensus")) trajectory.consensus = entry.at("consensus").get<std::vector<Vector>>();
  if (entry.contains("applied")) trajectory.applied = entry.at("applied").get<std::vector<std::vector<int64_t>>>();
  if (entry.contains("merged")) trajectory.merged = entry.at("merged").get<std::vector<std::vector<int>>>();
  return trajectory;
}

}  // namespace

absl::StatusOr<std::vector<Trajectory>> LoadTrajectories(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) return absl::NotFoundError(absl::StrFormat("%s: cannot read the trajectories", path));
  std::vector<Trajectory> trajectories;
  try {
    const Json file = Json::parse(stream);
    int index = 0;
    for (const Json& entry : file.at("cases")) {
      if (FindMethod(entry.at("method").get<std::string>()) != nullptr) {
        trajectories.push_back(ReadCase(file, entry, index));
        if (trajectories.back().start.empty()) {
          return absl::InvalidArgumentError(absl::StrFormat("%s: case %d has no world", path, index));
        }
      }
      ++index;
    }
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: %s", path, error.what()));
  }
  if (trajectories.empty()) return absl::InvalidArgumentError(absl::StrFormat("%s: no trajectory to run", path));
  return trajectories;
}

std::string TrajectoriesPath() {
  const char* path = std::getenv("DILOCO_VECTORS");
  return path != nullptr && *path != '\0' ? path : SourcePath("tests/worker/outer/vectors.json");
}

double Tolerance(const std::vector<Vector>& round) {
  double largest = 0;
  for (const Vector& values : round) {
    for (const double value : values) largest = std::max(largest, std::abs(value));
  }
  return 2e-6 * largest;
}

RunConfig Trajectory::Config() const {
  absl::StatusOr<RunConfig> config = ParseRunConfig(ConfigYaml("trajectory"), "trajectory");
  DILOCO_CHECK(config.ok());
  return *std::move(config);
}

std::string Trajectory::ConfigYaml(const std::string& run_id) const {
  std::string yaml = absl::StrFormat(
      "run: {id: %s, workers: %d, rounds: %d}\n"
      "method: %s\n"
      "inner_steps: %d\n"
      "max_late: 0\n"
      "outer: {optimizer: nesterov, rate: %.17g, momentum: %.17g}\n"
      "wire: {uplink: fp32, downlink: fp32}\n"
      "rounds: {heartbeat_interval: 200ms, lease: 20s}\n",
      run_id, workers, rounds, method, inner_steps, rate, momentum);
  if (method == "eager") {
    yaml += absl::StrFormat("lookahead: {lambda: %s, momentum: %s}\n",
                            lambda.has_value() ? absl::StrFormat("%.17g", *lambda) : "share",
                            shared_momentum ? "shared" : "own");
  }
  if (streaming()) {
    const auto list = [](std::string* out, const std::vector<int>& elements) {
      absl::StrAppendFormat(out, "[%s]", absl::StrJoin(elements, ", "));
    };
    yaml += absl::StrFormat("overlap: %d\nstreaming: {mixing: %.17g}\nfragments: {layers: [%s], offsets: [%s]}\n",
                            overlap, mixing, absl::StrJoin(fragments, ", ", list), absl::StrJoin(offsets, ", "));
  }
  if (method == "blend") yaml += absl::StrFormat("blend: {alpha: %.17g}\n", alpha);
  return yaml;
}

QuadraticTrainer::QuadraticTrainer(const Trajectory& trajectory, int worker)
    : layers_(trajectory.streaming()),
      curvature_(trajectory.curvature.at(static_cast<size_t>(worker))),
      minimum_(trajectory.minimum.at(static_cast<size_t>(worker))),
      rate_(trajectory.inner_rate) {
  for (const double value : trajectory.start) theta_.push_back(static_cast<float>(value));
  elements_.resize(theta_.size());
  std::iota(elements_.begin(), elements_.end(), size_t{0});
}

std::vector<TensorSpec> QuadraticTrainer::Tensors() const {
  if (!layers_) return {{.name = "theta", .shape = {static_cast<int64_t>(theta_.size())}}};
  std::vector<TensorSpec> tensors;
  for (int layer = 0; layer < static_cast<int>(theta_.size()); ++layer) {
    tensors.push_back({.name = absl::StrFormat("theta%d", layer), .shape = {1}, .layer = layer});
  }
  return tensors;
}

void QuadraticTrainer::SetLayout(const Layout& layout) {
  DILOCO_CHECK(layout.element_count() == static_cast<int64_t>(theta_.size()));
  for (const TensorPlacement& placement : layout.placements()) {
    if (layers_) elements_[static_cast<size_t>(placement.offset)] = static_cast<size_t>(placement.tensor);
  }
}

double QuadraticTrainer::Loss() const {
  double loss = 0;
  for (size_t i = 0; i < theta_.size(); ++i) {
    loss += 0.5 * curvature_[i] * (theta_[i] - minimum_[i]) * (theta_[i] - minimum_[i]);
  }
  return loss;
}

absl::StatusOr<StepReport> QuadraticTrainer::Step(int64_t /*step*/, double /*rate*/) {
  const StepReport report{.loss = Loss(), .tokens = 1};
  for (size_t i = 0; i < theta_.size(); ++i) theta_[i] -= rate_ * curvature_[i] * (theta_[i] - minimum_[i]);
  return report;
}

absl::StatusOr<StepReport> QuadraticTrainer::ComputeGradient(int64_t /*step*/, absl::Span<float> out) {
  for (size_t at = 0; at < theta_.size(); ++at) {
    const size_t i = elements_[at];
    out[at] = static_cast<float>(curvature_[i] * (theta_[i] - minimum_[i]));
  }
  return StepReport{.loss = Loss(), .tokens = 1};
}

absl::Status QuadraticTrainer::ReadParameters(int64_t offset, absl::Span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<float>(theta_[elements_.at(static_cast<size_t>(offset) + i)]);
  }
  return absl::OkStatus();
}

absl::Status QuadraticTrainer::WriteParameters(int64_t offset, absl::Span<const float> parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    theta_[elements_.at(static_cast<size_t>(offset) + i)] = parameters[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<EvaluationReport> QuadraticTrainer::Evaluate(absl::Span<const float> parameters) {
  Vector mine(parameters.size());
  for (size_t at = 0; at < parameters.size(); ++at) mine[elements_[at]] = parameters[at];
  theta_.swap(mine);
  const EvaluationReport report{.loss = Loss(), .tokens = 1};
  theta_.swap(mine);
  return report;
}

}  // namespace diloco::testing
