// ASSERT_TRUE(IsOk(status)) says what went wrong.
#pragma once

#include <gtest/gtest.h>

#include "absl/status/status.h"

namespace diloco::testing {

inline ::testing::AssertionResult IsOk(const absl::Status& status) {
  if (status.ok()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.ToString();
}

}  // namespace diloco::testing
