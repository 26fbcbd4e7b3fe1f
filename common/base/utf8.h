// UTF-8, which protobuf strings, JSON and safetensors names must be.
#pragma once

#include <cstddef>
#include <string_view>

namespace diloco {

// Bytes before the first that breaks UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF);
// text.size() when all is well.
size_t ValidUtf8Prefix(std::string_view text);

inline bool IsValidUtf8(std::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

}  // namespace diloco
