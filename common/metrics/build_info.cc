// The only source that knows the commit: another one rebuilds no other.
#include "common/metrics/families.h"

namespace diloco {

void RegisterBuildInfo(prometheus::Registry& registry) {
  GaugeFamily(registry, kBuildInfo).Add({{"version", DILOCO_VERSION}, {"commit", DILOCO_COMMIT}}).Set(1);
}

}  // namespace diloco
