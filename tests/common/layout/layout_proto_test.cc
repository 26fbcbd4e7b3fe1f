#include "common/layout/layout_proto.h"

#include <gtest/gtest.h>

#include <vector>

namespace diloco {
namespace {

TEST(LayoutProtoTest, EveryFieldTravels) {
  const std::vector<TensorSpec> tensors = {{.name = "scalar", .shape = {}, .layer = -1, .decay = false},
                                           {.name = "block.0.w", .shape = {3, 0, 5}, .layer = 7, .decay = true}};
  const auto protos = TensorSpecsToProto(tensors);
  ASSERT_EQ(protos.size(), 2);
  EXPECT_EQ(protos[0].name(), "scalar");
  EXPECT_EQ(protos[0].shape_size(), 0);
  EXPECT_EQ(protos[0].layer(), -1);
  EXPECT_FALSE(protos[0].decay());
  EXPECT_EQ(protos[1].shape_size(), 3);
  EXPECT_EQ(protos[1].shape(2), 5);
  EXPECT_EQ(protos[1].layer(), 7);
  EXPECT_TRUE(protos[1].decay());
  EXPECT_EQ(TensorSpecsFromProto(protos), tensors);
}

TEST(LayoutProtoTest, BadFieldsReachTheCutUnchanged) {
  v1::TensorSpec proto;
  proto.set_name("w");
  proto.add_shape(-4);
  EXPECT_EQ(Layout::Cut({TensorSpecFromProto(proto)}, {.count = 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace diloco
