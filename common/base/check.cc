#include "common/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace diloco::internal {

void CheckFailed(const char* file, int line, std::string_view condition) {
  std::fprintf(stderr, "%s:%d: check failed: %.*s\n", file, line, static_cast<int>(condition.size()), condition.data());
  std::abort();
}

}  // namespace diloco::internal
