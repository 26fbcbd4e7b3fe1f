#include "coordinator/service/call_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace diloco {
namespace {

constexpr MonotonicTime kStart = {int64_t{1} << 40};
const CallLimits::Options kSmall = {.open_calls = 2, .calls = {.burst = 3, .per_second = 2}, .bytes_in_flight = 100};

TEST(CallLimitsTest, OpenCallsAreBoundedForEachCallerAlone) {
  CallLimits limits({.open_calls = 2, .calls = {.burst = 100, .per_second = 1}, .bytes_in_flight = 1});
  EXPECT_EQ(limits.Begin("east", kStart), std::nullopt);
  EXPECT_EQ(limits.Begin("east", kStart), std::nullopt);
  EXPECT_EQ(limits.Begin("east", kStart), CallLimit::kOpenCalls);
  EXPECT_EQ(limits.Begin("west", kStart), std::nullopt);
  limits.End("east", kStart);
  EXPECT_EQ(limits.Begin("east", kStart), std::nullopt);
}

TEST(CallLimitsTest, SoManyCallsAtOnceAndLaterSoManyASecond) {
  CallLimits limits(kSmall);
  const auto call = [&limits](MonotonicTime now) {
    const std::optional<CallLimit> over = limits.Begin("east", now);
    if (!over.has_value()) limits.End("east", now);
    return over;
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(kStart), std::nullopt);
  EXPECT_EQ(call(kStart), CallLimit::kCallRate);
  EXPECT_EQ(call(kStart + absl::Milliseconds(499)), CallLimit::kCallRate);
  EXPECT_EQ(call(kStart + absl::Milliseconds(501)), std::nullopt);
  EXPECT_EQ(call(kStart + absl::Milliseconds(502)), CallLimit::kCallRate);
  // However long it was silent.
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call(kStart + absl::Hours(1)), std::nullopt);
  EXPECT_EQ(call(kStart + absl::Hours(1)), CallLimit::kCallRate);
}

TEST(CallLimitsTest, BytesInFlightAreBoundedOverAllCallsOfACaller) {
  CallLimits limits(kSmall);
  EXPECT_EQ(limits.Begin("east", kStart), std::nullopt);
  EXPECT_EQ(limits.Begin("east", kStart), std::nullopt);
  EXPECT_EQ(limits.Begin("west", kStart), std::nullopt);
  EXPECT_TRUE(limits.Take("east", 60));
  EXPECT_TRUE(limits.Take("east", 40));
  EXPECT_FALSE(limits.Take("east", 1));
  EXPECT_TRUE(limits.Take("west", 100));
  limits.Give("east", 60);
  EXPECT_FALSE(limits.Take("east", 61));
  EXPECT_TRUE(limits.Take("east", 60));
}

TEST(CallLimitsTest, AStormIsNotForgottenBeforeItsTime) {
  CallLimits limits({.open_calls = 9, .calls = {.burst = 2, .per_second = 0.01}, .bytes_in_flight = 1});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(limits.Begin("east", kStart), std::nullopt);
    limits.End("east", kStart);
  }
  EXPECT_EQ(limits.Begin("east", kStart + absl::Seconds(90)), CallLimit::kCallRate);
  EXPECT_EQ(limits.Begin("east", kStart + absl::Seconds(101)), std::nullopt);
}

TEST(CallLimitsTest, EachLimitHasItsSentence) {
  for (const CallLimit limit : {CallLimit::kOpenCalls, CallLimit::kCallRate, CallLimit::kBytesInFlight}) {
    const absl::Status status = OverLimit(limit, kSmall, "spiffe://r1/worker/east");
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("spiffe://r1/worker/east"));
  }
}

}  // namespace
}  // namespace diloco
