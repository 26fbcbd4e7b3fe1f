// Walks the whole command line: every command says how it is used, and the README knows it.
#include "coordinator/ctl/command_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "coordinator/ctl/ctl.h"
#include "tests/support/paths.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void Collect(CLI::App* app, const std::string& path, bool with_nouns, std::vector<std::string>& paths) {
  for (CLI::App* child : app->get_subcommands([](CLI::App*) { return true; })) {
    const std::string name = path.empty() ? child->get_name() : absl::StrCat(path, " ", child->get_name());
    const bool is_noun = !child->get_subcommands([](CLI::App*) { return true; }).empty();
    if (with_nouns || !is_noun) paths.push_back(name);
    Collect(child, name, with_nouns, paths);
  }
}

std::vector<std::string> Paths(bool with_nouns) {
  CommandTree tree;
  std::vector<std::string> paths;
  Collect(&tree.app(), "", with_nouns, paths);
  return paths;
}

// No server, no clock: help needs neither.
std::string HelpOf(const std::string& path) {
  const std::vector<std::string> words = absl::StrSplit(absl::StrCat("dilococtl ", path, " --help"), ' ');
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::string out;
  const int code = RunCtl(static_cast<int>(argv.size()), argv.data(),
                          {.out = [&out](std::string_view text) { out += text; },
                           .err = [](std::string_view text) { ADD_FAILURE() << text; }});
  EXPECT_EQ(code, 0) << path;
  return out;
}

// The lines between "Examples:" and the empty line behind them.
std::vector<std::string> ExamplesIn(const std::string& help) {
  const std::string head = "Examples:\n";
  const size_t begin = help.find(head);
  if (begin == std::string::npos) return {};
  const std::string lines = help.substr(begin + head.size(), help.find("\n\n", begin) - begin - head.size());
  std::vector<std::string> examples;
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    examples.emplace_back(absl::StripAsciiWhitespace(line));
  }
  return examples;
}

// What a shell would hand over of an example: without the remark behind it, or what its output goes to.
std::vector<std::string> WordsOf(const std::string& example) {
  std::string command = example.substr(0, example.find(" | "));
  command = command.substr(0, command.find("  "));
  command = command.substr(0, command.find(" > "));
  return absl::StrSplit(command, ' ');
}

TEST(CommandTreeTest, HasEveryNounAndVerb) {
  const std::vector<std::string> paths = Paths(/*with_nouns=*/true);
  for (const char* path : {"status", "round", "round list", "round describe", "worker", "worker list", "worker drain",
                           "checkpoint save", "run recover", "plan"}) {
    EXPECT_THAT(paths, Contains(path));
  }
}

TEST(CommandTreeTest, HelpOfEachLeadsWithExamplesOfItself) {
  for (const std::string& path : Paths(/*with_nouns=*/true)) {
    const std::string help = HelpOf(path);
    const std::vector<std::string> examples = ExamplesIn(help);
    ASSERT_FALSE(examples.empty()) << path;
    EXPECT_LT(help.find("Examples:"), help.find("Usage:")) << path;
    for (const std::string& example : examples) {
      EXPECT_THAT(example, StartsWith("dilococtl ")) << path;
      EXPECT_THAT(example, HasSubstr(absl::StrCat(" ", path))) << path;
    }
  }
}

TEST(CommandTreeTest, EveryExampleCanBeTyped) {
  std::vector<std::string> examples = ExamplesIn(HelpOf(""));
  for (const std::string& path : Paths(/*with_nouns=*/true)) {
    for (const std::string& example : ExamplesIn(HelpOf(path))) examples.push_back(example);
  }
  EXPECT_GE(examples.size(), 20u);
  for (const std::string& example : examples) {
    std::vector<std::string> words = WordsOf(example);
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    CommandTree tree;
    try {
      tree.app().parse(static_cast<int>(argv.size()), argv.data());
      static_cast<void>(tree.parsed());
    } catch (const CLI::ParseError& error) {
      ADD_FAILURE() << example << ": " << error.what();
    }
  }
}

TEST(CommandTreeTest, HelpOfANounNamesItsVerbsAndNoOthersFlags) {
  const std::string help = HelpOf("round");
  EXPECT_THAT(help, StartsWith("Rounds: list, describe"));
  EXPECT_THAT(help, ::testing::Not(HasSubstr("--limit"))) << "of another command";
}

TEST(CommandTreeTest, TheReadmeNamesEachCommand) {
  std::ifstream file(testing::SourcePath("README.md"));
  std::stringstream readme;
  readme << file.rdbuf();
  for (const std::string& path : Paths(/*with_nouns=*/false)) {
    EXPECT_THAT(readme.str(), HasSubstr(absl::StrCat("| `dilococtl ", path))) << "the table of commands lacks it";
  }
}

}  // namespace
}  // namespace diloco
