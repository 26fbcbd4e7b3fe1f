#include "coordinator/plan/plan.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/base/status_macros.h"
#include "common/config/run_config.h"
#include "common/layout/layout.h"
#include "common/outer/method.h"

namespace diloco {
namespace {

constexpr double kSecondsPerDay = 86'400;

// Gradients after every step, in one fragment; they need more bits than outer gradients.
bool EveryStep(const Method& method) { return method.payload == Payload::kGradient; }

absl::StatusOr<Method> MethodNamed(const std::string& name) {
  if (const Method* method = FindMethod(name); method != nullptr) return *method;
  return absl::InvalidArgumentError(
      absl::StrFormat("method \"%s\" is not known; use one of %s", name, absl::StrJoin(PlanMethodNames(), ", ")));
}

std::vector<TensorSpec> Tensors(const PlanModel& model) {
  std::vector<TensorSpec> tensors;
  if (model.embedding_parameters > 0) tensors.push_back({.name = "embedding", .shape = {model.embedding_parameters}});
  for (int layer = 0; layer < model.layers; ++layer) {
    tensors.push_back({.name = absl::StrFormat("layer%d", layer), .shape = {model.layer_parameters}, .layer = layer});
  }
  if (model.head_parameters > 0) tensors.push_back({.name = "head", .shape = {model.head_parameters}});
  return tensors;
}

// What the service does with `fragments:` left to its defaults for the method, but for the sizes that can be chosen.
absl::StatusOr<std::vector<StarFragment>> Fragments(const PlanModel& model, const PlanNetwork& network,
                                                    const PlanChoice& choice, const MethodPlan& plan,
                                                    const Method& method) {
  RunConfig config;
  config.inner_steps = plan.inner_steps;
  config.fragments.cut.count = EveryStep(method) ? 1 : choice.fragments;
  if (method.overlap == Overlap::kSteps) {
    config.fragments.cut.layers_each = choice.layers_each;
    config.fragments.offsets = "spread";
  }
  DILOCO_ASSIGN_OR_RETURN(const Layout layout, Layout::Cut(Tensors(model), config.fragments.cut));
  DILOCO_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, FragmentOffsets(config, layout.fragment_count()));
  int workers = 0;
  for (const StarLink& link : network.links) workers += link.workers;
  std::vector<StarFragment> fragments;
  for (const FragmentRange& range : layout.fragments()) {
    const auto elements = static_cast<uint64_t>(range.count);
    fragments.push_back({.up_bytes = static_cast<double>(plan.uplink->encoded_bytes(elements)),
                         .down_bytes = static_cast<double>(plan.downlink->encoded_bytes(elements)),
                         .merge_seconds = workers * static_cast<double>(elements * sizeof(float)) / network.merge_rate,
                         .offset = offsets[fragments.size()]});
  }
  return fragments;
}

int64_t OverlapOf(const Method& method, const PlanChoice& choice) {
  switch (method.overlap) {
    case Overlap::kNone:
      return 0;
    case Overlap::kSteps:
      return choice.overlap_steps;
    case Overlap::kRounds:
      return choice.overlap_rounds * choice.inner_steps;
  }
  return 0;
}

// The least rate, to a part in 2^12, at which `run` reaches `target`. No rate below `at_least` does.
std::optional<double> NeededLink(const StarRun& run, double target, double at_least) {
  constexpr int kDoublings = 40;
  constexpr int kHalvings = 12;
  double high = at_least;
  for (int i = 0; UtilizationAt(run, high) < target; ++i) {
    if (i == kDoublings) return std::nullopt;
    high *= 2;
  }
  double low = std::max(at_least, high / 2);
  for (int i = 0; i < kHalvings && low < high; ++i) {
    const double middle = (low + high) / 2;
    (UtilizationAt(run, middle) < target ? low : high) = middle;
  }
  return high;
}

}  // namespace

std::vector<std::string> PlanMethodNames() {
  std::vector<std::string> names;
  for (const Method& method : Methods()) names.emplace_back(method.name);
  return names;
}

double UtilizationAt(StarRun run, double rate) {
  for (StarLink& link : run.links) link.up = link.down = rate;
  return SimulateStar(run).utilization;
}

absl::StatusOr<MethodPlan> PlanFor(const PlanModel& model, const PlanNetwork& network, const PlanChoice& choice) {
  DILOCO_ASSIGN_OR_RETURN(const Method method, MethodNamed(choice.method));
  MethodPlan plan{.method = choice.method,
                  .inner_steps = EveryStep(method) ? 1 : choice.inner_steps,
                  .overlap = OverlapOf(method, choice),
                  .max_late = method.default_max_late > 0 ? choice.max_late : 0,
                  .uplink = choice.uplink,
                  .downlink = choice.downlink};
  if (method.overlap == Overlap::kSteps && plan.overlap >= plan.inner_steps) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s with an overlap of %d inner steps: use fewer than H, which is %d", method.name,
                        plan.overlap, plan.inner_steps));
  }
  if (plan.uplink == nullptr) plan.uplink = FindCodec(method.default_uplink);
  if (plan.downlink == nullptr) plan.downlink = FindCodec(method.default_downlink);
  plan.run = {.links = network.links,
              .ingress = network.ingress,
              .egress = network.egress,
              .step_seconds = model.step_seconds,
              .inner_steps = plan.inner_steps,
              .overlap = plan.overlap,
              .max_late = plan.max_late,
              .sends_first = HandsOverFirst(method)};
  DILOCO_ASSIGN_OR_RETURN(plan.run.fragments, Fragments(model, network, choice, plan, method));
  for (const StarFragment& fragment : plan.run.fragments) {
    plan.upload_bytes += fragment.up_bytes;
    plan.download_bytes += fragment.down_bytes;
  }
  const double round_seconds = static_cast<double>(plan.inner_steps) * model.step_seconds;
  plan.outcome = SimulateStar(plan.run);
  plan.bound = SteadyBoundOf(plan.run);
  plan.rounds_per_day = kSecondsPerDay * plan.outcome.utilization / round_seconds;
  plan.steady_link = std::max(plan.upload_bytes, plan.download_bytes) / round_seconds;
  for (size_t t = 0; t < kPlanTargets.size(); ++t) {
    plan.needed_link[t] = NeededLink(plan.run, kPlanTargets[t], kPlanTargets[t] * plan.steady_link);
  }
  return plan;
}

}  // namespace diloco
