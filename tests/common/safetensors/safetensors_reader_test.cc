#include "common/safetensors/safetensors_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/common/safetensors/temporary_file.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using namespace std::string_view_literals;

std::string OpenError(std::string_view bytes) {
  const TemporaryFile file(bytes);
  const auto reader = SafetensorsReader::Open(file.path());
  EXPECT_EQ(reader.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(reader.status().message()), HasSubstr(file.path() + ": "));
  return std::string(reader.status().message()).substr(file.path().size() + 2);
}

TEST(SafetensorsReaderTest, ReadsFloat32) {
  const TemporaryFile file(SafetensorsBytes(
      R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
      "\x00\x00\x80\x3f\x00\x00\x00\xc0\x01\x00\x00\x00"sv));
  auto reader = SafetensorsReader::Open(file.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> w(2);
  ASSERT_TRUE(reader->Read({.name = "w", .shape = {2}}, absl::MakeSpan(w)).ok());
  EXPECT_THAT(w, ElementsAre(-2.0f, 0x1p-149f));
  float s = 0;
  ASSERT_TRUE(reader->Read({.name = "s", .shape = {}}, absl::MakeSpan(&s, 1)).ok());
  EXPECT_EQ(s, 1.0f);
}

TEST(SafetensorsReaderTest, ReadsHalfPrecision) {
  // 1, -2, largest, smallest normal, smallest subnormal, -0, infinity, NaN; bit patterns from IEEE 754 and bfloat16.
  const TemporaryFile file(SafetensorsBytes(
      R"({"f":{"dtype":"F16","shape":[8],"data_offsets":[0,16]},"b":{"dtype":"BF16","shape":[8],"data_offsets":[16,32]}})",
      "\x00\x3c\x00\xc0\xff\x7b\x00\x04\x01\x00\x00\x80\x00\x7c\x01\x7e"
      "\x80\x3f\x00\xc0\x7f\x7f\x80\x00\x01\x00\x00\x80\x80\x7f\xc0\x7f"sv));
  auto reader = SafetensorsReader::Open(file.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> f(8);
  ASSERT_TRUE(reader->Read({.name = "f", .shape = {8}}, absl::MakeSpan(f)).ok());
  EXPECT_EQ(std::vector<float>(f.begin(), f.begin() + 5), (std::vector<float>{1, -2, 65504, 0x1p-14f, 0x1p-24f}));
  EXPECT_TRUE(f[5] == 0 && std::signbit(f[5]));
  EXPECT_EQ(f[6], INFINITY);
  EXPECT_TRUE(std::isnan(f[7]));
  std::vector<float> b(8);
  ASSERT_TRUE(reader->Read({.name = "b", .shape = {8}}, absl::MakeSpan(b)).ok());
  EXPECT_EQ(std::vector<float>(b.begin(), b.begin() + 5),
            (std::vector<float>{1, -2, 0x1.FEp127f, 0x1p-126f, 0x1p-133f}));
  EXPECT_TRUE(b[5] == 0 && std::signbit(b[5]));
  EXPECT_EQ(b[6], INFINITY);
  EXPECT_TRUE(std::isnan(b[7]));
}

TEST(SafetensorsReaderTest, ConvertsTensorsLargerThanItsBuffer) {
  constexpr int kElements = 200'001;
  std::string data;
  for (int i = 0; i < kElements; ++i) data += i % 3 == 0 ? "\x80\x3f"sv : "\x00\xc0"sv;
  const TemporaryFile file(
      SafetensorsBytes(R"({"b":{"dtype":"BF16","shape":[200001],"data_offsets":[0,400002]}})", data));
  auto reader = SafetensorsReader::Open(file.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> b(kElements);
  ASSERT_TRUE(reader->Read({.name = "b", .shape = {kElements}}, absl::MakeSpan(b)).ok());
  for (int i = 0; i < kElements; ++i) ASSERT_EQ(b[static_cast<size_t>(i)], i % 3 == 0 ? 1.0f : -2.0f) << i;
}

TEST(SafetensorsReaderTest, SaysWhatItCannotRead) {
  const TemporaryFile file(SafetensorsBytes(
      R"({"w":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"i":{"dtype":"I32","shape":[1],"data_offsets":[8,12]}})",
      std::string(12, '\0')));
  auto reader = SafetensorsReader::Open(file.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<float> out(2);
  const auto error = [&](const TensorSpec& tensor) {
    const absl::Status status =
        reader->Read(tensor, absl::MakeSpan(out).first(static_cast<size_t>(tensor.ElementCount())));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(error({.name = "v", .shape = {2}}), file.path() + ": tensor \"v\": missing");
  EXPECT_EQ(error({.name = "w", .shape = {1, 2}}),
            file.path() + ": tensor \"w\": its shape is [2, 1], expected [1, 2]");
  EXPECT_EQ(error({.name = "w", .shape = {}}), file.path() + ": tensor \"w\": its shape is [2, 1], expected []");
  EXPECT_EQ(error({.name = "i", .shape = {1}}), file.path() + ": tensor \"i\": dtype I32; use F32, BF16 or F16");
}

TEST(SafetensorsReaderTest, SaysWhyItIsNoSafetensorsFile) {
  const std::string one = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_EQ(OpenError(""), "0 bytes are no safetensors file");
  EXPECT_EQ(OpenError("1234567"), "7 bytes are no safetensors file");
  EXPECT_EQ(OpenError("In the beginning God created"),
            "no safetensors file: a header of 7070762914270965321 bytes in a file of 28");
  EXPECT_EQ(OpenError(std::string(8, '\xFF')),
            "no safetensors file: a header of 18446744073709551615 bytes in a file of 8");
  EXPECT_EQ(OpenError(SafetensorsBytes(one, "1234").substr(0, 40)),
            "no safetensors file: a header of 54 bytes in a file of 40");
  EXPECT_EQ(OpenError(SafetensorsBytes("", "")), "header does not start with `{`");
  EXPECT_EQ(OpenError(SafetensorsBytes(one, "123")), "3 bytes of data, the header describes 4");
  EXPECT_EQ(OpenError(SafetensorsBytes(one, "12345")), "5 bytes of data, the header describes 4");
}

TEST(SafetensorsReaderTest, RefusesAHeaderAboveTheBoundUnread) {
  const TemporaryFile file(SafetensorsBytes("{}", ""));
  std::filesystem::resize_file(file.path(), kMaxSafetensorsHeaderBytes + 100);                         // Sparse.
  std::fstream(file.path(), std::ios::in | std::ios::out | std::ios::binary) << "\x01\xe1\xf5\x05"sv;  // 100,000,001.
  EXPECT_THAT(std::string(SafetensorsReader::Open(file.path()).status().message()),
              HasSubstr("a header of 100000001 bytes"));
}

TEST(SafetensorsReaderTest, RefusesWhatIsNoFile) {
  const TemporaryFile file("x");
  EXPECT_THAT(std::string(SafetensorsReader::Open(file.path() + ".missing").status().message()),
              HasSubstr(".missing: No such file or directory"));
  const std::string folder = std::filesystem::path(file.path()).parent_path();
  EXPECT_THAT(std::string(SafetensorsReader::Open(folder).status().message()), HasSubstr("not a regular file"));
}

TEST(SafetensorsReaderTest, NoticesAFileThatShrinks) {
  const TemporaryFile file(SafetensorsBytes(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "12345678"));
  auto reader = SafetensorsReader::Open(file.path());
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::filesystem::resize_file(file.path(), std::filesystem::file_size(file.path()) - 3);
  std::vector<float> out(2);
  EXPECT_EQ(reader->Read({.name = "w", .shape = {2}}, absl::MakeSpan(out)).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace diloco
