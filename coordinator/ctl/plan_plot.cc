#include "coordinator/ctl/plan_plot.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

namespace diloco {
namespace {

constexpr int kPoints = 80;
// Rates from so far below the least steady bound to so far above the greatest.
constexpr double kMargin = 10;

}  // namespace

Plot UtilizationPlot(const PlanView& view) {
  Plot plot = {.title = absl::StrFormat("%s: utilization against the workers' links", view.model_name),
               .x = {.label = "Gbit/s of every worker's link, each way", .scale = AxisScale::kLog},
               .y = {.label = "utilization (%)", .min = 0, .max = 100}};
  const auto [least, greatest] =
      std::minmax_element(view.methods.begin(), view.methods.end(),
                          [](const MethodPlan& a, const MethodPlan& b) { return a.steady_link < b.steady_link; });
  const double low = least->steady_link / kMargin;
  const double high = greatest->steady_link * kMargin;
  for (const MethodPlan& plan : view.methods) {
    PlotSeries series = {.name = absl::StrFormat("%s, H = %d", plan.method, plan.inner_steps)};
    for (int i = 0; i < kPoints; ++i) {
      const double rate = low * std::pow(high / low, static_cast<double>(i) / (kPoints - 1));
      series.points.push_back({.x = rate * 8 / 1e9, .y = 100 * UtilizationAt(plan.run, rate)});
    }
    plot.series.push_back(std::move(series));
  }
  return plot;
}

}  // namespace diloco
