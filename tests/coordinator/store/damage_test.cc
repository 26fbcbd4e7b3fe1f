// Journals and snapshots that were cut, zeroed or changed on disk: what was never committed is cut and said so, what
// was committed is refused or covered, never silently rewound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

#include "coordinator/store/journal_format.h"
#include "coordinator/store/store.h"
#include "tests/coordinator/store/fault_file_system.h"
#include "tests/coordinator/store/store_fixture.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kBlock = 4096;
constexpr char kJournal0[] = "data/journal-0000000000";
constexpr char kJournal1[] = "data/journal-0000000001";
constexpr char kJournal2[] = "data/journal-0000000002";
constexpr char kSnapshot1[] = "data/snapshot-0000000001";
constexpr char kSnapshot2[] = "data/snapshot-0000000002";

struct Opened {
  absl::Status status;
  std::unique_ptr<Store> store;
  RecoveredState recovered;
};

Opened Open(FaultFileSystem& files, int snapshots_kept = 2) {
  Opened opened;
  absl::StatusOr<std::unique_ptr<Store>> store = Store::Open(
      &files, StoreOptions{.folder = kFolder, .holder = "test", .snapshots_kept = snapshots_kept}, &opened.recovered);
  opened.status = store.status();
  if (store.ok()) opened.store = *std::move(store);
  return opened;
}

// The number behind "at offset " in a message; -1: there is none.
int64_t OffsetIn(const std::string& message) {
  constexpr std::string_view kBefore = "at offset ";
  const size_t at = message.find(kBefore);
  if (at == std::string::npos) return -1;
  const size_t from = at + kBefore.size();
  int64_t offset = -1;
  if (!absl::SimpleAtoi(message.substr(from, message.find_first_not_of("0123456789", from) - from), &offset)) return -1;
  return offset;
}

// Refused, naming the file and an offset not behind the damage and less than `reach` before it.
void ExpectRefused(const Opened& opened, const std::string& path, size_t damaged_at, size_t reach) {
  ASSERT_TRUE(absl::IsDataLoss(opened.status)) << damaged_at << ": " << opened.status;
  const std::string message(opened.status.message());
  ASSERT_THAT(message, HasSubstr(absl::StrFormat("\"%s\" is damaged at offset", path)));
  const int64_t offset = OffsetIn(message);
  ASSERT_LE(offset, static_cast<int64_t>(damaged_at)) << message;
  ASSERT_GT(offset + static_cast<int64_t>(reach), static_cast<int64_t>(damaged_at)) << message;
}

// A folder whose only journal ends with the group that `last` appends.
struct JournalCase {
  std::string name;
  std::function<absl::Status(Recorder&)> last;
};

class JournalTest : public testing::TestWithParam<JournalCase> {
 protected:
  void SetUp() override {
    Opened opened = Open(files_);
    ASSERT_TRUE(opened.status.ok());
    Recorder recorder(opened.store.get());
    ASSERT_TRUE(recorder.Run(MakeRun()).ok());
    ASSERT_TRUE(recorder.Member(MakeMember("east", 1)).ok());
    ASSERT_TRUE(recorder.Snapshot(0).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(0, 0)).ok());
    before_ = recorder.expected();
    committed_before_ = files_.Contents(kJournal1).size();
    ASSERT_TRUE(GetParam().last(recorder).ok());
    after_ = recorder.expected();
    journal_ = files_.Contents(kJournal1);
  }

  // What a store finds in `contents`, where the last group is not whole, and that it goes on from there.
  void ExpectCut(const std::string& contents) {
    files_.SetContents(kJournal1, contents);
    Opened opened = Open(files_);
    ASSERT_TRUE(opened.status.ok()) << opened.status;
    ASSERT_EQ(Summarise(opened.recovered), before_);
    if (contents.size() == committed_before_) {
      ASSERT_THAT(opened.recovered.warnings, IsEmpty());
    } else {
      ASSERT_THAT(opened.recovered.warnings,
                  ElementsAre(absl::StrFormat("\"%s\": cut %d bytes at offset %d that were never committed", kJournal1,
                                              contents.size() - committed_before_, committed_before_)));
    }
    Recorder recorder(opened.store.get(), opened.recovered);
    ASSERT_TRUE(recorder.Member(MakeMember("west", 7)).ok());
    opened.store.reset();
    const Opened again = Open(files_);
    ASSERT_TRUE(again.status.ok()) << again.status;
    ASSERT_EQ(Summarise(again.recovered), recorder.expected());
    ASSERT_THAT(again.recovered.warnings, IsEmpty());
  }

  FaultFileSystem files_;
  Expected before_;
  Expected after_;
  size_t committed_before_ = 0;
  std::string journal_;
};

TEST_P(JournalTest, CutAtEveryByteOpensAtTheCommitBefore) {
  for (size_t cut = committed_before_; cut < journal_.size(); ++cut) {
    ExpectCut(journal_.substr(0, cut));
    if (HasFatalFailure()) FAIL() << "cut at " << cut;
  }
}

TEST_P(JournalTest, ZerosFromEveryByteOnOpenAtTheCommitBefore) {
  for (size_t cut = committed_before_; cut < journal_.size(); ++cut) {
    ExpectCut(journal_.substr(0, cut) + std::string(journal_.size() - cut, '\0'));
    if (HasFatalFailure()) FAIL() << "zeros from " << cut;
  }
}

TEST_P(JournalTest, EveryCommittedByteFlippedIsRefused) {
  for (size_t at = 0; at < journal_.size(); ++at) {
    std::string damaged = journal_;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    files_.SetContents(kJournal1, damaged);
    ExpectRefused(Open(files_), kJournal1, at, 2 * kBlock);
    ASSERT_EQ(files_.Contents(kJournal1), damaged) << "changed although it was refused";
    if (HasFatalFailure()) FAIL() << "flipped " << at;
  }
  files_.SetContents(kJournal1, journal_);
  EXPECT_EQ(Summarise(Open(files_).recovered), after_);
}

TEST_P(JournalTest, EveryCommittedByteZeroedIsRefused) {
  // All but the very last, which is what a cut with zeros in place looks like.
  for (size_t at = 0; at + 1 < journal_.size(); ++at) {
    if (journal_[at] == '\0') continue;
    std::string damaged = journal_;
    damaged[at] = '\0';
    files_.SetContents(kJournal1, damaged);
    ExpectRefused(Open(files_), kJournal1, at, 2 * kBlock);
    if (HasFatalFailure()) FAIL() << "zeroed " << at;
  }
}

TEST_P(JournalTest, CommittedBytesOverwrittenInARowAreRefused) {
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 500; ++trial) {
    const size_t count = 1 + random() % (kBlock - 16);
    const size_t at = random() % (journal_.size() - count);
    std::string damaged = journal_;
    for (size_t i = at; i < at + count; ++i) damaged[i] = static_cast<char>(1 + random() % 255);
    files_.SetContents(kJournal1, damaged);
    const Opened opened = Open(files_);
    ASSERT_TRUE(absl::IsDataLoss(opened.status)) << count << " bytes at " << at << ": " << opened.status;
  }
}

TEST_P(JournalTest, WholeBlocksLostBeforeTheLastCommitAreRefused) {
  for (size_t at = 0; at + kBlock < journal_.size(); at += kBlock) {
    std::string damaged = journal_;
    damaged.replace(at, kBlock, kBlock, '\0');
    files_.SetContents(kJournal1, damaged);
    ExpectRefused(Open(files_), kJournal1, at, 2 * kBlock);
  }
}

INSTANTIATE_TEST_SUITE_P(
    LastGroup, JournalTest,
    testing::Values(JournalCase{"Member", [](Recorder& r) { return r.Member(MakeMember("west", 2)); }},
                    JournalCase{"GlobalDelta", [](Recorder& r) { return r.Delta(MakeDelta(1, 0, 1500)); }},
                    JournalCase{"LargeRun", [](Recorder& r) { return r.Run(MakeRun(4100)); }}),
    [](const auto& param_info) { return param_info.param.name; });

// Files of a run with two snapshots, each with a global delta of the round it lacks.
class SnapshotTest : public testing::Test {
 protected:
  void SetUp() override {
    Opened opened = Open(files_);
    ASSERT_TRUE(opened.status.ok());
    Recorder recorder(opened.store.get());
    ASSERT_TRUE(recorder.Run(MakeRun()).ok());
    ASSERT_TRUE(recorder.Snapshot(0).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(0, 0)).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(1, 0)).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(0, 1)).ok());
    ASSERT_TRUE(recorder.Member(MakeMember("east", 1)).ok());
    replayed_ = recorder.expected();
    ASSERT_TRUE(recorder.Snapshot(1).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(1, 1)).ok());
    whole_ = recorder.expected();
    // From the older snapshot: that version, and every global delta.
    replayed_.deltas.push_back(MakeDelta(1, 1)->messages);
  }

  // Each byte of the file changed, and many of its lengths but the whole.
  void ForEachDamage(const std::string& path, const std::function<void(size_t)>& check) {
    constexpr size_t kCutEvery = 64;
    const std::string contents = files_.Contents(path);
    for (size_t at = 0; at < contents.size(); ++at) {
      std::string damaged = contents;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
      files_.SetContents(path, damaged);
      check(at);
      if (HasFatalFailure()) FAIL() << "flipped " << at;
      if (at % kCutEvery != 0) continue;
      files_.SetContents(path, contents.substr(0, at));
      check(at);
      if (HasFatalFailure()) FAIL() << "cut at " << at;
    }
    files_.SetContents(path, contents);
  }

  FaultFileSystem files_;
  Expected whole_;
  Expected replayed_;
};

TEST_F(SnapshotTest, DamagedNewestFallsBackToTheOneBefore) {
  ForEachDamage(kSnapshot2, [&](size_t at) {
    const Opened opened = Open(files_);
    ASSERT_TRUE(opened.status.ok()) << opened.status;
    ASSERT_EQ(Summarise(opened.recovered), replayed_);
    ASSERT_EQ(opened.recovered.consensus, MakeConsensus(0));
    ASSERT_EQ(opened.recovered.warnings.size(), 1u);
    const std::string& warning = opened.recovered.warnings[0];
    ASSERT_THAT(warning, HasSubstr(absl::StrFormat("\"%s\" is damaged at offset", kSnapshot2)));
    ASSERT_LE(OffsetIn(warning), static_cast<int64_t>(at));
    ASSERT_EQ(opened.store->NewestSnapshot()->path, kSnapshot1);
  });
}

TEST_F(SnapshotTest, NextOneAfterAFallbackLeavesTwoGoodOnes) {
  files_.SetContents(kSnapshot2, "x");
  Opened opened = Open(files_);
  ASSERT_TRUE(opened.status.ok());
  Recorder recorder(opened.store.get(), opened.recovered);
  ASSERT_TRUE(recorder.Snapshot(2).ok());
  opened.store.reset();
  EXPECT_FALSE(files_.Exists(kSnapshot2));
  opened = Open(files_);
  EXPECT_EQ(Summarise(opened.recovered), recorder.expected());
  EXPECT_THAT(opened.recovered.warnings, IsEmpty());
  opened.store.reset();

  files_.SetContents("data/snapshot-0000000003", "x");
  opened = Open(files_);
  ASSERT_TRUE(opened.status.ok()) << opened.status;
  EXPECT_EQ(Summarise(opened.recovered), replayed_);
}

TEST_F(SnapshotTest, NewestCoversWhatLiesBeforeIt) {
  for (const char* const path : {kSnapshot1, kJournal1}) {
    ForEachDamage(path, [&](size_t) {
      const Opened opened = Open(files_);
      ASSERT_TRUE(opened.status.ok()) << opened.status;
      ASSERT_EQ(Summarise(opened.recovered), whole_);
    });
  }
}

TEST_F(SnapshotTest, JournalBehindAFallbackMustBeWhole) {
  files_.SetContents(kSnapshot2, "x");
  ForEachDamage(kJournal1, [&](size_t at) {
    const Opened opened = Open(files_);
    ASSERT_TRUE(absl::IsDataLoss(opened.status)) << at << ": " << opened.status;
    ASSERT_THAT(std::string(opened.status.message()),
                HasSubstr(absl::StrFormat("\"%s\" is damaged at offset", kJournal1)));
  });
}

TEST_F(SnapshotTest, RefusedWhenNoneIsGood) {
  files_.SetContents(kSnapshot1, "x");
  files_.SetContents(kSnapshot2, "x");
  ExpectRefused(Open(files_), kSnapshot2, 1, 1);
}

TEST_F(SnapshotTest, RefusedWhenTheJournalIsGone) {
  ASSERT_TRUE(files_.Remove(kJournal1).ok());
  ASSERT_TRUE(files_.Remove(kJournal2).ok());
  const Opened opened = Open(files_);
  EXPECT_TRUE(absl::IsDataLoss(opened.status));
  EXPECT_THAT(std::string(opened.status.message()), HasSubstr(kJournal2));
}

TEST_F(SnapshotTest, RefusedWhenAJournalInBetweenIsGone) {
  {
    Opened opened = Open(files_, /*snapshots_kept=*/3);
    Recorder recorder(opened.store.get(), opened.recovered);
    ASSERT_TRUE(recorder.Snapshot(2).ok());
  }
  ASSERT_TRUE(files_.Remove(kJournal2).ok());
  files_.SetContents(kSnapshot2, "x");
  files_.SetContents("data/snapshot-0000000003", "x");
  const Opened opened = Open(files_);
  EXPECT_TRUE(absl::IsDataLoss(opened.status)) << opened.status;
  EXPECT_THAT(std::string(opened.status.message()), HasSubstr(absl::StrFormat("\"%s\" is missing", kJournal2)));
}

TEST_F(SnapshotTest, BadOneWithoutItsJournalIsReplaced) {
  // As when the power went before the new journal had its name, and the snapshot went bad since.
  ASSERT_TRUE(files_.Remove(kJournal2).ok());
  files_.SetContents(kSnapshot2, "x");
  {
    Opened opened = Open(files_);
    ASSERT_TRUE(opened.status.ok()) << opened.status;
    Recorder recorder(opened.store.get(), opened.recovered);
    ASSERT_TRUE(recorder.Snapshot(1).ok());
  }
  EXPECT_FALSE(files_.Exists(kSnapshot2));
  const Opened opened = Open(files_);
  ASSERT_TRUE(opened.status.ok()) << opened.status;
  EXPECT_EQ(opened.recovered.snapshot->version(), 1);
  EXPECT_EQ(opened.recovered.consensus, MakeConsensus(1));
  EXPECT_THAT(opened.recovered.warnings, IsEmpty());
}

TEST_F(SnapshotTest, FilesUnderEachOthersNamesAreRefused) {
  files_.SetContents(kJournal2, files_.Contents(kJournal1));
  ExpectRefused(Open(files_), kJournal2, 0, 1);
  files_.SetContents(kSnapshot2, files_.Contents(kSnapshot1));
  files_.SetContents(kSnapshot1, "x");
  ExpectRefused(Open(files_), kSnapshot2, 0, 1);
}

class TailTest : public testing::Test {
 protected:
  void SetUp() override {
    Opened opened = Open(files_);
    Recorder recorder(opened.store.get());
    ASSERT_TRUE(recorder.Run(MakeRun()).ok());
    ASSERT_TRUE(recorder.Member(MakeMember("east", 1)).ok());
    expected_ = recorder.expected();
  }
  FaultFileSystem files_;
  Expected expected_;
};

TEST_F(TailTest, GarbageWithoutACommitIsCut) {
  std::mt19937_64 random(3);
  const std::string journal = files_.Contents(kJournal0);
  for (const size_t bytes : {1u, 100u, 4095u, 4096u, 4097u, 3000000u}) {
    std::string garbage(bytes, '\0');
    for (char& byte : garbage) byte = static_cast<char>(random());
    files_.SetContents(kJournal0, journal + garbage);
    const Opened opened = Open(files_);
    ASSERT_TRUE(opened.status.ok()) << opened.status;
    EXPECT_EQ(Summarise(opened.recovered), expected_);
    EXPECT_EQ(opened.recovered.warnings.size(), 1u);
    EXPECT_EQ(files_.Contents(kJournal0), journal);
  }
}

TEST_F(TailTest, CommitFarBehindDamageIsFound) {
  const std::string journal = files_.Contents(kJournal0);
  files_.SetContents(kJournal0, journal + std::string(800 * kBlock, '\0') + journal.substr(journal.size() - kBlock));
  ExpectRefused(Open(files_), kJournal0, journal.size(), kBlock);
}

TEST_F(TailTest, CommitThatEndsInZerosIsTornOnlyAtTheEnd) {
  std::string journal = files_.Contents(kJournal0);
  const size_t last = journal.size() - kBlock;
  journal.back() = '\0';
  journal += std::string(kBlock, '\0') + "records of a group that came after it";
  files_.SetContents(kJournal0, journal);
  ExpectRefused(Open(files_), kJournal0, last, 1);
}

TEST_F(TailTest, BlockInTheWrongPlaceIsRefused) {
  // The same commit once more: good in itself, but it says that it belongs elsewhere.
  const std::string journal = files_.Contents(kJournal0);
  files_.SetContents(kJournal0, journal + journal.substr(journal.size() - kBlock));
  ExpectRefused(Open(files_), kJournal0, journal.size(), 1);
}

TEST_F(TailTest, BlockOfAnotherJournalIsRefused) {
  {
    Opened opened = Open(files_);
    Recorder recorder(opened.store.get(), opened.recovered);
    ASSERT_TRUE(recorder.Snapshot(0).ok());
    ASSERT_TRUE(recorder.Run(MakeRun()).ok());
  }
  // The second block of both is a commit that is good by itself.
  const std::string other = files_.Contents(kJournal1);
  files_.SetContents(kJournal0, EncodeJournalHeader({}) + other.substr(kBlock, kBlock));
  ASSERT_TRUE(files_.Remove(kJournal1).ok());
  ASSERT_TRUE(files_.Remove(kSnapshot1).ok());
  ExpectRefused(Open(files_), kJournal0, kBlock, 1);
}

TEST_F(TailTest, RecordsOfAnotherGroupAreRefused) {
  {
    Opened opened = Open(files_);
    Recorder recorder(opened.store.get(), opened.recovered);
    ASSERT_TRUE(recorder.Snapshot(1).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(1, 1)).ok());
    ASSERT_TRUE(recorder.Delta(MakeDelta(2, 1)).ok());
  }
  // Header, then two groups of a block of records and a commit: the second gets the first one's records, which have
  // the same sizes.
  std::string journal = files_.Contents(kJournal1);
  ASSERT_EQ(journal.size(), 5 * kBlock);
  journal.replace(3 * kBlock, kBlock, journal, kBlock, kBlock);
  files_.SetContents(kJournal1, journal);
  ExpectRefused(Open(files_), kJournal1, 4 * kBlock, 1);
}

TEST_F(TailTest, GroupsThatDoNotFitTogetherAreRefused) {
  const auto refused = [this](const std::function<absl::Status(Store&)>& append, const char* why) {
    FaultFileSystem files;
    files.SetContents(kJournal0, files_.Contents(kJournal0));
    {
      Opened opened = Open(files);
      ASSERT_TRUE(opened.status.ok());
      ASSERT_TRUE(append(*opened.store).ok());
    }
    const Opened opened = Open(files);
    EXPECT_TRUE(absl::IsDataLoss(opened.status)) << opened.status;
    EXPECT_THAT(std::string(opened.status.message()), HasSubstr(why));
  };
  refused([](Store& store) { return store.AppendGlobalDelta(*MakeDelta(0, 0)); }, "before the first snapshot");
  refused(
      [](Store& store) {
        v1::MemberRecord member = MakeMember("west", 1);
        member.set_run_id("run-2");
        return store.AppendMember(member);
      },
      "it belongs to run \"run-2\" in the folder of run \"run-1\"");
  const auto with_snapshot = [](Store& store, std::vector<std::shared_ptr<const PublishedDelta>> deltas) {
    Recorder recorder(&store);
    absl::Status status = recorder.Run(MakeRun());
    status.Update(recorder.Snapshot(0));
    for (const auto& delta : deltas) status.Update(store.AppendGlobalDelta(*delta));
    return status;
  };
  refused(
      [&](Store& store) {
        return with_snapshot(store, {MakeDelta(0, 0), MakeDelta(0, 2)});
      },
      "fragment 0 continues with round 2, but round 1 is missing");
  refused(
      [&](Store& store) {
        return with_snapshot(store, {MakeDelta(1, 0), MakeDelta(1, 0, 41)});
      },
      "fragment 1, round 0 is there twice and differs");
}

}  // namespace
}  // namespace diloco
