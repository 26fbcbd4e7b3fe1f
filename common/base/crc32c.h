// CRC32C (Castagnoli): the checksum of chunks on the wire and of journal records. A type of its own, so that it is
// never mistaken for a size or a count.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>

namespace diloco {

struct Crc32c {
  uint32_t value = 0;
  friend auto operator<=>(const Crc32c&, const Crc32c&) = default;
};

// Hardware instruction where the processor has it. Empty input gives 0.
Crc32c ComputeCrc32c(std::string_view bytes);

// The same, table-driven: for processors without the instruction, and for the test that both agree.
Crc32c ComputeCrc32cPortable(std::string_view bytes);

}  // namespace diloco
