// Rules for names that travel: run ids and worker ids.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace diloco {

// OK for 1 to 64 of [A-Za-z0-9._-], starting with a letter or digit; so a name is safe in a label, a path, a page.
// `what` names the value in the error, such as "worker id". Errors: kInvalidArgument.
absl::Status ValidateName(std::string_view what, std::string_view name);

}  // namespace diloco
