#include "common/layout/layout.h"

#include <algorithm>
#include <bit>
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

absl::StatusOr<Layout> Layout::Cut(std::vector<TensorSpec> tensors, const CutRule& rule) {
  Layout layout;
  DILOCO_ASSIGN_OR_RETURN(layout.element_count_, CheckTensors(tensors));
  DILOCO_ASSIGN_OR_RETURN(const std::vector<int> fragment_of, AssignFragments(tensors, rule));
  layout.fragments_.resize(static_cast<size_t>(*std::max_element(fragment_of.begin(), fragment_of.end())) + 1);
  for (size_t t = 0; t < tensors.size(); ++t) {
    FragmentRange& range = layout.fragments_[static_cast<size_t>(fragment_of[t])];
    layout.placements_.push_back({.tensor = static_cast<int>(t),
                                  .fragment = fragment_of[t],
                                  .offset = range.count,  // Within the fragment, until all of them are known.
                                  .count = tensors[t].ElementCount()});
    range.count += layout.placements_.back().count;
  }
  int64_t offset = 0;
  for (FragmentRange& range : layout.fragments_) {
    range.offset = offset;
    offset += range.count;
  }
  for (TensorPlacement& placement : layout.placements_) {
    placement.offset += layout.fragments_[static_cast<size_t>(placement.fragment)].offset;
  }
  layout.tensors_ = std::move(tensors);
  layout.digest_ = ComputeDigest(layout.tensors_, layout.placements_);
  return layout;
}

std::vector<ElementRange> Layout::DecayedRanges(int fragment) const {
  std::vector<ElementRange> ranges;
  const int64_t start = fragments_[static_cast<size_t>(fragment)].offset;
  for (const TensorPlacement& placement : placements_) {
    if (placement.fragment != fragment || !tensors_[static_cast<size_t>(placement.tensor)].decay) continue;
    const int64_t offset = placement.offset - start;
    if (!ranges.empty() && ranges.back().offset + ranges.back().count == offset) {
      ranges.back().count += placement.count;
    } else {
      ranges.push_back({.offset = offset, .count = placement.count});
    }
  }
  return ranges;
}

}  // namespace diloco
