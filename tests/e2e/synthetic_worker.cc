// A worker on the real client with a trainer that needs no model: the quadratic world of a trajectory file, or a
// deterministic drift of any size and speed. For tests and load; `--trace` writes what happened, one JSON line each.
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/base/exit_code.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "nlohmann/json.hpp"
#include "tests/support/drift_trainer.h"
#include "tests/support/trajectories.h"
#include "worker/loop/run_worker.h"

namespace diloco::testing {
namespace {

std::atomic<bool> interrupted = false;

struct Flags {
  std::string coordinator;
  std::string id;
  std::string run_id;
  std::string vectors;
  size_t trajectory = 0;
  int worker = 0;
  int64_t elements = 0;
  int tensors = 1;
  int64_t step_milliseconds = 0;
  int64_t nan_at_round = -1;
  std::string trace;
  std::string log_level = "info";
};

// Theta in the trace of models up to this size.
constexpr size_t kTracedElements = 4096;

// Another trainer whose first parameter, or gradient, becomes NaN in the last step of one round.
class PoisonedTrainer final : public Trainer {
 public:
  PoisonedTrainer(std::unique_ptr<Trainer> inner, int64_t nan_at_step)
      : inner_(std::move(inner)), nan_at_step_(nan_at_step) {}

  std::vector<TensorSpec> Tensors() const override { return inner_->Tensors(); }
  void SetLayout(const Layout& layout) override { inner_->SetLayout(layout); }
  absl::StatusOr<StepReport> Step(int64_t step) override {
    poisoned_ = poisoned_ || step == nan_at_step_;
    return inner_->Step(step);
  }
  absl::StatusOr<StepReport> ComputeGradient(int64_t step, absl::Span<float> out) override {
    DILOCO_ASSIGN_OR_RETURN(const StepReport report, inner_->ComputeGradient(step, out));
    if (step == nan_at_step_) {
      out.front() = std::numeric_limits<float>::quiet_NaN();
    }
    return report;
  }
  absl::Status ReadParameters(int64_t offset, absl::Span<float> out) override {
    DILOCO_RETURN_IF_ERROR(inner_->ReadParameters(offset, out));
    if (offset == 0 && std::exchange(poisoned_, false)) {
      out.front() = std::numeric_limits<float>::quiet_NaN();
    }
    return absl::OkStatus();
  }
  absl::Status WriteParameters(int64_t offset, absl::Span<const float> p) override {
    return inner_->WriteParameters(offset, p);
  }
  void ResetInnerOptimizer() override { inner_->ResetInnerOptimizer(); }
  absl::StatusOr<EvaluationReport> Evaluate(absl::Span<const float> p) override { return inner_->Evaluate(p); }

 private:
  std::unique_ptr<Trainer> inner_;
  const int64_t nan_at_step_;
  bool poisoned_ = false;
};

// A worker of a trajectory's world that says, before each step, what its parameters are.
class SteppingTrainer final : public QuadraticTrainer {
 public:
  SteppingTrainer(const Trajectory& trajectory, int worker, std::function<void(int64_t, const Vector&)> on_step)
      : QuadraticTrainer(trajectory, worker), on_step_(std::move(on_step)) {}

  absl::StatusOr<StepReport> Step(int64_t step) override {
    if (on_step_) on_step_(step, theta());
    return QuadraticTrainer::Step(step);
  }

 private:
  std::function<void(int64_t, const Vector&)> on_step_;
};

absl::StatusOr<std::unique_ptr<Trainer>> MakeTrainer(const Flags& flags, const RunConfig& config,
                                                     std::function<void(int64_t, const Vector&)> on_step) {
  std::unique_ptr<Trainer> trainer;
  if (flags.vectors.empty()) {
    trainer =
        std::make_unique<DriftTrainer>(DriftTrainer::Options{.elements = flags.elements,
                                                             .tensors = flags.tensors,
                                                             .seed = flags.worker,
                                                             .step_time = absl::Milliseconds(flags.step_milliseconds)});
  } else {
    DILOCO_ASSIGN_OR_RETURN(const std::vector<Trajectory> trajectories, LoadTrajectories(flags.vectors));
    for (const Trajectory& trajectory : trajectories) {
      if (trajectory.index == static_cast<int>(flags.trajectory)) {
        trainer = std::make_unique<SteppingTrainer>(trajectory, flags.worker, std::move(on_step));
      }
    }
    if (trainer == nullptr) {
      return absl::InvalidArgumentError(flags.vectors + " has no case " + std::to_string(flags.trajectory) +
                                        " of a method that this program has");
    }
  }
  if (flags.nan_at_round >= 0) {
    const int64_t last_step = (flags.nan_at_round + 1) * config.inner_steps - 1;
    trainer = std::make_unique<PoisonedTrainer>(std::move(trainer), last_step);
  }
  return trainer;
}

// Lines from the training thread and from the sync thread.
class Trace {
 public:
  explicit Trace(const std::string& path) : out_(path) {}
  void Write(const nlohmann::json& line) {
    MutexLock lock(&mutex_);
    out_ << line.dump() << std::endl;
  }

 private:
  Mutex mutex_;
  std::ofstream out_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Run(const Flags& flags) {
  WorkerOptions options;
  options.coordinator = flags.coordinator;
  options.worker_id = flags.id;
  options.run_id = flags.run_id;
  options.interrupt = &interrupted;
  std::unique_ptr<Trace> trace;
  if (!flags.trace.empty()) {
    trace = std::make_unique<Trace>(flags.trace);
    options.on_stop = [&trace](const StopReport& report) {
      nlohmann::json line = {{"event", "boundary"},
                             {"round", report.round},
                             {"next_round", report.next_round},
                             {"version", report.version},
                             {"finite", report.finite},
                             {"waited", report.waited},
                             {"blocked_seconds", report.blocked_seconds}};
      if (report.theta.size() <= kTracedElements) {
        line["theta"] = std::vector<float>(report.theta.begin(), report.theta.end());
      }
      trace->Write(line);
    };
    options.on_consensus = [&trace](int fragment, int64_t version, const Digest& digest) {
      trace->Write({{"event", "consensus"}, {"fragment", fragment}, {"version", version}, {"digest", digest.Hex()}});
    };
  }
  std::function<void(int64_t, const Vector&)> on_step;
  if (trace) {
    on_step = [&trace](int64_t step, const Vector& theta) {
      trace->Write({{"event", "step"}, {"step", step}, {"parameters", theta}});
    };
  }
  WorkerStatus last;
  options.on_progress = [&last](const WorkerStatus& status) { last = status; };
  DILOCO_RETURN_IF_ERROR(
      RunWorker(options, [&](const RunConfig& config) { return MakeTrainer(flags, config, on_step); }));
  if (trace) {
    trace->Write({{"event", "end"},
                  {"version", last.version},
                  {"step", last.step},
                  {"rounds_skipped", last.rounds_skipped},
                  {"outer_gradients_not_finite", last.outer_gradients_not_finite},
                  {"blocked_seconds", last.blocked_seconds},
                  {"wall_seconds", last.wall_seconds},
                  {"uploaded_bytes", last.uploaded_bytes},
                  {"downloaded_bytes", last.downloaded_bytes},
                  {"reconnects", last.Reconnects()}});
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("A diloco worker with a synthetic trainer, for tests and load.");
  app.add_option("--coordinator", flags.coordinator, "HOST:PORT")->required();
  app.add_option("--id", flags.id, "Worker id")->required();
  app.add_option("--run", flags.run_id, "Run id; default: whatever run the coordinator has");
  auto* vectors = app.add_option("--vectors", flags.vectors, "Trajectory file whose world is trained in");
  app.add_option("--case", flags.trajectory, "Index of the trajectory in the file")->needs(vectors);
  app.add_option("--worker", flags.worker, "Which worker of the world, or seed of the drift");
  auto* elements = app.add_option("--elements", flags.elements, "Parameters of a drifting model instead")
                       ->check(CLI::PositiveNumber)
                       ->excludes(vectors);
  app.add_option("--tensors", flags.tensors, "Tensors of the drifting model, each a layer")
      ->check(CLI::PositiveNumber)
      ->needs(elements);
  app.add_option("--step-ms", flags.step_milliseconds, "Milliseconds that a step takes at least")->needs(elements);
  app.add_option("--nan-at-round", flags.nan_at_round, "Round whose outer gradient is not finite");
  app.add_option("--trace", flags.trace, "File for JSON lines");
  app.add_option("--log-level", flags.log_level, std::string(kLogLevels));
  try {
    app.parse(argc, argv);
    if (flags.vectors.empty() && flags.elements == 0) {
      throw CLI::RequiredError("--vectors or --elements");
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk) : static_cast<int>(ExitCode::kUsage);
  }
  std::signal(SIGINT, [](int) { interrupted = true; });
  std::signal(SIGTERM, [](int) { interrupted = true; });
  absl::Status status = InitLog(flags.log_level);
  if (status.ok()) {
    status = Run(flags);
  }
  if (!status.ok()) {
    std::cerr << "synthetic_worker: " << status.message() << '\n';
  }
  return static_cast<int>(ExitCodeFor(status));
}

}  // namespace
}  // namespace diloco::testing

int main(int argc, char** argv) { return diloco::testing::Main(argc, argv); }
