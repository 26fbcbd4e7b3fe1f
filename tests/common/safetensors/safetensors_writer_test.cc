#include "common/safetensors/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/safetensors/safetensors_reader.h"
#include "tests/common/safetensors/temporary_file.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using namespace std::string_view_literals;

// The reader is checked against hand-made bytes, so it may check the writer.
absl::Status Write(const std::string& path, const std::vector<TensorSpec>& tensors,
                   const std::map<std::string, std::string>& metadata, const std::vector<float>& values) {
  auto writer = SafetensorsWriter::Create(PosixFileSystem(), path, tensors, metadata);
  if (!writer.ok()) return writer.status();
  if (absl::Status status = writer->Append(values); !status.ok()) return status;
  return writer->Finish();
}

TEST(SafetensorsWriterTest, WritesTheDocumentedBytes) {
  const TemporaryFile file;
  ASSERT_TRUE(
      Write(file.path(), {{.name = "s"}, {.name = "w", .shape = {2, 1}}}, {{"format", "pt"}}, {1.0f, -2.0f, 0x1p-149f})
          .ok());
  const std::string json = R"({"__metadata__":{"format":"pt"},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                           R"("w":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]}})";
  ASSERT_EQ(json.size() % 8, 4u);
  EXPECT_EQ(file.Content(), SafetensorsBytes(json + "    ", "\x00\x00\x80\x3f\x00\x00\x00\xc0\x01\x00\x00\x00"sv));
}

TEST(SafetensorsWriterTest, EveryLegalFileReadsBack) {
  const TemporaryFile file;
  const std::vector<TensorSpec> tensors = {{.name = "none", .shape = {0, 7}},
                                           {.name = "quote \" \\ \n\x01", .shape = {2}},
                                           {.name = "\xE6\x97\xA5\xE6\x9C\xAC", .shape = {}},
                                           {.name = "", .shape = {1, 1, 1}},
                                           {.name = "tail", .shape = {0}}};
  const std::map<std::string, std::string> metadata = {{"version", "12"}, {"quote\"", "\xC3\xA9\n"}, {"", ""}};
  ASSERT_TRUE(Write(file.path(), tensors, metadata, {1, 2, 3, 4}).ok());
  auto reader = SafetensorsReader::Open(file.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->metadata(), metadata);
  ASSERT_EQ(reader->tensors().size(), tensors.size());
  std::vector<float> values;
  for (const TensorSpec& tensor : tensors) {
    std::vector<float> out(static_cast<size_t>(tensor.ElementCount()));
    ASSERT_TRUE(reader->Read(tensor, absl::MakeSpan(out)).ok());
    values.insert(values.end(), out.begin(), out.end());
  }
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
}

TEST(SafetensorsWriterTest, FilesWithoutTensorsReadBack) {
  for (const std::map<std::string, std::string>& metadata :
       {std::map<std::string, std::string>{}, {{"only", "metadata"}}}) {
    const TemporaryFile file;
    ASSERT_TRUE(Write(file.path(), {}, metadata, {}).ok());
    auto reader = SafetensorsReader::Open(file.path());
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(reader->metadata(), metadata);
  }
}

TEST(SafetensorsWriterTest, PiecesNeedNotEndWhereTensorsDo) {
  const TemporaryFile file;
  auto writer =
      SafetensorsWriter::Create(PosixFileSystem(), file.path(),
                                std::vector<TensorSpec>{{.name = "a", .shape = {3}}, {.name = "b", .shape = {3}}}, {});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->Append({1, 2, 3, 4}).ok());
  ASSERT_TRUE(writer->Append({}).ok());
  ASSERT_TRUE(writer->Append({5, 6}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  auto reader = SafetensorsReader::Open(file.path());
  ASSERT_TRUE(reader.ok());
  std::vector<float> b(3);
  ASSERT_TRUE(reader->Read({.name = "b", .shape = {3}}, absl::MakeSpan(b)).ok());
  EXPECT_THAT(b, ElementsAre(4, 5, 6));
}

TEST(SafetensorsWriterTest, NothingAppearsBeforeEverythingIsThere) {
  const TemporaryFile file("old");
  {
    auto writer = SafetensorsWriter::Create(PosixFileSystem(), file.path(),
                                            std::vector<TensorSpec>{{.name = "a", .shape = {3}}}, {});
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->Append({1, 2}).ok());
    EXPECT_EQ(writer->Append({3, 4}).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(writer->Finish().message(), "1 values are missing");
  }
  EXPECT_EQ(file.Content(), "old");
  const auto folder = std::filesystem::directory_iterator(std::filesystem::path(file.path()).parent_path());
  EXPECT_EQ(std::distance(folder, {}), 1);
}

TEST(SafetensorsWriterTest, RefusesWhatTheFormatForbids) {
  const TemporaryFile file;
  const auto error = [&](const std::vector<TensorSpec>& tensors, const std::map<std::string, std::string>& metadata) {
    const auto writer = SafetensorsWriter::Create(PosixFileSystem(), file.path(), tensors, metadata);
    EXPECT_EQ(writer.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(writer.status().message());
  };
  EXPECT_EQ(error({{.name = "__metadata__"}}, {}), "tensor \"__metadata__\": the format reserves this name");
  EXPECT_EQ(error({{.name = "a"}, {.name = "a"}}, {}), "tensor \"a\": the name is there twice");
  EXPECT_EQ(error({{.name = "\xC0\xA7"}}, {}), "tensor \"\\xc0\\xa7\": the name is not UTF-8");
  EXPECT_EQ(error({{.name = "a", .shape = {-1}}}, {}), "tensor \"a\": extent -1 is negative");
  EXPECT_THAT(error({{.name = "a", .shape = {int64_t{1} << 40, 2}}}, {}), HasSubstr("more than"));
  EXPECT_EQ(error({}, {{"a", "\xFF"}}), "metadata \"a\": not UTF-8");
  EXPECT_FALSE(std::filesystem::exists(file.path() + ".tmp"));
}

}  // namespace
}  // namespace diloco
