// UTF-8, which protobuf strings, JSON and safetensors names must be.
#pragma once

#include <string_view>

namespace diloco {

// True for well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). Empty is valid.
bool IsValidUtf8(std::string_view text);

}  // namespace diloco
