#include <gtest/gtest.h>

#include <string>

#include "common/config/run_config.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

TEST(DemoConfigTest, IsARunOfTwoEagerWorkers) {
  const std::string yaml = testing::ReadFile(testing::SourcePath("deploy/demo.yaml"));
  const auto config = ParseRunConfig(yaml, "deploy/demo.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->run.workers, 2);
  EXPECT_GE(config->run.rounds, 30);
  EXPECT_EQ(config->method, "eager");
  EXPECT_EQ(config->inner_steps, 30);
  EXPECT_EQ(config->wire.uplink, "e3m0");
  EXPECT_EQ(config->wire.downlink, "int8");
  EXPECT_TRUE(config->model.has_value());
}

}  // namespace
}  // namespace diloco
