#include "common/base/digest.h"

#include <xxhash.h>

#include <bit>

#include "absl/strings/str_format.h"

#include "common/base/check.h"

namespace diloco {

static_assert(std::endian::native == std::endian::little, "tensors are hashed and sent in memory order");

std::string Digest::Hex() const { return absl::StrFormat("%016x%016x", high, low); }

std::string Digest::Bytes() const {
  if (empty()) return "";
  std::string bytes(16, '\0');
  for (int i = 0; i < 8; ++i) {
    bytes[static_cast<size_t>(i)] = static_cast<char>(high >> (56 - 8 * i));
    bytes[static_cast<size_t>(8 + i)] = static_cast<char>(low >> (56 - 8 * i));
  }
  return bytes;
}

Digest Digest::FromBytes(std::string_view bytes) {
  Digest digest;
  if (bytes.size() != 16) return digest;
  for (size_t i = 0; i < 8; ++i) {
    digest.high = digest.high << 8 | static_cast<uint8_t>(bytes[i]);
    digest.low = digest.low << 8 | static_cast<uint8_t>(bytes[8 + i]);
  }
  return digest;
}

Digest DigestOf(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

struct DigestBuilder::State {
  XXH3_state_t* hash = XXH3_createState();
  ~State() { XXH3_freeState(hash); }
};

DigestBuilder::DigestBuilder() : state_(std::make_unique<State>()) {
  DILOCO_CHECK(state_->hash != nullptr);
  XXH3_128bits_reset(state_->hash);
}
DigestBuilder::~DigestBuilder() = default;

void DigestBuilder::Add(std::string_view bytes) { XXH3_128bits_update(state_->hash, bytes.data(), bytes.size()); }

void DigestBuilder::Add(absl::Span<const float> values) {
  XXH3_128bits_update(state_->hash, values.data(), values.size() * sizeof(float));
}

Digest DigestBuilder::Finish() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->hash);
  return {hash.high64, hash.low64};
}

}  // namespace diloco
