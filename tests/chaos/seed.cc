#include "tests/chaos/seed.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

namespace diloco::testing {
namespace {

uint64_t ChosenSeed() {
  const char* text = std::getenv("DILOCO_CHAOS_SEED");
  return text == nullptr ? 1 : std::stoull(text);
}

}  // namespace

Seed::Seed() : value_(ChosenSeed()), random_(value_) {}

Seed::~Seed() {
  if (!::testing::Test::HasFailure()) return;
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::cerr << "seed " << value_ << "; the same choices again: DILOCO_CHAOS_SEED=" << value_
            << " build/tests/chaos_test --gtest_filter=" << test->test_suite_name() << '.' << test->name() << '\n';
}

}  // namespace diloco::testing
