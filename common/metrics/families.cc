#include "common/metrics/families.h"

namespace diloco {
namespace {

prometheus::Histogram::BucketBoundaries DurationBuckets() {
  prometheus::Histogram::BucketBoundaries bounds;
  double bound = 0.001;
  for (int k = 0; k <= 20; ++k, bound *= 2) bounds.push_back(bound);
  return bounds;
}

}  // namespace

prometheus::Family<prometheus::Counter>& CounterFamily(prometheus::Registry& registry, const MetricName& metric) {
  return prometheus::BuildCounter().Name(metric.name).Help(metric.help).Register(registry);
}

prometheus::Family<prometheus::Gauge>& GaugeFamily(prometheus::Registry& registry, const MetricName& metric) {
  return prometheus::BuildGauge().Name(metric.name).Help(metric.help).Register(registry);
}

prometheus::Counter& OneCounter(prometheus::Registry& registry, const MetricName& metric) {
  return CounterFamily(registry, metric).Add({});
}

prometheus::Gauge& OneGauge(prometheus::Registry& registry, const MetricName& metric) {
  return GaugeFamily(registry, metric).Add({});
}

prometheus::Histogram& OneDuration(prometheus::Registry& registry, const MetricName& metric,
                                   const prometheus::Labels& labels) {
  return prometheus::BuildHistogram()
      .Name(metric.name)
      .Help(metric.help)
      .Register(registry)
      .Add(labels, DurationBuckets());
}

}  // namespace diloco
