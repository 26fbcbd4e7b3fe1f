#include "worker/trainer/torch_trainer.h"

#include <dlfcn.h>
#include <torch/cuda.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <torch/version.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/trainer/inner_optimizer.h"
#include "worker/trainer/model.h"
#include "worker/trainer/transformer.h"

namespace diloco {
namespace {

// Runs `function`, which returns a Status or StatusOr; LibTorch's exceptions end here.
template <typename Function>
auto WithoutExceptions(Function function) -> decltype(function()) {
  try {
    return function();
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat("LibTorch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("LibTorch: ", error.what()));
  }
}

torch::Tensor HostView(absl::Span<float> values) {
  return torch::from_blob(values.data(), {static_cast<int64_t>(values.size())}, torch::kFloat32);
}

// LibTorch's own setting does not reach an OpenBLAS that was built with threads of its own.
void SetThreads(int threads) {
  at::set_num_threads(threads);
  using Setter = void (*)(int);
  if (const auto set = reinterpret_cast<Setter>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads")); set != nullptr) {
    set(threads);
  }
}

class TorchTrainer final : public Trainer {
 public:
  TorchTrainer(const RunConfig& config, Batches batches, TorchTrainerOptions options)
      : config_(config),
        model_section_(*config.model),
        batches_(std::move(batches)),
        options_(std::move(options)),
        device_(options_.device) {
    SetThreads(options_.threads);
  }

  std::vector<TensorSpec> Tensors() const override { return TransformerTensors(model_section_); }
  void SetLayout(const Layout& layout) override;
  absl::StatusOr<StepReport> Step(int64_t step, double rate) override {
    return WithoutExceptions([&] { return TakeStep(step, rate); });
  }
  absl::StatusOr<StepReport> ComputeGradient(int64_t step, absl::Span<float> out) override;
  absl::Status ReadParameters(int64_t offset, absl::Span<float> out) override;
  absl::Status WriteParameters(int64_t offset, absl::Span<const float> parameters) override;
  void ResetInnerOptimizer() override { optimizer_->Reset(); }
  absl::StatusOr<TrainerState> SaveState() override {
    return WithoutExceptions([&]() -> absl::StatusOr<TrainerState> { return optimizer_->Save(); });
  }
  absl::Status LoadState(TrainerState state) override {
    return WithoutExceptions([&] { return optimizer_->Load(std::move(state)); });
  }
  absl::StatusOr<EvaluationReport> Evaluate(absl::Span<const float> parameters) override {
    return WithoutExceptions([&] { return EvaluateAt(parameters); });
  }

 private:
  // Inputs and targets of some windows, on the device, [windows, sequence] int64.
  struct Batch {
    torch::Tensor inputs;
    torch::Tensor targets;
  };

  std::vector<float> InitialParameters(const Layout& layout);
  int64_t MicroBatch() const { return config_.inner.batch_size / config_.inner.accumulation; }
  Batch ToBatch(const std::vector<uint16_t>& tokens) const;
  // Leaves the gradient of the step's batch in gradient_.
  absl::StatusOr<StepReport> Differentiate(int64_t step);
  absl::StatusOr<StepReport> TakeStep(int64_t step, double rate);
  absl::StatusOr<EvaluationReport> EvaluateAt(absl::Span<const float> parameters);
  absl::StatusOr<EvaluationReport> HeldOutLoss() const;

  const RunConfig config_;
  const ModelSection model_section_;
  const Batches batches_;
  TorchTrainerOptions options_;
  const torch::Device device_;
  // The flat vector of the layout and its gradient; the model's tensors are views of them, so one operation does for
  // all where names do not matter.
  torch::Tensor theta_;
  torch::Tensor gradient_;
  std::optional<Model> model_;
  std::unique_ptr<InnerOptimizer> optimizer_;
};

void TorchTrainer::SetLayout(const Layout& layout) {
  const torch::NoGradGuard no_grad;
  std::vector<float> initial = InitialParameters(layout);
  theta_ = HostView(absl::MakeSpan(initial)).to(device_, /*non_blocking=*/false, /*copy=*/true);
  gradient_ = torch::zeros_like(theta_);
  std::vector<torch::Tensor> parameters;
  std::vector<torch::Tensor> decayed;
  for (const TensorPlacement& placement : layout.placements()) {
    const TensorSpec& spec = layout.tensors()[static_cast<size_t>(placement.tensor)];
    const auto view = [&](const torch::Tensor& flat) {
      return flat.narrow(0, placement.offset, placement.count).view(spec.shape);
    };
    torch::Tensor parameter = view(theta_).requires_grad_(true);
    parameter.mutable_grad() = view(gradient_);  // Which backward passes then add to.
    parameters.push_back(parameter);
    if (spec.decay) {
      decayed.push_back(view(theta_));
    }
  }
  model_.emplace(model_section_, parameters, device_);
  optimizer_ = MakeInnerOptimizer(config_.inner, theta_, gradient_, std::move(decayed));
}

std::vector<float> TorchTrainer::InitialParameters(const Layout& layout) {
  std::vector<float> flat(static_cast<size_t>(layout.element_count()));
  size_t given = 0;
  for (const TensorPlacement& placement : layout.placements()) {
    const absl::Span<float> out =
        absl::MakeSpan(flat).subspan(static_cast<size_t>(placement.offset), static_cast<size_t>(placement.count));
    if (options_.initial.empty()) {
      FillInitialValues(model_section_, layout.tensors()[static_cast<size_t>(placement.tensor)], config_.run.seed, out);
    } else {
      DILOCO_CHECK(given + out.size() <= options_.initial.size());
      std::copy_n(options_.initial.begin() + static_cast<ptrdiff_t>(given), out.size(), out.begin());
      given += out.size();
    }
  }
  options_.initial = {};
  return flat;
}

absl::StatusOr<StepReport> TorchTrainer::ComputeGradient(int64_t step, absl::Span<float> out) {
  return WithoutExceptions([&]() -> absl::StatusOr<StepReport> {
    DILOCO_ASSIGN_OR_RETURN(const StepReport report, Differentiate(step));
    HostView(out).copy_(gradient_);
    return report;
  });
}

absl::Status TorchTrainer::ReadParameters(int64_t offset, absl::Span<float> out) {
  return WithoutExceptions([&] {
    const torch::NoGradGuard no_grad;
    HostView(out).copy_(theta_.narrow(0, offset, static_cast<int64_t>(out.size())));
    return absl::OkStatus();
  });
}

absl::Status TorchTrainer::WriteParameters(int64_t offset, absl::Span<const float> parameters) {
  return WithoutExceptions([&] {
    const torch::NoGradGuard no_grad;
    // LibTorch has no view of constant memory; this one is only read.
    const torch::Tensor from = HostView(absl::MakeSpan(const_cast<float*>(parameters.data()), parameters.size()));
    theta_.narrow(0, offset, from.numel()).copy_(from);
    return absl::OkStatus();
  });
}

TorchTrainer::Batch TorchTrainer::ToBatch(const std::vector<uint16_t>& tokens) const {
  std::vector<int64_t> wide(tokens.begin(), tokens.end());
  const int64_t window = model_section_.sequence + 1;
  const torch::Tensor all =
      torch::from_blob(wide.data(), {static_cast<int64_t>(wide.size()) / window, window}, torch::kInt64)
          .to(device_, /*non_blocking=*/false, /*copy=*/true);
  return {.inputs = all.narrow(1, 0, window - 1), .targets = all.narrow(1, 1, window - 1)};
}

absl::StatusOr<StepReport> TorchTrainer::Differentiate(int64_t step) {
  const int accumulation = config_.inner.accumulation;
  std::vector<uint16_t> tokens(static_cast<size_t>(MicroBatch() * (model_section_.sequence + 1)));
  gradient_.zero_();
  torch::Tensor loss_sum = torch::zeros({}, device_);
  for (int part = 0; part < accumulation; ++part) {
    DILOCO_RETURN_IF_ERROR(batches_.ReadTraining(step, part * MicroBatch(), absl::MakeSpan(tokens)));
    const Batch batch = ToBatch(tokens);
    const ModelLoss loss = LossOf(model_->Forward(batch.inputs), batch.targets);
    // The parts are equally large, so the mean over the batch is the mean of theirs.
    ((loss.cross_entropy + model_section_.z_loss * loss.z_loss) / accumulation).backward();
    loss_sum += loss.cross_entropy.detach();
  }
  return StepReport{
      .loss = loss_sum.item<double>() / accumulation,
      .tokens = static_cast<uint64_t>(config_.inner.batch_size) * static_cast<uint64_t>(model_section_.sequence)};
}

absl::StatusOr<StepReport> TorchTrainer::TakeStep(int64_t step, double rate) {
  DILOCO_ASSIGN_OR_RETURN(const StepReport report, Differentiate(step));
  optimizer_->Step(rate);
  return report;
}

absl::StatusOr<EvaluationReport> TorchTrainer::EvaluateAt(absl::Span<const float> parameters) {
  if (batches_.evaluation_windows() == 0) {
    return absl::FailedPreconditionError("no held-out data to evaluate on");
  }
  const torch::NoGradGuard no_grad;
  const torch::Tensor own = theta_.clone();
  DILOCO_RETURN_IF_ERROR(WriteParameters(0, parameters));
  absl::StatusOr<EvaluationReport> report = WithoutExceptions([&] { return HeldOutLoss(); });
  theta_.copy_(own);
  return report;
}

absl::StatusOr<EvaluationReport> TorchTrainer::HeldOutLoss() const {
  const int64_t windows = batches_.evaluation_windows();
  std::vector<uint16_t> tokens;
  double loss_sum = 0;
  for (int64_t first = 0; first < windows; first += MicroBatch()) {
    const int64_t count = std::min(MicroBatch(), windows - first);
    tokens.resize(static_cast<size_t>(count * (model_section_.sequence + 1)));
    DILOCO_RETURN_IF_ERROR(batches_.ReadEvaluation(first, absl::MakeSpan(tokens)));
    const Batch batch = ToBatch(tokens);
    const ModelLoss loss = LossOf(model_->Forward(batch.inputs), batch.targets);
    loss_sum += loss.cross_entropy.item<double>() * static_cast<double>(count);
  }
  return EvaluationReport{.loss = loss_sum / static_cast<double>(windows),
                          .tokens = static_cast<uint64_t>(windows * model_section_.sequence)};
}

}  // namespace

absl::StatusOr<std::string> ResolveDevice(std::string_view flag) {
  const int gpus = torch::cuda::is_available() ? static_cast<int>(torch::cuda::device_count()) : 0;
  if (flag == "auto") {
    return std::string(gpus > 0 ? "cuda:0" : "cpu");
  }
  if (flag == "cpu") {
    return std::string(flag);
  }
  int index = -1;
  const std::string text(flag);
  absl::string_view digits = text;
  if (!absl::ConsumePrefix(&digits, "cuda:") || !absl::SimpleAtoi(digits, &index) || index < 0 ||
      absl::StrCat("cuda:", index) != text) {
    return absl::InvalidArgumentError(absl::StrCat("device `", text, "`: use auto, cpu or cuda:N"));
  }
  if (index >= gpus) {
    return absl::InvalidArgumentError(absl::StrCat("device `", text, "`: LibTorch ", LibTorchVersion(), " finds ", gpus,
                                                   " GPUs here; use auto, cpu or one of them"));
  }
  return text;
}

std::string LibTorchVersion() { return TORCH_VERSION; }

absl::StatusOr<std::unique_ptr<Trainer>> MakeTorchTrainer(const RunConfig& config, Batches batches,
                                                          TorchTrainerOptions options) {
  DILOCO_CHECK(config.model.has_value() && options.threads >= 1);
  return WithoutExceptions([&]() -> absl::StatusOr<std::unique_ptr<Trainer>> {
    DILOCO_RETURN_IF_ERROR(CheckPrecision(config.model->precision, torch::Device(options.device)));
    return std::make_unique<TorchTrainer>(config, std::move(batches), std::move(options));
  });
}

}  // namespace diloco
