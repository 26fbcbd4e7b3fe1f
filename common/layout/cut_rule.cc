#include "common/layout/cut_rule.h"

#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"

namespace diloco {
namespace {

// What a cut never goes through: tensors [first, end), holding `elements`.
struct Unit {
  size_t first = 0;
  size_t end = 0;
  int64_t elements = 0;
};

// Layers and lone tensors, in order. A unit of no elements joins the one before it (at the start, the one after), so
// that only a model of no elements has an empty unit.
absl::StatusOr<std::vector<Unit>> MakeUnits(absl::Span<const TensorSpec> tensors) {
  std::vector<Unit> units;
  std::unordered_set<int> layers;
  for (size_t i = 0; i < tensors.size();) {
    Unit unit{.first = i, .end = i, .elements = 0};
    const int layer = tensors[i].layer;
    if (layer >= 0 && !layers.insert(layer).second) {
      return absl::InvalidArgumentError(absl::StrFormat("tensor \"%s\": the tensors of layer %d are not consecutive",
                                                        absl::CHexEscape(tensors[i].name), layer));
    }
    do {
      unit.elements += tensors[unit.end++].ElementCount();
    } while (layer >= 0 && unit.end < tensors.size() && tensors[unit.end].layer == layer);
    i = unit.end;
    if (!units.empty() && (unit.elements == 0 || units.back().elements == 0)) {
      units.back().end = unit.end;
      units.back().elements += unit.elements;
    } else {
      units.push_back(unit);
    }
  }
  return units;
}

// Runs of consecutive units that greedy filling up to `capacity` makes; no unit is larger.
size_t RunsWithin(const std::vector<Unit>& units, int64_t capacity) {
  size_t runs = 1;
  int64_t filled = 0;
  for (const Unit& unit : units) {
    if (filled + unit.elements > capacity) {
      ++runs;
      filled = 0;
    }
    filled += unit.elements;
  }
  return runs;
}

// The smallest capacity for which `runs` runs are enough. Greedy filling uses as few runs as any filling can.
int64_t SmallestCapacity(const std::vector<Unit>& units, size_t runs) {
  int64_t low = 0;
  int64_t high = 0;
  for (const Unit& unit : units) {
    low = std::max(low, unit.elements);
    high += unit.elements;
  }
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (RunsWithin(units, middle) <= runs) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Index of the first unit of each run: exactly min(runs, units) of them, none above the smallest capacity.
std::vector<size_t> FirstUnits(const std::vector<Unit>& units, size_t runs) {
  runs = std::min(runs, units.size());
  const int64_t capacity = SmallestCapacity(units, runs);
  std::vector<size_t> firsts;
  int64_t filled = 0;
  for (size_t i = 0; i < units.size(); ++i) {
    // Where greedy filling would leave runs over, the last units get one each.
    const bool units_just_enough = units.size() - i == runs - firsts.size();
    if (firsts.empty() || filled + units[i].elements > capacity || units_just_enough) {
      firsts.push_back(i);
      filled = 0;
    }
    filled += units[i].elements;
  }
  return firsts;
}

absl::StatusOr<std::vector<int>> AssignRuns(absl::Span<const TensorSpec> tensors, int fragments) {
  if (fragments < 1 || fragments > kMaxFragments) {
    return absl::InvalidArgumentError(absl::StrFormat("%d fragments: use 1 to %d", fragments, kMaxFragments));
  }
  DILOCO_ASSIGN_OR_RETURN(const std::vector<Unit> units, MakeUnits(tensors));
  const std::vector<size_t> firsts = FirstUnits(units, static_cast<size_t>(fragments));
  std::vector<int> fragment_of(tensors.size());
  for (size_t f = 0; f < firsts.size(); ++f) {
    for (size_t t = units[firsts[f]].first; t < tensors.size(); ++t) fragment_of[t] = static_cast<int>(f);
  }
  return fragment_of;
}

// Elements of each layer of the model, and of what belongs to none (layer -1).
std::map<int, int64_t> ElementsByLayer(absl::Span<const TensorSpec> tensors) {
  std::map<int, int64_t> elements;
  for (const TensorSpec& tensor : tensors) elements[tensor.layer] += tensor.ElementCount();
  return elements;
}

// The layers of each fragment, for fragments of `each` layers.
std::vector<std::vector<int>> Grouped(const std::map<int, int64_t>& elements, int each, bool strided) {
  std::vector<int> layers;
  for (const auto& [layer, count] : elements) {
    if (layer >= 0) layers.push_back(layer);
  }
  const size_t size = static_cast<size_t>(each);
  std::vector<std::vector<int>> groups((layers.size() + size - 1) / size);
  for (size_t i = 0; i < layers.size(); ++i) groups[strided ? i % groups.size() : i / size].push_back(layers[i]);
  return groups;
}

// The fragment of each layer; what belongs to none comes first where it has elements, else shares fragment 0.
absl::StatusOr<std::map<int, int>> FragmentOfLayers(const std::map<int, int64_t>& elements,
                                                    const std::vector<std::vector<int>>& groups) {
  std::map<int, int> fragment_of = {{-1, 0}};
  const auto loose = elements.find(-1);
  int fragment = loose != elements.end() && loose->second > 0 ? 1 : 0;
  if (groups.size() + static_cast<size_t>(fragment) > static_cast<size_t>(kMaxFragments)) {
    return absl::InvalidArgumentError(absl::StrFormat("%d fragments: use at most %d", groups.size(), kMaxFragments));
  }
  for (const std::vector<int>& group : groups) {
    int64_t held = 0;
    for (const int layer : group) {
      const auto found = elements.find(layer);
      if (layer < 0 || found == elements.end()) {
        return absl::InvalidArgumentError(absl::StrFormat("fragments name layer %d, which the model lacks", layer));
      }
      if (!fragment_of.emplace(layer, fragment).second) {
        return absl::InvalidArgumentError(absl::StrFormat("fragments name layer %d twice", layer));
      }
      held += found->second;
    }
    if (held == 0) {
      return absl::InvalidArgumentError(absl::StrFormat("fragment %d has no elements", fragment));
    }
    ++fragment;
  }
  for (const auto& [layer, count] : elements) {
    if (!fragment_of.contains(layer)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("fragments do not cover the model: layer %d is in none of them; add it to one", layer));
    }
  }
  return fragment_of;
}

}  // namespace

absl::StatusOr<std::vector<int>> AssignFragments(absl::Span<const TensorSpec> tensors, const CutRule& rule) {
  if (rule.layers.empty() && rule.layers_each == 0) return AssignRuns(tensors, rule.count);
  DILOCO_RETURN_IF_ERROR(MakeUnits(tensors).status());
  const std::map<int, int64_t> elements = ElementsByLayer(tensors);
  DILOCO_ASSIGN_OR_RETURN(
      const auto fragment_of,
      FragmentOfLayers(elements,
                       rule.layers.empty() ? Grouped(elements, rule.layers_each, rule.strided) : rule.layers));
  std::vector<int> fragments;
  for (const TensorSpec& tensor : tensors) fragments.push_back(fragment_of.at(tensor.layer));
  return fragments;
}

}  // namespace diloco
