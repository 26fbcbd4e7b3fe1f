// The numbers that deploy/RUNBOOK.md gives for what works together are those of the code.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "common/base/limits.h"
#include "coordinator/store/journal_format.h"
#include "tests/support/paths.h"
#include "worker/checkpoint/checkpoint_file.h"

namespace diloco {
namespace {

class RunbookTest : public ::testing::Test {
 protected:
  RunbookTest() {
    std::ifstream file(testing::SourcePath("deploy/RUNBOOK.md"));
    text_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }

  // Of the row with this name in the table of versions; empty: there is none.
  std::string NumberOf(const std::string& name) const {
    std::smatch match;
    return std::regex_search(text_, match, std::regex("\\n\\| " + name + " \\| (\\d+) \\|")) ? match[1].str() : "";
  }

  std::string text_;
};

TEST_F(RunbookTest, GivesTheVersionsThatWorkTogether) {
  EXPECT_EQ(NumberOf("contract"), std::to_string(kProtocolVersion));
  EXPECT_EQ(NumberOf("journal and snapshots"), std::to_string(kStoreFormatVersion));
  EXPECT_EQ(NumberOf("checkpoint"), std::to_string(kCheckpointFormatVersion));
}

TEST_F(RunbookTest, BuildsImagesOfThisRelease) {
  const std::regex image(R"(-t diloco-[\w-]+:(\S+) )");
  int images = 0;
  for (std::sregex_iterator it(text_.begin(), text_.end(), image), end; it != end; ++it, ++images) {
    EXPECT_EQ((*it)[1].str(), DILOCO_VERSION);
  }
  EXPECT_EQ(images, 3);
}

}  // namespace
}  // namespace diloco
