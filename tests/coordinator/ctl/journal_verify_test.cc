// `dilococtl journal verify`: a good folder, a torn one, damage anywhere, one in use, and that nothing is changed.
#include "coordinator/ctl/journal_verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/merge/merge.h"
#include "tests/coordinator/ctl/offline.h"
#include "tests/coordinator/driver/sim_cluster.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class JournalVerifyTest : public ::testing::Test {
 protected:
  JournalVerifyTest() { cluster_.Start(); }

  // All 5 rounds, snapshots at 0, 2, 4 and 5 (two are kept); then the coordinator is gone.
  void RunToTheEnd() {
    cluster_.Run();
    cluster_.Crash();
  }
  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder())) {
      if (entry.is_regular_file()) contents[entry.path()] = testing::ReadFile(entry.path());
    }
    return contents;
  }
  std::vector<std::string> Paths(const std::string& kind) const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder())) {
      const std::string path = entry.path();
      if (path.find("/" + kind + "-") != std::string::npos) paths.push_back(path);
    }
    std::sort(paths.begin(), paths.end());
    return paths;
  }
  std::string Oldest(const std::string& kind) const { return Paths(kind).front(); }
  std::string Newest(const std::string& kind) const { return Paths(kind).back(); }
  const std::string& folder() const { return cluster_.coordinator.data(); }

  SimCluster cluster_{RunYaml(2, 5, "fp32", "fp32", "rounds: {snapshot_every: 2}\n"), 2};
  Offline ctl_;
};

TEST_F(JournalVerifyTest, AGoodFolderIsReplayedAndNotChanged) {
  RunToTheEnd();
  const std::map<std::string, std::string> before = Contents();
  EXPECT_EQ(ctl_.Run({"journal", "verify", folder()}), 0) << ctl_.err;
  EXPECT_THAT(ctl_.out, HasSubstr("run        test, generation 0, 2 members\n"));
  EXPECT_THAT(ctl_.out, HasSubstr("consensus  version 5, replayed from version 4 with every digest as recorded\n"));
  EXPECT_THAT(ctl_.out, HasSubstr("ended      yes\nverdict    good\n"));
  EXPECT_THAT(ctl_.out, Not(HasSubstr("in use")));
  EXPECT_EQ(Contents(), before);

  EXPECT_EQ(ctl_.Run({"-o", "json", "journal", "verify", folder()}), 0);
  const nlohmann::json json = nlohmann::json::parse(ctl_.out);
  EXPECT_TRUE(json["in_use_by"].is_null());
  EXPECT_EQ(json["run_id"], "test");
  EXPECT_EQ(json["first_version"], 4);
  EXPECT_EQ(json["last_version"], 5);
  ASSERT_EQ(json["snapshots"].size(), 2u);
  EXPECT_EQ(json["snapshots"][0]["version"], 4);
  // What the end record says, which every worker has.
  const auto& end = cluster_.workers[0]->end();
  ASSERT_TRUE(end.has_value());
  for (int f = 0; f < 2; ++f) {
    EXPECT_EQ(json["consensus_digests"][static_cast<size_t>(f)],
              Digest::FromBytes(end->consensus_digests(f).value()).Hex());
  }
}

TEST_F(JournalVerifyTest, ATornTailIsSaidAndLeft) {
  RunToTheEnd();
  const std::string journal = Newest("journal");
  std::ofstream(journal, std::ios::app | std::ios::binary) << std::string(100, '\0');
  const std::map<std::string, std::string> before = Contents();
  EXPECT_EQ(ctl_.Run({"journal", "verify", folder()}), 0) << ctl_.err;
  EXPECT_THAT(ctl_.out, HasSubstr("torn: 100 bytes at the end were never committed, and a start cuts them"));
  EXPECT_EQ(Contents(), before);
}

// One bit anywhere in a snapshot, or in what a journal committed.
TEST_F(JournalVerifyTest, DamageIsFoundAndNamed) {
  RunToTheEnd();
  for (const std::string& path : {Newest("snapshot"), Newest("journal")}) {
    const std::string good = testing::ReadFile(path);
    for (size_t at = 8; at < good.size(); at += 997) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x10);
      testing::WriteFile(path, bad);
      const absl::StatusOr<JournalReport> report = VerifyJournal(folder(), &SerialFor);
      // Padding that no checksum covers is no damage; everything else is.
      if (report.ok()) {
        EXPECT_EQ(good[at], '\0') << path << " at " << at;
        continue;
      }
      EXPECT_EQ(report.status().code(), absl::StatusCode::kDataLoss) << report.status();
      EXPECT_THAT(std::string(report.status().message()), HasSubstr(path));
    }
    testing::WriteFile(path, good);
  }
  std::string bad = testing::ReadFile(Newest("snapshot"));
  bad[bad.size() - 1] = static_cast<char>(bad[bad.size() - 1] ^ 1);
  testing::WriteFile(Newest("snapshot"), bad);
  EXPECT_EQ(ctl_.Run({"journal", "verify", folder()}), 1);
  EXPECT_EQ(ctl_.out, "");
  EXPECT_THAT(ctl_.err, HasSubstr(Newest("snapshot")));
}

// The newest one may be absent: the disk had no room for it when its snapshot was written, and the one before went on.
TEST_F(JournalVerifyTest, AMissingJournalIsFound) {
  RunToTheEnd();
  std::filesystem::remove(Oldest("journal"));
  EXPECT_EQ(ctl_.Run({"journal", "verify", folder()}), 1);
  EXPECT_THAT(ctl_.err, HasSubstr("is missing"));
}

TEST_F(JournalVerifyTest, AFolderInUseIsReadAtEveryMoment) {
  int moments = 0;
  while (cluster_.Turn()) {
    if (++moments % 7 != 0) continue;
    const absl::StatusOr<JournalReport> report = VerifyJournal(folder(), &SerialFor);
    ASSERT_TRUE(report.ok()) << "after " << moments << " turns: " << report.status();
    EXPECT_EQ(report->holder, "the test");
  }
  EXPECT_GT(moments, 50);
  EXPECT_EQ(ctl_.Run({"journal", "verify", folder()}), 0) << ctl_.err;
  EXPECT_THAT(ctl_.out, HasSubstr(folder() + "; in use by \"the test\", read as it is\n"));
}

TEST(JournalVerifyFolderTest, ARunThatHasNothingYetIsGood) {
  Coordinator coordinator(RunYaml(2, 5, "fp32", "fp32"));
  ASSERT_TRUE(coordinator.Start().ok());
  Offline ctl;
  EXPECT_EQ(ctl.Run({"journal", "verify", coordinator.data()}), 0) << ctl.err;
  EXPECT_THAT(ctl.out, HasSubstr("run        none yet\nconsensus  not seeded\n"));
}

TEST(JournalVerifyFolderTest, AFolderThatIsNotThereIsNotFound) {
  Offline ctl;
  EXPECT_EQ(ctl.Run({"journal", "verify", "/nowhere"}), 4);
  EXPECT_THAT(ctl.err, HasSubstr("/nowhere"));
  const ::diloco::testing::TempFolder another;
  EXPECT_EQ(ctl.Run({"journal", "verify", another.path()}), 4);
  EXPECT_THAT(ctl.err, HasSubstr("there is no journal in \"" + another.path() + "\""));
  EXPECT_EQ(ctl.Run({"journal", "verify"}), 2);
}

}  // namespace
}  // namespace diloco
