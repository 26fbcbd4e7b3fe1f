// Early return on errors. Named apart from the macros that newer Abseil releases bring.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define DILOCO_CONCAT_INNER(a, b) a##b
#define DILOCO_CONCAT(a, b) DILOCO_CONCAT_INNER(a, b)

// Returns the status from the enclosing function unless it is OK.
#define DILOCO_RETURN_IF_ERROR(expression)                                \
  do {                                                                    \
    if (absl::Status diloco_status = (expression); !diloco_status.ok()) { \
      return diloco_status;                                               \
    }                                                                     \
  } while (false)

// Evaluates a StatusOr and assigns its value to `target` (a declaration or an lvalue), or returns its status.
#define DILOCO_ASSIGN_OR_RETURN(target, expression) \
  DILOCO_ASSIGN_OR_RETURN_INNER(DILOCO_CONCAT(diloco_statusor_, __LINE__), target, expression)
#define DILOCO_ASSIGN_OR_RETURN_INNER(statusor, target, expression) \
  auto statusor = (expression);                                     \
  if (!statusor.ok()) {                                             \
    return std::move(statusor).status();                            \
  }                                                                 \
  target = *std::move(statusor)
