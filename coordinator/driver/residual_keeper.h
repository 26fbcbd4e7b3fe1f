// The downlink's error-feedback residuals (common/codec/error_feedback.h), by fragment and version: what the averages
// of the rounds below the version lost when they were published, and the next merge adds.
//
// Rounds of a fragment are merged one after another, so that a residual has one writer. Merges run ahead of the
// consensus, and a snapshot holds the residual at its own version: those from there on are kept. So memory is 4 bytes
// an element for each version from the consensus to the newest merge of a fragment, and as much again for each merge
// that runs. Not thread-safe: the driver's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/types/span.h"

#include "common/layout/layout.h"

namespace diloco {

// Of one fragment at one version; immutable once shared.
using Residual = std::shared_ptr<const std::vector<float>>;

class ResidualKeeper {
 public:
  // All zero, from version 0 on.
  explicit ResidualKeeper(const Layout& layout);

  // After a recovery. `raw` is what the snapshot of `version` holds, fragment by fragment, or empty. A fragment that
  // has committed rounds since then starts from zero: only the averages, which nobody holds any more, would say what it
  // owes. Shapes: raw [layout.element_count()] or [0]; next_rounds [fragments], each >= version.
  ResidualKeeper(const Layout& layout, int64_t version, absl::Span<const int64_t> next_rounds,
                 absl::Span<const float> raw);

  // What the next merge of the fragment adds.
  const Residual& Newest(int fragment) const;
  // From that merge; its round is version - 1.
  void Add(int fragment, int64_t version, Residual residual);
  // All fragments' at a version from the last DropBefore on.
  std::vector<Residual> At(int64_t version) const;
  // Forgets versions before this one, to which every fragment has come.
  void DropBefore(int64_t version);

 private:
  std::vector<std::map<int64_t, Residual>> by_version_;  // By fragment; never empty.
};

}  // namespace diloco
