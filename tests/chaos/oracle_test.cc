// The oracle sees what it is there for: a lost round, a changed one, another consensus.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/match.h"

#include "coordinator/store/journal_reader.h"
#include "coordinator/store/recovery.h"
#include "tests/chaos/cluster.h"
#include "tests/chaos/is_ok.h"

namespace diloco::testing {
namespace {

class OracleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(IsOk(cluster_.Start()));
    ASSERT_TRUE(IsOk(cluster_.AwaitEnd()));
    ASSERT_EQ(*cluster_.coordinator().Stop(), 0);
    ASSERT_TRUE(IsOk(cluster_.CheckEndedWell()));
  }

  // As if w0 had had this.
  void Forge(int64_t version, const std::string& digest) {
    std::ofstream trace(cluster_.folder().File("w0.0.jsonl"), std::ios::app);
    trace << nlohmann::json{{"event", "consensus"}, {"fragment", 0}, {"version", version}, {"digest", digest}} << '\n';
  }

  Cluster cluster_{{.config_yaml = "run: {id: oracle, workers: 2, rounds: 5}\n"
                                   "inner_steps: 2\n"
                                   "fragments: {count: 2}\n"
                                   "rounds: {heartbeat_interval: 100ms, lease: 20s, snapshot_every: 64}\n",
                    .elements = 200,
                    .tensors = 2,
                    .step_time = absl::Milliseconds(1)}};
};

TEST_F(OracleTest, AVersionThatTheJournalDoesNotHoldIsALoss) {
  const std::string digest = cluster_.Replay()->DigestOf(0, 5)->Hex();
  Forge(5, digest);
  EXPECT_TRUE(IsOk(cluster_.CheckNothingLost()));
  Forge(6, digest);
  EXPECT_TRUE(absl::IsDataLoss(cluster_.CheckNothingLost()));
}

TEST_F(OracleTest, AnotherDigestIsALoss) {
  Forge(3, std::string(32, '0'));
  EXPECT_TRUE(absl::IsDataLoss(cluster_.CheckNothingLost()));
}

TEST_F(OracleTest, ARoundThatIsCutOutOfTheJournalIsALoss) {
  const std::string folder = cluster_.coordinator().data_folder();
  const std::string path = JournalPath(folder, 1);  // Behind the seed's snapshot.
  const auto reader = *JournalReader::Open(PosixFileSystem(), path, 1);
  for (int rounds = 0; rounds < 4;) {
    const auto group = *reader->Next();
    ASSERT_TRUE(group);
    rounds += group->kind == GroupKind::kGlobalDelta ? 1 : 0;
  }
  std::filesystem::resize_file(path, reader->committed_bytes());
  for (const std::string& each : {folder, folder + "/copy"}) {
    std::filesystem::remove(SnapshotPath(each, 2));
    std::filesystem::remove(JournalPath(each, 2));
  }
  EXPECT_EQ(cluster_.Replay()->version(0), 2);
  EXPECT_TRUE(absl::IsDataLoss(cluster_.CheckNothingLost()));
  EXPECT_FALSE(cluster_.CheckEndedWell().ok());
}

}  // namespace
}  // namespace diloco::testing
