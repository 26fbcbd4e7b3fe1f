// The files of coordinator/page/web, compiled into the program.
#pragma once

#include <string_view>

#include "absl/types/span.h"

namespace diloco {

struct WebFile {
  std::string_view name;  // Such as "main.js".
  std::string_view type;  // Content-Type.
  std::string_view content;
};

absl::Span<const WebFile> WebFiles();

}  // namespace diloco
