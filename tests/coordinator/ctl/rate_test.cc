#include "coordinator/ctl/rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace diloco {
namespace {

TEST(RateTest, ReadsBitsAndBytes) {
  EXPECT_DOUBLE_EQ(ParseRate("--up", "8kbit").value(), 1e3);
  EXPECT_DOUBLE_EQ(ParseRate("--up", "400Mbit/s").value(), 50e6);
  EXPECT_DOUBLE_EQ(ParseRate("--up", "1.5Gbit").value(), 187.5e6);
  EXPECT_DOUBLE_EQ(ParseRate("--up", "2Tbit").value(), 250e9);
  EXPECT_DOUBLE_EQ(ParseRate("--up", "3kB").value(), 3e3);
  EXPECT_DOUBLE_EQ(ParseRate("--up", "10GB/s").value(), 10e9);
  EXPECT_TRUE(std::isinf(ParseRate("--up", "unlimited").value()));
}

TEST(RateTest, RefusesWhatIsNoRate) {
  for (const char* text :
       {"", "0Gbit", "-1Gbit", "1", "Gbit", "infGbit", "nanMbit", "1 Gbps", "1gbit", "1Gbit/s/s", "1e400Gbit"}) {
    const absl::Status status = ParseRate("--up", text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("use a rate above zero")) << text;
  }
}

TEST(RateTest, WritesBits) {
  EXPECT_EQ(RateText(50e6), "400 Mbit/s");
  EXPECT_EQ(RateText(187.5e6), "1.5 Gbit/s");
  EXPECT_EQ(RateText(1e3), "8 kbit/s");
  EXPECT_EQ(RateText(1e12), "8000 Gbit/s");
  EXPECT_EQ(RateText(std::numeric_limits<double>::infinity()), "unlimited");
}

}  // namespace
}  // namespace diloco
