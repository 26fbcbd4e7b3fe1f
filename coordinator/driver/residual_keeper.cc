#include "coordinator/driver/residual_keeper.h"

#include <iterator>
#include <utility>

#include "common/base/check.h"

namespace diloco {

ResidualKeeper::ResidualKeeper(const Layout& layout)
    : ResidualKeeper(layout, 0, std::vector<int64_t>(layout.fragments().size()), {}) {}

ResidualKeeper::ResidualKeeper(const Layout& layout, int64_t version, absl::Span<const int64_t> next_rounds,
                               absl::Span<const float> raw) {
  DILOCO_CHECK(raw.empty() || raw.size() == static_cast<size_t>(layout.element_count()));
  DILOCO_CHECK(next_rounds.size() == layout.fragments().size());
  for (size_t f = 0; f < next_rounds.size(); ++f) {
    const FragmentRange& range = layout.fragments()[f];
    const auto count = static_cast<size_t>(range.count);
    std::vector<float> residual(count);
    if (!raw.empty() && next_rounds[f] == version) {
      const absl::Span<const float> values = raw.subspan(static_cast<size_t>(range.offset), count);
      residual.assign(values.begin(), values.end());
    }
    by_version_.push_back({{version, std::make_shared<const std::vector<float>>(std::move(residual))}});
  }
}

const Residual& ResidualKeeper::Newest(int fragment) const {
  return by_version_[static_cast<size_t>(fragment)].rbegin()->second;
}

void ResidualKeeper::Add(int fragment, int64_t version, Residual residual) {
  std::map<int64_t, Residual>& versions = by_version_[static_cast<size_t>(fragment)];
  DILOCO_CHECK(versions.rbegin()->first < version);
  versions.emplace(version, std::move(residual));
}

std::vector<Residual> ResidualKeeper::At(int64_t version) const {
  std::vector<Residual> residuals;
  for (const std::map<int64_t, Residual>& versions : by_version_) {
    const auto after = versions.upper_bound(version);
    DILOCO_CHECK(after != versions.begin());
    residuals.push_back(std::prev(after)->second);
  }
  return residuals;
}

void ResidualKeeper::DropBefore(int64_t version) {
  for (std::map<int64_t, Residual>& versions : by_version_) {
    const auto after = versions.upper_bound(version);
    DILOCO_CHECK(after != versions.begin());
    versions.erase(versions.begin(), std::prev(after));
  }
}

}  // namespace diloco
