// The completion script, in a real bash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "tests/coordinator/ctl/offline.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class CompletionTest : public ::testing::Test {
 protected:
  // What bash offers for the last of `words`, which are behind "dilococtl".
  std::vector<std::string> Complete(std::vector<std::string> words) {
    Offline ctl;
    EXPECT_EQ(ctl.Run({"completion", "bash"}), 0) << ctl.err;
    const std::string script = folder_.Write("completion.bash", ctl.out);
    words.insert(words.begin(), "dilococtl");
    for (std::string& word : words) word = absl::StrFormat("'%s'", word);
    const std::string line = absl::StrFormat(
        "cd '%s' && source '%s' && COMP_WORDS=(%s) && COMP_CWORD=%d; _dilococtl; printf '%%s\\n' \"${COMPREPLY[@]}\"",
        folder_.path(), script, absl::StrJoin(words, " "), words.size() - 1);
    const auto finished = testing::RunProcess({"/bin/bash", "--norc", "-c", line}, absl::Seconds(60));
    EXPECT_TRUE(finished.ok()) << finished.status();
    if (!finished.ok()) return {};
    EXPECT_EQ(finished->exit_code, 0) << finished->errors;
    EXPECT_EQ(finished->errors, "");
    return absl::StrSplit(finished->output, '\n', absl::SkipEmpty());
  }

  const ::diloco::testing::TempFolder folder_;
};

TEST_F(CompletionTest, OffersCommands) {
  EXPECT_THAT(Complete({"st"}), ElementsAre("status"));
  EXPECT_THAT(Complete({""}), IsSupersetOf({"status", "worker", "round", "checkpoint", "plan", "completion", "-o"}));
  EXPECT_THAT(Complete({"worker", "d"}), UnorderedElementsAre("describe", "drain"));
  EXPECT_THAT(Complete({"--coordinator", "x:1", "worker", "ev"}), ElementsAre("evict")) << "behind a global flag";
}

TEST_F(CompletionTest, OffersFlagsOfTheCommandAndOfTheProgram) {
  EXPECT_THAT(Complete({"round", "list", "--li"}), ElementsAre("--limit"));
  EXPECT_THAT(Complete({"worker", "drain", "west", "--y"}), ElementsAre("--yes"));
  EXPECT_THAT(Complete({"round", "list", "--coord"}), ElementsAre("--coordinator"));
  EXPECT_THAT(Complete({"worker", "list", "--"}), Not(Contains("--limit"))) << "of another command";
}

TEST_F(CompletionTest, OffersTheWordsThatAFlagTakes) {
  EXPECT_THAT(Complete({"-o", ""}), UnorderedElementsAre("table", "wide", "json"));
  EXPECT_THAT(Complete({"worker", "list", "--output", "w"}), ElementsAre("wide"));
  EXPECT_THAT(Complete({"completion", "b"}), ElementsAre("bash"));
}

TEST_F(CompletionTest, OffersFilesWhereACommandTakesOne) {
  folder_.Write("run.yaml", "x");
  EXPECT_THAT(Complete({"config", "check", "ru"}), ElementsAre("run.yaml"));
  EXPECT_THAT(Complete({"--tls-ca", "ru"}), ElementsAre("run.yaml"));
  EXPECT_THAT(Complete({"--coordinator", "ru"}), IsEmpty());
  EXPECT_THAT(Complete({"worker", "describe", "ru"}), IsEmpty()) << "the name of a worker is no file";
}

}  // namespace
}  // namespace diloco
