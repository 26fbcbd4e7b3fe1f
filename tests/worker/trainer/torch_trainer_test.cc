#include "worker/trainer/torch_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/schedule/inner_schedule.h"
#include "tests/support/temp_folder.h"
#include "worker/trainer/model.h"
#include "worker/trainer/transformer.h"

namespace diloco {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A trainer with its layout, on text of its own.
struct Bench {
  std::unique_ptr<Trainer> trainer;
  Layout layout;
  RunConfig config;

  std::vector<float> Read() {
    std::vector<float> parameters(static_cast<size_t>(layout.element_count()));
    EXPECT_TRUE(trainer->ReadParameters(0, absl::MakeSpan(parameters)).ok());
    return parameters;
  }

  double Step(int64_t step) {
    const auto report = trainer->Step(step, InnerRate(config, step));
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? report->loss : NAN;
  }
};

class TorchTrainerTest : public ::testing::Test {
 protected:
  TorchTrainerTest() {
    std::string text;
    for (int i = 0; i < 60; ++i) {
      text += "In the beginning God created the heaven and the earth. ";
    }
    data_ = folder_.Write("text", text);
    config_.run = {.id = "test", .workers = 1, .rounds = 10, .seed = 5};
    config_.inner_steps = 10;
    config_.inner = {.rate = 3e-3, .warmup_steps = 4, .batch_size = 8};
    config_.model = ModelSection{.layers = 2, .width = 32, .heads = 2, .ffn = 64, .vocabulary = 256, .sequence = 32};
    config_.eval = {.every = 0, .sequences = 5, .held_out = 0.1};
  }

  Batches MakeBatches() {
    auto files = OpenDataFiles(data_, "");
    EXPECT_TRUE(files.ok()) << files.status();
    auto batches = Batches::Create(*std::move(files), config_, "east");
    EXPECT_TRUE(batches.ok()) << batches.status();
    return *std::move(batches);
  }

  Bench Make(std::vector<float> initial = {}) {
    TorchTrainerOptions options;
    options.initial = std::move(initial);
    auto trainer = MakeTorchTrainer(config_, MakeBatches(), std::move(options));
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    auto layout = Layout::Cut((*trainer)->Tensors(), {.count = 3});
    EXPECT_TRUE(layout.ok()) << layout.status();
    (*trainer)->SetLayout(*layout);
    return {.trainer = *std::move(trainer), .layout = *std::move(layout), .config = config_};
  }

  const testing::TempFolder folder_;
  std::string data_;
  RunConfig config_;
};

TEST_F(TorchTrainerTest, ParametersLieWhereTheLayoutSays) {
  Bench bench = Make();
  const std::vector<float> flat = bench.Read();
  for (const TensorPlacement& placement : bench.layout.placements()) {
    const TensorSpec& spec = bench.layout.tensors()[static_cast<size_t>(placement.tensor)];
    std::vector<float> expected(static_cast<size_t>(placement.count));
    FillInitialValues(*config_.model, spec, config_.run.seed, absl::MakeSpan(expected));
    const auto begin = flat.begin() + placement.offset;
    EXPECT_EQ(std::vector<float>(begin, begin + placement.count), expected) << spec.name;
  }
}

TEST_F(TorchTrainerTest, GoesOnFromItsStateBitForBit) {
  Bench whole = Make();
  for (int64_t step = 0; step < 7; ++step) whole.Step(step);
  const std::vector<float> parameters = whole.Read();
  absl::StatusOr<TrainerState> state = whole.trainer->SaveState();
  ASSERT_TRUE(state.ok()) << state.status();
  // The process after it.
  Bench resumed = Make();
  ASSERT_TRUE(resumed.trainer->WriteParameters(0, parameters).ok());
  ASSERT_TRUE(resumed.trainer->LoadState(*std::move(state)).ok());
  for (int64_t step = 7; step < 12; ++step) EXPECT_EQ(resumed.Step(step), whole.Step(step)) << step;
  EXPECT_EQ(resumed.Read(), whole.Read());
}

TEST_F(TorchTrainerTest, AStateBeforeTheFirstUpdateHasNoMoments) {
  Bench fresh = Make();
  absl::StatusOr<TrainerState> state = fresh.trainer->SaveState();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_TRUE(state->arrays.empty());
  EXPECT_TRUE(Make().trainer->LoadState(*std::move(state)).ok());
}

TEST_F(TorchTrainerTest, NamesWhatDoesNotFitInAState) {
  Bench bench = Make();
  bench.Step(0);
  const absl::StatusOr<TrainerState> good = bench.trainer->SaveState();
  ASSERT_TRUE(good.ok()) << good.status();
  TrainerState state = *good;
  state.arrays.at("inner.variance").pop_back();
  EXPECT_THAT(std::string(bench.trainer->LoadState(state).message()), HasSubstr("\"inner.variance\""));
  state = *good;
  state.arrays.erase("inner.mean");
  EXPECT_THAT(std::string(bench.trainer->LoadState(state).message()), HasSubstr("no elements of \"inner.mean\""));
  state = *good;
  state.arrays["inner.third"] = {1};
  EXPECT_THAT(std::string(bench.trainer->LoadState(state).message()), HasSubstr("\"inner.third\""));
}

TEST_F(TorchTrainerTest, StartsFromGivenParameters) {
  int64_t elements = 0;
  for (const TensorSpec& spec : TransformerTensors(*config_.model)) {
    elements += spec.ElementCount();
  }
  std::vector<float> initial;
  for (int64_t i = 0; i < elements; ++i) {
    initial.push_back(static_cast<float>(i));
  }
  Bench bench = Make(initial);
  const std::vector<float> flat = bench.Read();
  int64_t position = 0;
  for (const TensorPlacement& placement : bench.layout.placements()) {
    EXPECT_EQ(flat[static_cast<size_t>(placement.offset)], static_cast<float>(position));
    position += placement.count;
  }
}

TEST_F(TorchTrainerTest, WrittenParametersAreReadBackAndUsed) {
  Bench bench = Make();
  std::vector<float> parameters = bench.Read();
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i] *= 1 + 0.001f * static_cast<float>(i % 7);
  }
  ASSERT_TRUE(bench.trainer->WriteParameters(0, parameters).ok());
  EXPECT_EQ(bench.Read(), parameters);
  // The model computes with them: its tensors are views of the flat vector.
  const auto here = bench.trainer->Evaluate(bench.Read());
  ASSERT_TRUE(here.ok()) << here.status();
  Bench other = Make();
  EXPECT_NE(bench.Step(0), other.Step(0));
}

TEST_F(TorchTrainerTest, ReadsAndWritesOneFragment) {
  Bench bench = Make();
  std::vector<float> expected = bench.Read();
  const FragmentRange& range = bench.layout.fragments()[1];
  const auto begin = expected.begin() + range.offset;
  std::vector<float> fragment(static_cast<size_t>(range.count));
  ASSERT_TRUE(bench.trainer->ReadParameters(range.offset, absl::MakeSpan(fragment)).ok());
  EXPECT_EQ(fragment, std::vector<float>(begin, begin + range.count));
  std::fill(fragment.begin(), fragment.end(), 0.25f);
  std::fill_n(begin, range.count, 0.25f);
  ASSERT_TRUE(bench.trainer->WriteParameters(range.offset, fragment).ok());
  EXPECT_EQ(bench.Read(), expected);
}

// The gradient that one step used, from how it moved the parameters: with moments at zero, no decay, no clipping and
// epsilon 1, the step is -rate * g / (|g| + 1).
std::vector<double> GradientOf(Bench bench, double rate) {
  const std::vector<float> before = bench.Read();
  bench.Step(0);
  const std::vector<float> after = bench.Read();
  std::vector<double> gradient;
  for (size_t i = 0; i < before.size(); ++i) {
    const double moved = (static_cast<double>(before[i]) - after[i]) / rate;
    gradient.push_back(moved / (1 - std::abs(moved)));
  }
  return gradient;
}

TEST_F(TorchTrainerTest, StepFollowsTheGradientOfTheStatedLossHoweverTheBatchIsCut) {
  config_.inner = {.rate = 1, .warmup_steps = 0, .epsilon = 1, .weight_decay = 0, .clip = 0, .batch_size = 8};
  config_.model->z_loss = 0.1;
  std::vector<uint16_t> tokens(8 * 33);
  ASSERT_TRUE(MakeBatches().ReadTraining(0, 0, absl::MakeSpan(tokens)).ok());
  const torch::Tensor windows =
      torch::tensor(std::vector<int64_t>(tokens.begin(), tokens.end()), torch::kInt64).view({8, 33});
  const Bench bench = Make();
  std::vector<torch::Tensor> parameters;
  for (const TensorSpec& spec : bench.layout.tensors()) {
    std::vector<float> values(static_cast<size_t>(spec.ElementCount()));
    FillInitialValues(*config_.model, spec, config_.run.seed, absl::MakeSpan(values));
    parameters.push_back(torch::from_blob(values.data(), spec.shape).clone().set_requires_grad(true));
  }
  // The loss from other operations than the trainer's.
  const torch::Tensor logits =
      Model(*config_.model, parameters, torch::kCPU).Forward(windows.narrow(1, 0, 32)).flatten(0, 1);
  const torch::Tensor targets = windows.narrow(1, 1, 32).flatten();
  const torch::Tensor log_partition = logits.exp().sum(-1).log();
  (torch::nll_loss(torch::log_softmax(logits, -1), targets) + 0.1 * log_partition.pow(2).mean()).backward();

  for (const int accumulation : {1, 4}) {
    config_.inner.accumulation = accumulation;
    const std::vector<double> gradient = GradientOf(Make(), config_.inner.rate);
    std::vector<float> computed(gradient.size());
    ASSERT_TRUE(Make().trainer->ComputeGradient(0, absl::MakeSpan(computed)).ok());
    for (const TensorPlacement& placement : bench.layout.placements()) {
      const torch::Tensor expected = parameters[static_cast<size_t>(placement.tensor)].grad().flatten();
      for (int64_t i = 0; i < placement.count; ++i) {
        const auto at = static_cast<size_t>(placement.offset + i);
        ASSERT_NEAR(gradient[at], expected[i].item<double>(), 1e-6)
            << bench.layout.tensors()[static_cast<size_t>(placement.tensor)].name << " at " << i;
        ASSERT_NEAR(computed[at], expected[i].item<double>(), 1e-6) << at;
      }
    }
  }
}

TEST_F(TorchTrainerTest, ComputingAGradientNeitherClipsNorSteps) {
  Bench plain = Make();
  std::vector<float> expected(plain.Read().size());
  const auto report = plain.trainer->ComputeGradient(3, absl::MakeSpan(expected));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->tokens, 8u * 32u);
  config_.inner.clip = 1e-6;
  Bench clipping = Make();
  std::vector<float> gradient(expected.size());
  ASSERT_TRUE(clipping.trainer->ComputeGradient(3, absl::MakeSpan(gradient)).ok());
  EXPECT_EQ(gradient, expected);
  // Parameters and moments are those of a trainer that computed none.
  Bench fresh = Make();
  EXPECT_EQ(clipping.Read(), fresh.Read());
  EXPECT_EQ(clipping.Step(3), report->loss);
  EXPECT_EQ(fresh.Step(3), report->loss);
  EXPECT_EQ(clipping.Read(), fresh.Read());
}

TEST_F(TorchTrainerTest, StepUsesTheRateThatItIsGiven) {
  // The first update of AdamW moves no element by more than the rate, and those of a clear gradient by all of it.
  config_.inner.weight_decay = 0;
  for (const int64_t step : {0, 4, 99}) {
    Bench bench = Make();
    const std::vector<float> before = bench.Read();
    bench.Step(step);
    const std::vector<float> after = bench.Read();
    double largest = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(after[i]) - before[i]));
    }
    const double rate = InnerRate(config_.inner, 100, step);
    EXPECT_NEAR(largest, rate, 0.02 * rate) << step;
  }
}

TEST_F(TorchTrainerTest, SgdStepsAlongTheClippedGradient) {
  config_.inner.optimizer = InnerAlgorithm::kSgd;
  config_.inner.clip = 0.5;
  Bench bench = Make();
  std::vector<float> gradient(bench.Read().size());
  for (const int64_t step : {0, 7}) {
    ASSERT_TRUE(bench.trainer->ComputeGradient(step, absl::MakeSpan(gradient)).ok());
    double square = 0;
    for (const float g : gradient) {
      square += static_cast<double>(g) * g;
    }
    ASSERT_GT(std::sqrt(square), 0.5);
    const double scale = InnerRate(config_.inner, 100, step) * 0.5 / std::sqrt(square);
    const std::vector<float> before = bench.Read();
    bench.Step(step);
    const std::vector<float> after = bench.Read();
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_NEAR(after[i], before[i] - scale * gradient[i], 1e-7) << i;
    }
  }
}

TEST_F(TorchTrainerTest, TrainingRepeatsBitForBit) {
  Bench one = Make();
  Bench two = Make();
  for (int64_t step = 0; step < 6; ++step) {
    EXPECT_EQ(one.Step(step), two.Step(step));
  }
  EXPECT_EQ(one.Read(), two.Read());
}

TEST_F(TorchTrainerTest, LossFallsOnText) {
  Bench bench = Make();
  const double first = bench.Step(0);
  EXPECT_NEAR(first, std::log(256.0), 0.1);
  double last = first;
  for (int64_t step = 1; step < 60; ++step) {
    last = bench.Step(step);
  }
  EXPECT_LT(last, 2.5);
}

TEST_F(TorchTrainerTest, Bf16TrainsLikeFp32) {
  Bench fp32 = Make();
  config_.model->precision = Precision::kBf16;
  Bench one = Make();
  Bench two = Make();
  const std::vector<float> start = one.Read();
  EXPECT_EQ(start, fp32.Read());
  for (int64_t step = 0; step < 40; ++step) {
    const double exact = fp32.Step(step);
    const double loss = one.Step(step);
    EXPECT_NEAR(loss, exact, 0.02 * exact) << step;
    EXPECT_NE(loss, exact) << step;
    EXPECT_EQ(two.Step(step), loss) << step;
  }
  const std::vector<float> end = one.Read();
  EXPECT_EQ(end, two.Read());
  // Parameters of bf16 would end in 16 zero bits.
  const auto of_bf16 = [](float value) { return (std::bit_cast<uint32_t>(value) & 0xffff) == 0; };
  EXPECT_LT(std::count_if(end.begin(), end.end(), of_bf16), static_cast<ptrdiff_t>(end.size() / 100));
}

TEST_F(TorchTrainerTest, PrecisionThatTheDeviceLacksIsRefusedAtOnce) {
  config_.model->precision = Precision::kBf16;
  const auto trainer = MakeTorchTrainer(config_, MakeBatches(), {.device = "cuda:63"});
  EXPECT_EQ(trainer.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TorchTrainerTest, ReportsTokensOfTheBatch) {
  const auto report = Make().trainer->Step(0, 0.001);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->tokens, 8u * 32u);
}

TEST_F(TorchTrainerTest, EvaluationLeavesTrainingUntouched) {
  Bench evaluated = Make();
  Bench plain = Make();
  const std::vector<float> other = plain.Read();
  for (int64_t step = 0; step < 4; ++step) {
    ASSERT_TRUE(evaluated.trainer->Evaluate(other).ok());
    EXPECT_EQ(evaluated.Step(step), plain.Step(step));
  }
  EXPECT_EQ(evaluated.Read(), plain.Read());
}

TEST_F(TorchTrainerTest, EvaluationUsesTheGivenParameters) {
  Bench bench = Make();
  std::vector<float> parameters = bench.Read();
  // A head of zeros knows nothing: every token costs ln 256.
  for (const TensorPlacement& placement : bench.layout.placements()) {
    if (bench.layout.tensors()[static_cast<size_t>(placement.tensor)].name == "head.weight") {
      std::fill_n(parameters.begin() + placement.offset, placement.count, 0.0f);
    }
  }
  const auto report = bench.trainer->Evaluate(parameters);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_NEAR(report->loss, std::log(256.0), 1e-5);
  EXPECT_EQ(report->tokens, 5u * 32u);
  const auto again = bench.trainer->Evaluate(parameters);
  EXPECT_EQ(again->loss, report->loss);
}

TEST_F(TorchTrainerTest, EvaluationInPartsIsTheMeanOfAll) {
  const std::vector<float> parameters = Make().Read();
  const auto whole = Make().trainer->Evaluate(parameters);
  config_.inner.batch_size = 2;  // Parts of 2, 2 and 1 windows.
  const auto parts = Make().trainer->Evaluate(parameters);
  ASSERT_TRUE(whole.ok() && parts.ok());
  EXPECT_NEAR(parts->loss, whole->loss, 1e-6);
}

TEST_F(TorchTrainerTest, EvaluationWithoutHeldOutDataIsAnError) {
  config_.eval.held_out = 0;
  Bench bench = Make();
  EXPECT_EQ(bench.trainer->Evaluate(bench.Read()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TorchTrainerTest, ResetOptimizerStartsAfresh) {
  Bench used = Make();
  used.Step(0);
  used.Step(1);
  used.trainer->ResetInnerOptimizer();
  Bench fresh = Make();
  ASSERT_TRUE(fresh.trainer->WriteParameters(0, used.Read()).ok());
  for (int64_t step = 2; step < 4; ++step) {
    EXPECT_EQ(used.Step(step), fresh.Step(step));
  }
  EXPECT_EQ(used.Read(), fresh.Read());
}

TEST_F(TorchTrainerTest, DataCutInMidRunIsAnErrorThatNamesTheFile) {
  Bench bench = Make();
  bench.Step(0);
  ASSERT_EQ(truncate(data_.c_str(), 0), 0);
  const auto report = bench.trainer->Step(1, 0.001);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr(data_));
}

TEST(ResolveDeviceTest, KnowsCpuAutoAndGpus) {
  EXPECT_EQ(ResolveDevice("cpu").value(), "cpu");
  EXPECT_TRUE(ResolveDevice("auto").ok());
  const absl::Status absent = ResolveDevice("cuda:99").status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(absent.message()), AllOf(HasSubstr("cuda:99"), HasSubstr(LibTorchVersion())));
}

TEST(ResolveDeviceTest, RefusesAnythingElse) {
  for (const std::string flag : {"", "gpu", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:01", "cuda:1 ", "CPU"}) {
    EXPECT_EQ(ResolveDevice(flag).status().code(), absl::StatusCode::kInvalidArgument) << flag;
  }
}

}  // namespace
}  // namespace diloco
