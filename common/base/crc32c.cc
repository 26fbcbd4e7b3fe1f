#include "common/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace diloco {
namespace {

constexpr uint32_t kReflectedPolynomial = 0x82F63B78;

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReflectedPolynomial : 0);
    table[i] = crc;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kTable = MakeTable();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Sse42(std::string_view bytes) {
  uint64_t crc = 0xFFFFFFFF;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  uint32_t tail = static_cast<uint32_t>(crc);
  for (; left > 0; ++at, --left) tail = _mm_crc32_u8(tail, static_cast<uint8_t>(*at));
  return ~tail;
}
#endif

}  // namespace

Crc32c ComputeCrc32cPortable(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return {~crc};
}

Crc32c ComputeCrc32c(std::string_view bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return {Sse42(bytes)};
#endif
  return ComputeCrc32cPortable(bytes);
}

}  // namespace diloco
