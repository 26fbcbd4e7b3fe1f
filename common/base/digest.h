// 128-bit XXH3 digests: of layouts, contributions, global deltas and the consensus. They find accidents, not attacks.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace diloco {

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  friend auto operator<=>(const Digest&, const Digest&) = default;
  bool empty() const { return high == 0 && low == 0; }

  // 32 lower-case hex digits.
  std::string Hex() const;
  // 16 bytes, high half first, each half big-endian: the form on the wire. An empty digest gives an empty string.
  std::string Bytes() const;
  // Inverse of Bytes(). Anything but 16 bytes gives the empty digest.
  static Digest FromBytes(std::string_view bytes);
};

// Digest of one contiguous piece.
Digest DigestOf(std::string_view bytes);

// Digest of pieces, the same as of their concatenation.
class DigestBuilder {
 public:
  DigestBuilder();
  ~DigestBuilder();
  DigestBuilder(const DigestBuilder&) = delete;
  DigestBuilder& operator=(const DigestBuilder&) = delete;

  void Add(std::string_view bytes);
  // The float32 values as little-endian bytes.
  void Add(absl::Span<const float> values);
  Digest Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace diloco
