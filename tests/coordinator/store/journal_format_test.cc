// The bytes of a journal, put together here by hand from the grammar in journal_format.h.
#include "coordinator/store/journal_format.h"

#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "coordinator/store/journal_reader.h"
#include "coordinator/store/journal_writer.h"
#include "tests/coordinator/store/fault_file_system.h"

namespace diloco {
namespace {

constexpr char kPath[] = "data/journal-0000000007";

std::string Little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}
std::string Crc(const std::string& bytes) { return Little(ComputeCrc32cPortable(bytes).value, 4); }

std::string Block(const std::string& magic, std::string rest) {
  rest.resize(4096 - 12);
  return magic + Crc(rest) + rest;
}
std::string RecordHeader(const std::string& payload) {
  const std::string start =
      "\x89"
      "DLR" +
      Little(payload.size(), 4) + Crc(payload);
  return start + Crc(start);
}
std::string Commit(uint32_t kind, uint64_t offset, uint64_t body_bytes, uint32_t records, const std::string& digests,
                   const std::string& payload) {
  std::string rest = Little(kind, 4) + Little(7, 8) + Little(offset, 8) + Little(body_bytes, 8) + Little(records, 4) +
                     Crc(digests) + Little(payload.size(), 4) + Little(0, 4) + payload;
  rest.resize(4096 - 12 - 8);
  return Block(
      "\x89"
      "DLCMIT\n",
      rest + "\nDLEND\x8F\xA5");
}

std::string Golden() {
  const std::string chunk(5000, 'a');
  const std::string settled = "settled";
  std::string journal = Block(
      "\x89"
      "DLJRNL\n",
      Little(1, 4) + Little(7, 8) + Little(5, 8) + Little(8192, 8));
  journal += Commit(2, 4096, 0, 0, "", "member");
  journal += RecordHeader(chunk) + chunk + RecordHeader(settled) + settled;
  const size_t body_bytes = 16 + 5000 + 16 + 7;
  journal.resize(16384);
  journal += Commit(4, 16384, body_bytes, 2, RecordHeader(chunk).substr(0, 12) + RecordHeader(settled).substr(0, 12),
                    "commit");
  return journal;
}

TEST(JournalFormatTest, WriterGivesTheBytesOfTheGrammar) {
  FaultFileSystem files;
  const auto writer =
      JournalWriter::Create(&files, kPath, {.sequence = 7, .previous_sequence = 5, .previous_bytes = 8192});
  ASSERT_TRUE(writer.ok());
  const std::string chunk(5000, 'a');
  using Durable = JournalWriter::Durable;
  ASSERT_TRUE((*writer)->AppendGroup(GroupKind::kMember, {}, "member", Durable::kNow).ok());
  ASSERT_TRUE((*writer)->AppendGroup(GroupKind::kGlobalDelta, {chunk, "settled"}, "commit", Durable::kNow).ok());
  EXPECT_EQ((*writer)->size(), Golden().size());
  EXPECT_TRUE(files.Contents(kPath) == Golden());
}

TEST(JournalFormatTest, ReaderTakesTheBytesOfTheGrammar) {
  FaultFileSystem files;
  files.SetContents(kPath, Golden());
  const auto reader = JournalReader::Open(&files, kPath, 7);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->header().previous_sequence, 5u);
  EXPECT_EQ((*reader)->header().previous_bytes, 8192u);
  auto group = (*reader)->Next();
  ASSERT_TRUE(group.ok() && group->has_value());
  EXPECT_EQ((*group)->kind, GroupKind::kMember);
  EXPECT_EQ((*group)->offset, 4096u);
  EXPECT_EQ((*group)->commit_payload, "member");
  group = (*reader)->Next();
  ASSERT_TRUE(group.ok() && group->has_value());
  EXPECT_EQ((*group)->kind, GroupKind::kGlobalDelta);
  EXPECT_EQ((*group)->offset, 8192u);
  EXPECT_EQ((*group)->records, (std::vector<std::string>{std::string(5000, 'a'), "settled"}));
  EXPECT_EQ((*group)->commit_payload, "commit");
  group = (*reader)->Next();
  ASSERT_TRUE(group.ok());
  EXPECT_FALSE(group->has_value());
  EXPECT_EQ((*reader)->committed_bytes(), (*reader)->file_bytes());
}

TEST(JournalFormatTest, AnotherVersionIsRefusedWithBothNumbers) {
  FaultFileSystem files;
  files.SetContents(kPath, Block("\x89"
                                 "DLJRNL\n",
                                 Little(2, 4) + Little(7, 8)));
  const absl::Status status = JournalReader::Open(&files, kPath, 7).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_EQ(status.message(),
            "\"data/journal-0000000007\": journal has format version 2, this program reads version 1");
}

TEST(JournalFormatTest, CommitPayloadFillsTheBlockAndNoMore) {
  CommitBlock commit;
  commit.payload = std::string(kMaxCommitPayloadBytes, 'p');
  const std::string block = EncodeCommitBlock(commit);
  EXPECT_EQ(block.size(), kBlockBytes);
  const std::optional<CommitBlock> decoded = DecodeCommitBlock(block);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->payload, commit.payload);
  commit.payload.push_back('p');
  EXPECT_DEATH(EncodeCommitBlock(commit), "kMaxCommitPayloadBytes");
}

TEST(JournalFormatTest, ARecordIsBounded) {
  const std::string_view large(kPath, kMaxRecordBytes + 1);  // Refused before a byte of it is read.
  EXPECT_DEATH(EncodeRecordHeader(large), "kMaxRecordBytes");
}

}  // namespace
}  // namespace diloco
