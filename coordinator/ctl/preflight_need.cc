#include "coordinator/ctl/preflight_need.h"

#include <algorithm>
#include <iterator>

#include "common/base/status_macros.h"
#include "coordinator/plan/plan.h"
#include "coordinator/plan/transformer_model.h"

namespace diloco {
namespace {

PlanModel ModelOf(const RunConfig& config, int64_t parameters, double step_seconds) {
  const int layers = config.model.has_value() ? std::min(config.model->layers, kMaxPlanLayers) : 1;
  return {
      .layers = layers, .layer_parameters = std::max<int64_t>(1, parameters / layers), .step_seconds = step_seconds};
}

PlanChoice ChoiceOf(const RunConfig& config) {
  PlanChoice choice{.method = config.method,
                    .inner_steps = config.inner_steps,
                    .overlap_steps = config.overlap,
                    .overlap_rounds = static_cast<int>(std::max<int64_t>(1, config.overlap / config.inner_steps)),
                    .max_late = config.max_late,
                    .uplink = FindCodec(config.wire.uplink),
                    .downlink = FindCodec(config.wire.downlink)};
  const CutRule& cut = config.fragments.cut;
  if (cut.count > 0) choice.fragments = cut.count;
  if (cut.layers_each > 0) choice.layers_each = cut.layers_each;
  return choice;
}

}  // namespace

absl::StatusOr<LinkNeed> NeedOf(const RunConfig& config, int64_t parameters, double step_seconds,
                                const MeasuredLink& link) {
  const StarLink links{
      .workers = config.run.workers, .up = link.up, .down = link.down, .latency_seconds = link.round_trip_seconds / 2};
  DILOCO_ASSIGN_OR_RETURN(const MethodPlan plan,
                          PlanFor(ModelOf(config, parameters, step_seconds), {.links = {links}}, ChoiceOf(config)));
  const double round_seconds = static_cast<double>(plan.inner_steps) * step_seconds;
  const auto target = std::find(kPlanTargets.begin(), kPlanTargets.end(), kUsefulUtilization);
  return LinkNeed{.up = plan.upload_bytes / round_seconds,
                  .down = plan.download_bytes / round_seconds,
                  .utilization = plan.outcome.utilization,
                  .useful_link = plan.needed_link[static_cast<size_t>(std::distance(kPlanTargets.begin(), target))]};
}

std::optional<int64_t> ParametersOf(const RunConfig& config) {
  if (!config.model.has_value()) return std::nullopt;
  const ModelSection& model = *config.model;
  return TransformerModel({.layers = model.layers,
                           .width = model.width,
                           .head_width = model.width / model.heads,
                           .feed_forward = model.ffn,
                           .vocabulary = model.vocabulary})
      .parameters();
}

std::optional<double> StepSecondsOf(const v1::ListWorkersResponse& workers) {
  std::optional<double> fastest;
  for (const v1::WorkerSummary& worker : workers.workers()) {
    const v1::WorkerProgress& progress = worker.progress();
    const double computing = progress.wall_seconds() - progress.blocked_seconds();
    if (progress.session_steps() <= 0 || !(computing > 0)) continue;
    const double step = computing / static_cast<double>(progress.session_steps());
    if (!fastest.has_value() || step < *fastest) fastest = step;
  }
  return fastest;
}

}  // namespace diloco
