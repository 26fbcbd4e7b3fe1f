// What tests/RELIABILITY.md claims is shown by tests that exist.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/paths.h"

namespace diloco {
namespace {

std::string Read(const std::string& path) {
  std::ifstream file(testing::SourcePath(path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// "Suite.Name" of every test of a file.
std::set<std::string> TestsOf(const std::string& path) {
  const std::string text = Read(path);
  const std::regex macro(R"(\nTEST(_F|_P)?\(\s*(\w+),\s*(\w+)\))");
  std::set<std::string> tests;
  for (std::sregex_iterator it(text.begin(), text.end(), macro), end; it != end; ++it) {
    tests.insert((*it)[2].str() + "." + (*it)[3].str());
  }
  return tests;
}

// In a line, the tests behind a path are that file's.
TEST(ReliabilityTest, EveryTestThatItNamesExists) {
  const std::string text = Read("tests/RELIABILITY.md");
  const std::regex code(R"(`(tests/[\w/.]+\.cc)`|`([A-Z]\w+\.[A-Z]\w+)`)");
  std::map<std::string, std::set<std::string>> files;
  std::istringstream lines(text);
  size_t named = 0;
  for (std::string line; std::getline(lines, line);) {
    std::string file;
    for (std::sregex_iterator it(line.begin(), line.end(), code), end; it != end; ++it) {
      if ((*it)[1].matched) {
        file = (*it)[1];
        if (!files.contains(file)) files[file] = TestsOf(file);
        EXPECT_FALSE(files[file].empty()) << file << " has no tests";
      } else if (!file.empty()) {
        ++named;
        EXPECT_TRUE(files[file].contains((*it)[2])) << file << " has no " << (*it)[2];
      }
    }
  }
  EXPECT_GT(named, 100u);
}

TEST(ReliabilityTest, EveryLimitOfTheServiceHasARow) {
  const std::string text = Read("tests/RELIABILITY.md");
  const std::string limits = Read("common/base/limits.h");
  const std::regex constant(R"(\binline constexpr \S+ (kMax\w+) )");
  size_t found = 0;
  for (std::sregex_iterator it(limits.begin(), limits.end(), constant), end; it != end; ++it) {
    ++found;
    EXPECT_NE(text.find("`" + (*it)[1].str() + "`"), std::string::npos) << (*it)[1] << " is not in RELIABILITY.md";
  }
  EXPECT_GT(found, 20u);
}

}  // namespace
}  // namespace diloco
