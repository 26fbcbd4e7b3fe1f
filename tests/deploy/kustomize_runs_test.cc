// Every run.yaml of deploy/kustomize is one that the coordinator takes.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "common/config/config_file.h"
#include "common/config/run_config.h"
#include "tests/support/paths.h"

namespace diloco {
namespace {

TEST(KustomizeRunsTest, AreValid) {
  int runs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(testing::SourcePath("deploy/kustomize"))) {
    if (entry.path().filename() != "run.yaml") continue;
    ++runs;
    const absl::StatusOr<std::string> yaml = ReadConfigFile(entry.path().string());
    ASSERT_TRUE(yaml.ok()) << yaml.status();
    const absl::StatusOr<RunConfig> config = ParseRunConfig(*yaml, entry.path().string());
    EXPECT_TRUE(config.ok()) << config.status();
  }
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace diloco
