// Text as a JSON string, for what writes JSON line by line.
#pragma once

#include <string>
#include <string_view>

namespace diloco {

// In quotes, ASCII only: control characters, quotes, backslashes and all beyond ASCII are escaped, and bytes that are
// no UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace diloco
