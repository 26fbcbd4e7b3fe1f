#include "coordinator/driver/staging.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace diloco {
namespace {

// L2 norm above which a contribution is refused. Finite values may still overflow float32 in a weighted average whose
// rounded weights add up to slightly more than one; a quarter of the largest float32 leaves room for that.
constexpr double kMaxContributionNorm = 0x1p126;

// Elements decoded at a time for the norm; whole blocks of every codec.
constexpr uint64_t kNormElements = uint64_t{kCodecBlock} * 1024;

std::string Name(const ContributionId& id) {
  return absl::StrFormat("contribution of \"%s\" for fragment %d, round %d", id.worker, id.fragment, id.round);
}

double Norm(const Codec& codec, std::string_view encoded, uint64_t elements) {
  std::vector<float> values(std::min(elements, kNormElements));
  double sum = 0;
  for (uint64_t first = 0; first < elements; first += kNormElements) {
    const uint64_t count = std::min(kNormElements, elements - first);
    const absl::Span<float> out = absl::MakeSpan(values).first(count);
    codec.decode(encoded.substr(codec.encoded_bytes(first), codec.encoded_bytes(count)), out);
    for (const float value : out) {
      sum += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  return std::sqrt(sum);
}

}  // namespace

absl::StatusOr<Staging::Result> Staging::Add(const ContributionId& id, uint64_t incarnation,
                                             const ContributionShape& shape, uint32_t chunk_index,
                                             std::string_view payload) {
  const uint64_t chunks = shape.ChunkCount();
  if (chunks > 0 && chunk_index >= chunks) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: chunk %d of %d chunks; send an index below that", Name(id), chunk_index, chunks));
  }
  const uint64_t offset = uint64_t{chunk_index} * shape.chunk_bytes;
  const uint64_t size = chunks == 0 ? 0 : std::min<uint64_t>(shape.chunk_bytes, shape.total_bytes - offset);
  if (payload.size() != size) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: chunk %d has %d bytes where %d belong; send it again",
                                                      Name(id), chunk_index, payload.size(), size));
  }

  auto it = entries_.find(id);
  DILOCO_CHECK(it == entries_.end() || it->second.state != State::kStored);
  if (it != entries_.end() && it->second.incarnation != incarnation) {
    Erase(it);
    it = entries_.end();
  }
  if (it == entries_.end()) {
    if (shape.total_bytes > limit_bytes_ - staged_bytes_) {
      return Result::kNoRoom;
    }
    Entry entry{.incarnation = incarnation, .shape = shape, .state = State::kReceiving};
    entry.bytes = std::make_shared<std::string>(shape.total_bytes, '\0');
    entry.held.resize(chunks);
    entry.missing = chunks;
    staged_bytes_ += shape.total_bytes;
    it = entries_.emplace(id, std::move(entry)).first;
  }
  Entry& entry = it->second;
  if (!(entry.shape == shape)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: a chunk describes another size, digest or weight than the ones before it", Name(id)));
  }
  if (entry.state == State::kChecking) {
    return Result::kChecking;
  }
  if (chunks > 0 && !entry.held[chunk_index]) {
    std::copy(payload.begin(), payload.end(), entry.bytes->begin() + static_cast<std::ptrdiff_t>(offset));
    entry.held[chunk_index] = true;
    --entry.missing;
  }
  if (entry.missing > 0) {
    return Result::kReceiving;
  }
  entry.state = State::kChecking;
  return Result::kComplete;
}

std::vector<v1::ChunkRange> Staging::Held(const ContributionId& id, uint64_t incarnation) const {
  std::vector<v1::ChunkRange> ranges;
  const auto it = entries_.find(id);
  if (it == entries_.end() || it->second.incarnation != incarnation) {
    return ranges;
  }
  const std::vector<bool>& held = it->second.held;
  for (size_t i = 0; i < held.size(); ++i) {
    if (!held[i]) {
      continue;
    }
    if (i == 0 || !held[i - 1]) {
      ranges.emplace_back().set_first(static_cast<uint32_t>(i));
    }
    ranges.back().set_end(static_cast<uint32_t>(i) + 1);
  }
  return ranges;
}

bool Staging::Checking(const ContributionId& id, uint64_t incarnation) const {
  const auto it = entries_.find(id);
  return it != entries_.end() && it->second.incarnation == incarnation && it->second.state == State::kChecking;
}

const ContributionShape* Staging::ShapeOf(const ContributionId& id) const {
  const auto it = entries_.find(id);
  return it == entries_.end() ? nullptr : &it->second.shape;
}

uint64_t Staging::ReceivedBytes(const ContributionId& id) const {
  const auto it = entries_.find(id);
  if (it == entries_.end()) {
    return 0;
  }
  const Entry& entry = it->second;
  uint64_t bytes = 0;
  for (size_t i = 0; i < entry.held.size(); ++i) {
    const uint64_t begin = i * uint64_t{entry.shape.chunk_bytes};
    bytes += entry.held[i] ? std::min<uint64_t>(entry.shape.chunk_bytes, entry.shape.total_bytes - begin) : 0;
  }
  return bytes;
}

StagedBytes Staging::Bytes(const ContributionId& id) const {
  const auto it = entries_.find(id);
  return it == entries_.end() || it->second.missing > 0 ? nullptr : it->second.bytes;
}

bool Staging::Holds(const ContributionId& id, const StagedBytes& bytes) const {
  const auto it = entries_.find(id);
  return it != entries_.end() && it->second.bytes == bytes;
}

bool Staging::MarkStored(const ContributionId& id, const StagedBytes& bytes) {
  if (!Holds(id, bytes)) {
    return false;
  }
  entries_.at(id).state = State::kStored;
  return true;
}

void Staging::Drop(const ContributionId& id) {
  if (const auto it = entries_.find(id); it != entries_.end()) {
    Erase(it);
  }
}

std::vector<ContributionId> Staging::DropIncomplete(const std::string& worker, uint64_t keep) {
  std::vector<ContributionId> dropped;
  auto it = entries_.lower_bound(ContributionId{.worker = worker, .fragment = 0, .round = 0});
  while (it != entries_.end() && it->first.worker == worker) {
    if (it->second.state == State::kStored || it->second.incarnation == keep) {
      ++it;
      continue;
    }
    dropped.push_back(it->first);
    it = Erase(it);
  }
  return dropped;
}

void Staging::Clear() {
  entries_.clear();
  staged_bytes_ = 0;
}

Staging::Entries::iterator Staging::Erase(Entries::iterator it) {
  staged_bytes_ -= it->second.shape.total_bytes;
  return entries_.erase(it);
}

absl::Status CheckContribution(const Codec& codec, std::string_view encoded, uint64_t elements, const Digest& digest) {
  if (DigestOf(encoded) != digest) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the bytes have digest %s, announced was %s", DigestOf(encoded).Hex(), digest.Hex()));
  }
  DILOCO_RETURN_IF_ERROR(CheckEncoded(codec, encoded, elements));
  const double norm = Norm(codec, encoded, elements);
  if (!(norm <= kMaxContributionNorm)) {
    return absl::InvalidArgumentError(absl::StrFormat("the L2 norm %g is above %g", norm, kMaxContributionNorm));
  }
  return absl::OkStatus();
}

}  // namespace diloco
