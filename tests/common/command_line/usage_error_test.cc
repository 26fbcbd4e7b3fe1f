#include "common/command_line/usage_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace diloco {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// What a program with a required --config and a subcommand `list` says.
std::string Error(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "prog");
  std::string config;
  CLI::App app("About.", "prog");
  app.add_option("--config", config)->required();
  app.add_subcommand("list");
  app.require_subcommand(1);
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& error) {
    const absl::Status status = UsageError(app, error);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
    return std::string(status.message());
  }
  return "";
}

TEST(UsageErrorTest, NamesWhatIsMissing) {
  EXPECT_EQ(Error({"list"}), "--config is required; see prog --help");
  EXPECT_EQ(Error({"--config", "a"}), "A subcommand is required; see prog --help");
}

TEST(UsageErrorTest, AMistypedArgumentIsNamedThoughSomethingIsMissingToo) {
  EXPECT_EQ(Error({"--confg", "a", "list"}), "unknown argument --confg; see prog --help");
  EXPECT_EQ(Error({"--config", "a", "lisst"}), "unknown argument lisst; see prog --help");
  EXPECT_EQ(Error({"--config", "a", "list", "--colour"}), "unknown argument --colour; see prog --help");
}

TEST(UsageErrorTest, IsOneLineWhateverTheArgumentHolds) {
  EXPECT_THAT(Error({"--config", "a", "two\nlines\r"}), AllOf(HasSubstr("two lines"), EndsWith("see prog --help")));
}

}  // namespace
}  // namespace diloco
