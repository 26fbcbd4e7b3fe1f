#include "coordinator/ctl/confirm.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace diloco {

absl::Status Confirm(const CtlIo& io, bool yes, const std::string& what) {
  if (yes) return absl::OkStatus();
  const std::optional<std::string> answer = io.ask(absl::StrFormat("%s. Go on? [y/N] ", what));
  if (!answer) {
    return absl::InvalidArgumentError(absl::StrFormat("%s; give --yes, there is no terminal to ask at", what));
  }
  std::string word = *answer;
  absl::StripAsciiWhitespace(&word);
  absl::AsciiStrToLower(&word);
  if (word == "y" || word == "yes") return absl::OkStatus();
  return absl::CancelledError("not confirmed; nothing was changed");
}

}  // namespace diloco
