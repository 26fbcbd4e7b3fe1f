#include "worker/trainer/token_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kBytes = 256;
constexpr int kAllTokens = 65536;

class TokenSourceTest : public ::testing::Test {
 protected:
  static std::string Tokens(const std::vector<uint16_t>& tokens) {
    std::string bytes;
    for (const uint16_t token : tokens) {
      bytes.push_back(static_cast<char>(token & 0xff));
      bytes.push_back(static_cast<char>(token >> 8));
    }
    return bytes;
  }

  static std::string Header(int32_t magic, int32_t version, int32_t count) {
    std::string header;
    for (const int32_t value : {magic, version, count}) {
      for (int shift = 0; shift < 32; shift += 8) {
        header.push_back(static_cast<char>(static_cast<uint32_t>(value) >> shift & 0xff));
      }
    }
    return header + std::string(1024 - header.size(), '\0');
  }

  static std::vector<uint16_t> ReadAll(const TokenSource& source, int vocabulary) {
    std::vector<uint16_t> tokens(static_cast<size_t>(source.token_count()));
    const absl::Status status = source.Read(0, vocabulary, absl::MakeSpan(tokens));
    EXPECT_TRUE(status.ok()) << status;
    return tokens;
  }

  const testing::TempFolder folder_;
};

TEST_F(TokenSourceTest, EveryByteOfATextIsOneToken) {
  const std::string text = std::string(
      "\xEF\xBB\xBF"
      "a\r\nb\rc\0\xFFz",
      12);
  const auto source = TokenSource::Open(folder_.Write("text.txt", text));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(ReadAll(*source, kBytes), ElementsAre(0xEF, 0xBB, 0xBF, 'a', '\r', '\n', 'b', '\r', 'c', 0, 0xFF, 'z'));
}

TEST_F(TokenSourceTest, OneLongLineIsReadWhole) {
  const auto source = TokenSource::Open(folder_.Write("line.txt", std::string(10 << 20, 'x')));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->token_count(), 10 << 20);
}

TEST_F(TokenSourceTest, BareTokensAreLittleEndian) {
  const auto source = TokenSource::Open(folder_.Write("train.bin", Tokens({1, 256, 50256, 65535})));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(ReadAll(*source, kAllTokens), ElementsAre(1, 256, 50256, 65535));
}

TEST_F(TokenSourceTest, HeaderIsSkipped) {
  const auto source = TokenSource::Open(folder_.Write("train.bin", Header(20240520, 1, 3) + Tokens({7, 8, 9})));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(ReadAll(*source, 50257), ElementsAre(7, 8, 9));
}

TEST_F(TokenSourceTest, HeaderThatContradictsTheFileIsAnError) {
  const auto longer = TokenSource::Open(folder_.Write("a.bin", Header(20240520, 1, 4) + Tokens({7, 8, 9})));
  EXPECT_EQ(longer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(longer.status().message()), AllOf(HasSubstr("a.bin"), HasSubstr("1030"), HasSubstr("1032")));
  const auto newer = TokenSource::Open(folder_.Write("b.bin", Header(20240520, 7, 3) + Tokens({7, 8, 9})));
  EXPECT_THAT(std::string(newer.status().message()), HasSubstr("version 7"));
}

TEST_F(TokenSourceTest, UnevenTokenFileIsAnError) {
  const auto source = TokenSource::Open(folder_.Write("train.bin", "abc"));
  EXPECT_THAT(std::string(source.status().message()), AllOf(HasSubstr("train.bin"), HasSubstr("3 bytes")));
}

TEST_F(TokenSourceTest, FolderIsReadInNaturalOrder) {
  folder_.Write("part10.txt", "d");
  folder_.Write("part9.txt", "bc");
  folder_.Write("part2.txt", "");
  folder_.Write("part1.txt", "a");
  folder_.Write(".hidden", "X");
  std::filesystem::create_directories(folder_.File("inner"));
  const auto source = TokenSource::Open(folder_.path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(ReadAll(*source, kBytes), ElementsAre('a', 'b', 'c', 'd'));
  std::vector<uint16_t> across(2);
  ASSERT_TRUE(source->Read(2, kBytes, absl::MakeSpan(across)).ok());
  EXPECT_THAT(across, ElementsAre('c', 'd'));
}

TEST_F(TokenSourceTest, FolderThatMixesKindsIsAnError) {
  folder_.Write("a.txt", "text");
  folder_.Write("b.bin", "toks");
  const auto source = TokenSource::Open(folder_.path());
  EXPECT_THAT(std::string(source.status().message()), AllOf(HasSubstr("a.txt"), HasSubstr("b.bin")));
}

TEST_F(TokenSourceTest, WhatIsNoDataIsAnErrorThatNamesIt) {
  EXPECT_THAT(std::string(TokenSource::Open(folder_.path()).status().message()), HasSubstr("holds no files"));
  const auto missing = TokenSource::Open(folder_.File("absent.txt"));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(missing.status().message()), AllOf(HasSubstr("absent.txt"), HasSubstr("No such file")));
  ASSERT_EQ(mkfifo(folder_.File("pipe").c_str(), 0600), 0);
  EXPECT_THAT(std::string(TokenSource::Open(folder_.File("pipe")).status().message()),
              HasSubstr("neither a regular file"));
}

TEST_F(TokenSourceTest, EmptyFileHasNoTokens) {
  const auto source = TokenSource::Open(folder_.Write("empty.txt", ""));
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->token_count(), 0);
}

TEST_F(TokenSourceTest, TokenBeyondTheVocabularyIsAnErrorWithItsOffset) {
  const auto source = TokenSource::Open(folder_.Write("train.bin", Header(20240520, 1, 3) + Tokens({7, 50257, 9})));
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<uint16_t> tokens(2);
  const absl::Status status = source->Read(1, 50257, absl::MakeSpan(tokens));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("train.bin"), HasSubstr("50257"), HasSubstr("byte 1026")));
}

TEST_F(TokenSourceTest, OnePassFindsATokenBeyondTheVocabulary) {
  std::vector<uint16_t> tokens((1 << 20) + 3, 31'999);
  tokens.back() = 32'000;
  const std::string path = folder_.Write("train.bin", Tokens(tokens));
  const auto source = TokenSource::Open(path);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE(source->CheckTokens(32'001).ok());
  const absl::Status status = source->CheckTokens(32'000);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("train.bin"), HasSubstr("32000 at byte 2097156")));
  // No uint16 is beyond this vocabulary, so nothing is read.
  std::filesystem::remove(path);
  EXPECT_TRUE(source->CheckTokens(kAllTokens).ok());
}

TEST_F(TokenSourceTest, TokensBeyondFourGibibytesAreFound) {
  constexpr int64_t kSize = int64_t{5} << 30;
  constexpr int64_t kMark = (int64_t{4} << 30) + 4096;
  const std::string path = folder_.File("sparse.bin");
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  ASSERT_EQ(ftruncate(fd, kSize), 0);
  const std::string mark = Tokens({111, 222});
  ASSERT_EQ(pwrite(fd, mark.data(), mark.size(), kMark), 4);
  close(fd);
  const auto source = TokenSource::Open(path);
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ(source->token_count(), kSize / 2);
  std::vector<uint16_t> tokens(4);
  ASSERT_TRUE(source->Read(kMark / 2 - 1, kBytes, absl::MakeSpan(tokens)).ok());
  EXPECT_THAT(tokens, ElementsAre(0, 111, 222, 0));
}

TEST_F(TokenSourceTest, FileThatIsCutWhileInUseIsAnErrorThatNamesIt) {
  const std::string path = folder_.Write("text.txt", std::string(100, 'x'));
  const auto source = TokenSource::Open(path);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  std::vector<uint16_t> tokens(10);
  absl::Status status = source->Read(50, kBytes, absl::MakeSpan(tokens));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("text.txt"), HasSubstr("100 bytes"), HasSubstr("has 0")));
  std::filesystem::remove(path);
  status = source->Read(50, kBytes, absl::MakeSpan(tokens));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
}

TEST_F(TokenSourceTest, FileThatIsRewrittenInPlaceIsAnError) {
  const std::string path = folder_.Write("text.txt", std::string(100, 'x'));
  // A time stamp that no later write can have, however coarse the file system's clock is.
  const timespec times[2] = {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  const auto source = TokenSource::Open(path);
  ASSERT_TRUE(source.ok()) << source.status();
  folder_.Write("text.txt", std::string(100, 'y'));
  std::vector<uint16_t> tokens(10);
  EXPECT_EQ(source->Read(0, kBytes, absl::MakeSpan(tokens)).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace diloco
