#include "common/layout/layout.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/base/utf8.h"

namespace diloco {
namespace {

static_assert(std::endian::native == std::endian::little, "the digest is over little-endian integers");

// What a cut never goes through: tensors [first, end), holding `elements`.
struct Unit {
  size_t first = 0;
  size_t end = 0;
  int64_t elements = 0;
};

std::string Quoted(std::string_view name) {
  return absl::StrFormat("\"%s\"", absl::CHexEscape(std::string(name.substr(0, kMaxTensorNameBytes))));
}

absl::Status CheckTensor(const TensorSpec& tensor) {
  if (tensor.name.empty() || tensor.name.size() > kMaxTensorNameBytes || !IsValidUtf8(tensor.name)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor name %s: use 1 to %d bytes of UTF-8", Quoted(tensor.name), kMaxTensorNameBytes));
  }
  if (tensor.name == "__metadata__") {
    return absl::InvalidArgumentError("tensor name \"__metadata__\": checkpoints reserve it; use another");
  }
  if (tensor.layer < -1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor %s: layer %d; use 0 and up, or -1 for none", Quoted(tensor.name), tensor.layer));
  }
  for (const int64_t extent : tensor.shape) {
    if (extent < 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor %s: extent %d in its shape is negative", Quoted(tensor.name), extent));
    }
  }
  if (tensor.ElementCount() > kMaxElements) {
    return absl::InvalidArgumentError(
        absl::StrFormat("tensor %s: more than %d elements", Quoted(tensor.name), kMaxElements));
  }
  return absl::OkStatus();
}

// Every rule but those about layers; returns the number of elements.
absl::StatusOr<int64_t> CheckTensors(const std::vector<TensorSpec>& tensors) {
  if (tensors.empty() || tensors.size() > static_cast<size_t>(kMaxTensors)) {
    return absl::InvalidArgumentError(absl::StrFormat("%d tensors: use 1 to %d", tensors.size(), kMaxTensors));
  }
  std::unordered_set<std::string_view> names;
  int64_t elements = 0;
  for (const TensorSpec& tensor : tensors) {
    DILOCO_RETURN_IF_ERROR(CheckTensor(tensor));
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(absl::StrFormat("two tensors are named %s", Quoted(tensor.name)));
    }
    elements += tensor.ElementCount();
    if (elements > kMaxElements) {
      return absl::InvalidArgumentError(absl::StrFormat("the model has more than %d elements", kMaxElements));
    }
  }
  return elements;
}

// Layers and lone tensors, in order. A unit of no elements joins the one before it (at the start, the one after), so
// that only a model of no elements has an empty unit.
absl::StatusOr<std::vector<Unit>> MakeUnits(const std::vector<TensorSpec>& tensors) {
  std::vector<Unit> units;
  std::unordered_set<int> layers;
  for (size_t i = 0; i < tensors.size();) {
    Unit unit{.first = i, .end = i, .elements = 0};
    const int layer = tensors[i].layer;
    if (layer >= 0 && !layers.insert(layer).second) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor %s: the tensors of layer %d are not consecutive", Quoted(tensors[i].name), layer));
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

void AddInteger(DigestBuilder& builder, int64_t value) {
  builder.Add(std::string_view(reinterpret_cast<const char*>(&value), sizeof(value)));
}

// Over, as little-endian int64: tensor count; for each tensor its name (length, bytes), rank, extents, layer, decay and
// fragment.
Digest ComputeDigest(const std::vector<TensorSpec>& tensors, const std::vector<TensorPlacement>& placements) {
  DigestBuilder builder;
  AddInteger(builder, static_cast<int64_t>(tensors.size()));
  for (size_t i = 0; i < tensors.size(); ++i) {
    AddInteger(builder, static_cast<int64_t>(tensors[i].name.size()));
    builder.Add(tensors[i].name);
    AddInteger(builder, static_cast<int64_t>(tensors[i].shape.size()));
    for (const int64_t extent : tensors[i].shape) AddInteger(builder, extent);
    AddInteger(builder, tensors[i].layer);
    AddInteger(builder, tensors[i].decay ? 1 : 0);
    AddInteger(builder, placements[i].fragment);
  }
  return builder.Finish();
}

}  // namespace

int64_t TensorSpec::ElementCount() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t count = 1;
  for (const int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) return std::numeric_limits<int64_t>::max();
  }
  return count;
}

absl::StatusOr<Layout> Layout::Cut(std::vector<TensorSpec> tensors, int fragments) {
  if (fragments < 1 || fragments > kMaxFragments) {
    return absl::InvalidArgumentError(absl::StrFormat("%d fragments: use 1 to %d", fragments, kMaxFragments));
  }
  Layout layout;
  DILOCO_ASSIGN_OR_RETURN(layout.element_count_, CheckTensors(tensors));
  DILOCO_ASSIGN_OR_RETURN(const std::vector<Unit> units, MakeUnits(tensors));
  const std::vector<size_t> firsts = FirstUnits(units, static_cast<size_t>(fragments));

  int64_t offset = 0;
  for (size_t f = 0; f < firsts.size(); ++f) {
    const size_t end = f + 1 < firsts.size() ? units[firsts[f + 1]].first : tensors.size();
    FragmentRange range{.offset = offset, .count = 0};
    for (size_t t = units[firsts[f]].first; t < end; ++t) {
      const int64_t count = tensors[t].ElementCount();
      layout.placements_.push_back(
          {.tensor = static_cast<int>(t), .fragment = static_cast<int>(f), .offset = offset, .count = count});
      offset += count;
    }
    range.count = offset - range.offset;
    layout.fragments_.push_back(range);
  }
  layout.tensors_ = std::move(tensors);
  layout.digest_ = ComputeDigest(layout.tensors_, layout.placements_);
  return layout;
}

}  // namespace diloco
