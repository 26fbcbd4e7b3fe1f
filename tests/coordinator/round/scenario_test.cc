// Runs scenarios/*.txt. To record the output of a changed scenario: DILOCO_REWRITE=1 tests/diloco_round_scenario_test
#include "tests/coordinator/round/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace diloco {
namespace {

std::vector<std::filesystem::path> ScenarioFiles() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(DILOCO_SOURCE_DIR "/tests/coordinator/round/scenarios")) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ScenarioTest : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(ScenarioTest, GivesTheRecordedOutput) {
  const std::string recorded = ReadFile(GetParam());
  const std::string now = RunScenario(recorded);
  if (std::getenv("DILOCO_REWRITE") != nullptr) {
    std::ofstream(GetParam(), std::ios::binary) << now;
    return;
  }
  EXPECT_EQ(now, recorded) << "to record the new output: DILOCO_REWRITE=1";
}

std::string TestName(const testing::TestParamInfo<std::filesystem::path>& info) {
  std::string name = info.param.stem().string();
  std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, ScenarioTest, testing::ValuesIn(ScenarioFiles()), TestName);

}  // namespace
}  // namespace diloco
