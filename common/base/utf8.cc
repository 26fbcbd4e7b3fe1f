#include "common/base/utf8.h"

#include <cstdint>

namespace diloco {

size_t ValidUtf8Prefix(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t start = i;
    const auto lead = static_cast<uint8_t>(text[i++]);
    if (lead < 0x80) continue;
    // Continuation bytes to come, and the range of the first: it alone rules out overlong forms and surrogates.
    size_t more = 0;
    uint8_t low = 0x80;
    uint8_t high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
      more = 1;
    } else if ((lead & 0xF0) == 0xE0) {
      more = 2;
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      more = 3;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    } else {
      return start;
    }
    for (; more > 0; --more, low = 0x80, high = 0xBF) {
      if (i == text.size()) return start;
      const auto next = static_cast<uint8_t>(text[i++]);
      if (next < low || next > high) return start;
    }
  }
  return text.size();
}

}  // namespace diloco
