// Short forms for registering metrics by their MetricName, and the buckets that both programs share.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "common/metrics/names.h"

namespace diloco {

prometheus::Family<prometheus::Counter>& CounterFamily(prometheus::Registry& registry, const MetricName& metric);
prometheus::Family<prometheus::Gauge>& GaugeFamily(prometheus::Registry& registry, const MetricName& metric);

// One series, without labels unless they are given.
prometheus::Counter& OneCounter(prometheus::Registry& registry, const MetricName& metric);
prometheus::Gauge& OneGauge(prometheus::Registry& registry, const MetricName& metric);
// Buckets 1 ms * 2^k, the last 1048.576 s.
prometheus::Histogram& OneDuration(prometheus::Registry& registry, const MetricName& metric,
                                   const prometheus::Labels& labels = {});

// kBuildInfo, with the project's version and the commit that was configured; `unknown` outside of a git checkout.
void RegisterBuildInfo(prometheus::Registry& registry);

}  // namespace diloco
