// The checkers have teeth: each rule that is broken on purpose is found within a thousand seeds.
#include "tests/sim/shims.h"

#include <cstdio>
#include <string>

#include "gtest/gtest.h"

#include "spdlog/spdlog.h"
#include "tests/sim/runner.h"

namespace diloco::sim {
namespace {

class ShimsTest : public testing::TestWithParam<NamedShim> {
 protected:
  void SetUp() override { spdlog::set_level(spdlog::level::off); }
};

TEST_P(ShimsTest, IsFoundWithinAThousandSeeds) {
  const RunnerResult result = RunSeeds({.first_seed = 1, .seeds = 1000, .shim = GetParam().shim});
  ASSERT_FALSE(result.failure.empty()) << result.Summary();
  std::printf("%s: found at seed %d, after %d events: %s\n", std::string(GetParam().name).c_str(),
              static_cast<int>(result.failed_seed), static_cast<int>(result.events),
              result.failure.substr(0, result.failure.find('\n')).c_str());
}

INSTANTIATE_TEST_SUITE_P(Each, ShimsTest, testing::ValuesIn(kShims), [](const testing::TestParamInfo<NamedShim>& each) {
  std::string name(each.param.name);
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace diloco::sim
