#include "common/codec/rounding.h"

#include "absl/strings/str_format.h"

#include "common/base/digest.h"

namespace diloco {

Rounding RoundingRule::For(int64_t round, int fragment) const {
  if (!stochastic) {
    return kNearest;
  }
  // A name has no slash, so that no two of these texts are equal.
  return {.stochastic = true,
          .key = DigestOf(absl::StrFormat("rounding/%d/%s/%d/%d", seed, sender, round, fragment)).low};
}

}  // namespace diloco
