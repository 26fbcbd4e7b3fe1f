#include "common/safetensors/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace diloco {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

SafetensorsHeader Parse(std::string_view json, uint64_t data_bytes) {
  auto header = ParseSafetensorsHeader(json, data_bytes);
  EXPECT_TRUE(header.ok()) << header.status() << " in " << json;
  return header.ok() ? *header : SafetensorsHeader{};
}

TEST(SafetensorsHeaderTest, ReadsTensorsInTheOrderOfTheirData) {
  const SafetensorsHeader header =
      Parse(R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[8,32]},"__metadata__":{"format":"pt","n":""},)"
            R"("a":{"data_offsets":[0,8],"shape":[4],"dtype":"BF16"}}    )",
            32);
  ASSERT_EQ(header.tensors.size(), 2u);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].dtype, "BF16");
  EXPECT_THAT(header.tensors[0].shape, ElementsAre(4));
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_THAT(header.tensors[1].shape, ElementsAre(2, 3));
  EXPECT_EQ(header.tensors[1].elements, 6);
  EXPECT_EQ(header.tensors[1].begin, 8u);
  EXPECT_EQ(header.tensors[1].end, 32u);
  EXPECT_THAT(header.metadata, ElementsAre(Pair("format", "pt"), Pair("n", "")));
}

TEST(SafetensorsHeaderTest, TakesEverythingThatIsLegal) {
  EXPECT_THAT(Parse("{}", 0).tensors, IsEmpty());
  EXPECT_THAT(Parse(R"({"__metadata__":{}})", 0).metadata, IsEmpty());
  EXPECT_EQ(Parse(R"({"__metadata__":{"a":"b"}})", 0).metadata.size(), 1u) << "metadata without tensors";
  EXPECT_EQ(Parse(R"({"":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4).tensors[0].elements, 1) << "scalar";
  // Tensors without elements lie between others, in any order of the header.
  const SafetensorsHeader header = Parse(R"({"w":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                                         R"("z":{"dtype":"F32","shape":[0,9],"data_offsets":[3,3]},)"
                                         R"("y":{"dtype":"F32","shape":[5,0],"data_offsets":[0,0]}})",
                                         3);
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].name, "y");
  EXPECT_EQ(header.tensors[2].name, "z");
  EXPECT_EQ(header.tensors[2].elements, 0);
  EXPECT_EQ(Parse(R"({"\u00e9 \"q\" 日":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1).tensors[0].name,
            "\xC3\xA9 \"q\" \xE6\x97\xA5");
  // A huge extent beside a zero one.
  EXPECT_EQ(
      Parse(R"({"a":{"dtype":"F32","shape":[0,9223372036854775807,9],"data_offsets":[0,0]}})", 0).tensors[0].elements,
      0);
}

struct Case {
  std::string json;
  uint64_t data_bytes;
  std::string_view error;
};

TEST(SafetensorsHeaderTest, SaysWhatIsWrong) {
  const std::string four = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const std::vector<Case> cases = {
      {"", 0, "header does not start with `{`"},
      {" {}", 0, "header does not start with `{`"},
      {"[]", 0, "header does not start with `{`"},
      {"\xEF\xBB\xBF{}", 0, "header does not start with `{`"},
      {"{", 0, "header: not valid JSON at byte 2"},
      {"{}x", 0, "header: not valid JSON at byte 3"},
      {"{\"\xC0\xA7\":1}", 0, "header: not valid JSON at byte 3"},
      {R"({"a":1})", 0, R"(header: "a": unexpected number)"},
      {R"({"a":null})", 0, R"(header: "a": unexpected null)"},
      {R"({"a":[]})", 0, R"(header: "a": unexpected list)"},
      {R"({"__metadata__":"x"})", 0, R"(header: "__metadata__": unexpected string)"},
      {R"({"__metadata__":{"epoch":3}})", 0, R"(header: "__metadata__": unexpected number in "epoch")"},
      {R"({"__metadata__":{"a":{}}})", 0, R"(header: "__metadata__": unexpected object in "a")"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, R"(header: "__metadata__" has "a" twice)"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, R"(header: "__metadata__" is there twice)"},
      {R"({"__metadata__":{)" + four + "}}", 4, R"(header: "__metadata__": unexpected list in "shape")"},
      {R"({"a":{)" + four + R"(},"a":{)" + four + "}}", 8, R"(header: "a" is there twice)"},
      {R"({"a":{"dtype":"F32",)" + four + "}}", 4, R"(header: "a" has "dtype" twice)"},
      {R"({"a":{"stride":[1],)" + four + "}}", 4,
       R"(header: tensor "a" has a field "stride" that the format does not)"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, R"(header: tensor "a" lacks dtype, shape or data_offsets)"},
      {R"({"a":{}})", 0, R"(header: tensor "a" lacks dtype, shape or data_offsets)"},
      {R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4, R"(header: "a": unexpected number in "dtype")"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
       R"(header: "a": unexpected negative number in "shape")"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4,
       R"(header: "a": unexpected fraction in "shape")"},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, R"(header: "a": unexpected list in "shape")"},
      {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4,
       R"(header: "a": unexpected string in "shape")"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}})", 4,
       R"(header: tensor "a": data_offsets are not two numbers)"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4,
       R"(header: tensor "a": data_offsets are not two numbers)"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4,
       R"(header: tensor "a": extent 18446744073709551615)"},
      {R"({"a":{"dtype":"X9","shape":[1],"data_offsets":[0,4]}})", 4, R"(tensor "a": dtype "X9" is unknown)"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4,
       R"(tensor "a": data_offsets end before they begin)"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       R"(tensor "a": shape and dtype need 8 bytes, data_offsets give 4)"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       R"(tensor "a": more than 1099511627776 elements)"},
      {R"({"a":{)" + four + R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6,
       R"(tensor "b": data_offsets overlap: it begins at byte 2, expected 4)"},
      {R"({"a":{)" + four + R"(},"b":{)" + four + "}}", 4,
       R"(tensor "b": data_offsets overlap: it begins at byte 0, expected 4)"},
      {R"({"a":{)" + four + R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 12,
       R"(tensor "b": data_offsets leave a gap: it begins at byte 8, expected 4)"},
      {R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
       R"(tensor "b": data_offsets leave a gap: it begins at byte 4, expected 0)"},
      {R"({"a":{)" + four + "}}", 3, "3 bytes of data, the header describes 4"},
      {R"({"a":{)" + four + "}}", 5, "5 bytes of data, the header describes 4"},
      {R"({"__metadata__":{}})", 1, "1 bytes of data, the header describes 0"},
  };
  for (const Case& c : cases) {
    const auto header = ParseSafetensorsHeader(c.json, c.data_bytes);
    EXPECT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument) << c.json;
    EXPECT_EQ(std::string(header.status().message()), c.error) << c.json;
  }
}

TEST(SafetensorsHeaderTest, DeepNestingIsAnError) {
  EXPECT_FALSE(ParseSafetensorsHeader("{\"a\":" + std::string(1'000'000, '['), 0).ok());
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_FALSE(ParseSafetensorsHeader(objects, 0).ok());
}

}  // namespace
}  // namespace diloco
