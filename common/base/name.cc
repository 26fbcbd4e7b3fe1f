#include "common/base/name.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "common/base/limits.h"

namespace diloco {

absl::Status ValidateName(std::string_view what, std::string_view name) {
  bool valid =
      !name.empty() && name.size() <= kMaxNameBytes && absl::ascii_isalnum(static_cast<unsigned char>(name.front()));
  for (const char c : name) {
    valid = valid && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-');
  }
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s \"%s\": use 1 to %d of [A-Za-z0-9._-], starting with a letter or digit", what,
                      absl::CHexEscape(std::string(name.substr(0, kMaxNameBytes))), kMaxNameBytes));
}

}  // namespace diloco
