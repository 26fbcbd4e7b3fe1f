// Runs scenarios/*.txt. To record the output of a changed scenario: DILOCO_REWRITE=1 tests/diloco_round_scenario_test
#include "tests/coordinator/round/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/paths.h"

namespace diloco {
namespace {

std::vector<std::filesystem::path> ScenarioFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::SourcePath("tests/coordinator/round/scenarios"))) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ScenarioTest, EveryFileGivesTheRecordedOutput) {
  const std::vector<std::filesystem::path> files = ScenarioFiles();
  ASSERT_FALSE(files.empty());
  for (const std::filesystem::path& file : files) {
    SCOPED_TRACE(file.filename());
    const std::string recorded = ReadFile(file);
    const std::string now = RunScenario(recorded);
    if (std::getenv("DILOCO_REWRITE") != nullptr) {
      std::ofstream(file, std::ios::binary) << now;
    } else {
      EXPECT_EQ(now, recorded) << "to record the new output: DILOCO_REWRITE=1";
    }
  }
}

}  // namespace
}  // namespace diloco
