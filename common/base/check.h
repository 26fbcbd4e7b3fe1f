// Assertions for programmer errors. Always on: what they guard is cheap beside a corrupted run. Bad input from outside
// (a file, a flag, a message, a peer) never ends here; it becomes an absl::Status.
#pragma once

#include <string_view>

namespace diloco::internal {

// Prints `file:line: check failed: condition` to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, std::string_view condition);

}  // namespace diloco::internal

#define DILOCO_CHECK(condition)                        \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::diloco::internal::CheckFailed(__FILE__, __LINE__, #condition))
