// `dilococtl plan --plot`: utilization against the rate of the workers' links. Pure.
#pragma once

#include "common/plot/plot.h"
#include "coordinator/ctl/plan_view.h"

namespace diloco {

// A line for each of view.methods, at most kMaxPlotSeries. Every worker's link carries the same rate each way; latency
// and the coordinator's links are as given.
Plot UtilizationPlot(const PlanView& view);

}  // namespace diloco
