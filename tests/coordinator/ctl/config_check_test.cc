// `dilococtl config check`: what the coordinator would say of a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/config/config_json.h"
#include "tests/coordinator/ctl/offline.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

TEST(ConfigCheckTest, ShowsTheEffectiveConfiguration) {
  Offline ctl;
  const std::string file = testing::SourcePath("deploy/demo.yaml");
  EXPECT_EQ(ctl.Run({"config", "check", file}), 0) << ctl.err;
  const absl::StatusOr<RunConfig> config = ParseRunConfig(testing::ReadFile(file), file);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(ctl.out, ConfigText(*config));
  EXPECT_EQ(ctl.Run({"-o", "json", "config", "check", file}), 0) << ctl.err;
  EXPECT_EQ(nlohmann::json::parse(ctl.out)["run"]["id"], config->run.id);
}

TEST(ConfigCheckTest, NamesLineAndColumnOfWhatIsWrong) {
  const ::diloco::testing::TempFolder folder;
  const std::string file = folder.Write("run.yaml", "run: {id: r1, workers: 2, rounds: 3}\ninner_stpes: 30\n");
  Offline ctl;
  EXPECT_EQ(ctl.Run({"config", "check", file}), 2);
  EXPECT_EQ(ctl.out, "");
  EXPECT_THAT(ctl.err, ::testing::StartsWith("dilococtl: " + file + ":2:1: "));
  EXPECT_THAT(ctl.err, ::testing::HasSubstr("inner_stpes"));
}

TEST(ConfigCheckTest, AFileThatIsNotThereIsWrongUsage) {
  Offline ctl;
  EXPECT_EQ(ctl.Run({"config", "check", "/nowhere/run.yaml"}), 2);
  EXPECT_THAT(ctl.err, ::testing::HasSubstr("/nowhere/run.yaml"));
  EXPECT_EQ(ctl.Run({"config", "check"}), 2);
}

}  // namespace
}  // namespace diloco
