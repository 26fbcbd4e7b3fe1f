// How encoding rounds: to nearest, or stochastically with random bits that are a function of what is rounded, so that
// any block encodes alone and a restarted sender repeats its bytes. codec_format.h says what each codec does with them.
#pragma once

#include <cstdint>
#include <string>

namespace diloco {

struct Rounding {
  bool stochastic = false;
  // The rest is for stochastic rounding only.
  uint64_t key = 0;          // RoundingRule makes it.
  uint64_t first_index = 0;  // Of the first value in its array; a multiple of kCodecBlock.

  // For the values from `elements` on.
  constexpr Rounding From(uint64_t elements) const { return {stochastic, key, first_index + elements}; }
};

inline constexpr Rounding kNearest = {};

// A permutation of the 32-bit integers in which every bit of the input reaches every bit of the output (constants: the
// hash prospector of C. Wellons, public domain).
inline constexpr uint32_t kMixFirst = 0x21F0AAAD;
inline constexpr uint32_t kMixSecond = 0x735A2D97;
constexpr uint32_t MixBits(uint32_t x) {
  x = (x ^ x >> 16) * kMixFirst;
  x = (x ^ x >> 15) * kMixSecond;
  return x ^ x >> 15;
}

// The key of indices [high * 2^32, (high + 1) * 2^32).
constexpr uint64_t RoundingSubkey(uint64_t key, uint64_t index) { return key + (index >> 32) * 0x9E3779B97F4A7C15u; }

// The random number of the value at `index`, in [0, 2^31).
constexpr uint32_t RoundingBits(uint64_t key, uint64_t index) {
  const uint64_t subkey = RoundingSubkey(key, index);
  const uint32_t mixed = MixBits(static_cast<uint32_t>(index) + static_cast<uint32_t>(subkey));
  return MixBits(mixed ^ static_cast<uint32_t>(subkey >> 32)) >> 1;
}

// What one sender rounds with. Every (seed, sender, round, fragment) has random bits of its own.
struct RoundingRule {
  bool stochastic = false;
  uint64_t seed = 0;   // run.seed.
  std::string sender;  // The worker id; empty: the coordinator.

  Rounding For(int64_t round, int fragment) const;
};

}  // namespace diloco
