// What is compiled in is what lies in coordinator/page/web, and it fits the Content-Security-Policy.
#include "coordinator/page/web_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "tests/support/paths.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string SourceOf(const std::string& name) {
  std::ifstream in(testing::SourcePath("coordinator/page/web/" + name), std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(WebFilesTest, AreTheFilesOfTheFolderByteForByte) {
  std::set<std::string> names;
  for (const WebFile& file : WebFiles()) {
    const std::string name(file.name);
    names.insert(name);
    EXPECT_EQ(file.content, SourceOf(name)) << name;
    EXPECT_FALSE(file.content.empty()) << name;
  }
  for (const auto& entry : std::filesystem::directory_iterator(testing::SourcePath("coordinator/page/web"))) {
    EXPECT_TRUE(names.contains(entry.path().filename())) << entry.path() << " is not in CMakeLists.txt";
  }
}

TEST(WebFilesTest, HaveTheTypeOfTheirExtension) {
  const std::map<std::string, std::string> types = {{".html", "text/html; charset=utf-8"},
                                                    {".css", "text/css; charset=utf-8"},
                                                    {".js", "text/javascript; charset=utf-8"},
                                                    {".svg", "image/svg+xml"}};
  for (const WebFile& file : WebFiles()) {
    EXPECT_EQ(file.type, types.at(std::filesystem::path(file.name).extension())) << file.name;
  }
}

TEST(WebFilesTest, NothingIsInlineAndNothingIsParsedAsHtml) {
  for (const WebFile& file : WebFiles()) {
    const std::string text(file.content);
    for (const char* forbidden : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "<style",
                                  " style=", "javascript:", "://cdn"}) {
      EXPECT_THAT(text, Not(HasSubstr(forbidden))) << file.name;
    }
    // A script with a body, an attribute with a handler.
    EXPECT_FALSE(std::regex_search(text, std::regex("<script[^>]*>[^<]|<[a-z]+ [^>]* on[a-z]+="))) << file.name;
  }
}

}  // namespace
}  // namespace diloco
