#include "common/rpc/status.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/limits.h"

namespace diloco {
namespace {

TEST(RpcStatusTest, EveryCodeKeepsItsMeaningBothWays) {
  EXPECT_EQ(ToGrpcStatus(absl::AbortedError("x")).error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ToGrpcStatus(absl::NotFoundError("x")).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ToGrpcStatus(absl::DataLossError("x")).error_code(), grpc::StatusCode::DATA_LOSS);
  for (int code = 0; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), code == 0 ? "" : "text");
    EXPECT_EQ(static_cast<int>(ToGrpcStatus(status).error_code()), code);
    EXPECT_EQ(FromGrpcStatus(ToGrpcStatus(status)), status);
  }
}

TEST(RpcStatusTest, ACodeOfTheFutureIsUnknown) {
  EXPECT_EQ(FromGrpcStatus({static_cast<grpc::StatusCode>(30), "new"}), absl::UnknownError("new"));
  EXPECT_EQ(FromGrpcStatus({static_cast<grpc::StatusCode>(-1), "new"}), absl::UnknownError("new"));
}

TEST(RpcStatusTest, TextsAreCutBetweenCharacters) {
  EXPECT_EQ(ToGrpcStatus(absl::InternalError(std::string(1000, 'x'))).error_message(),
            std::string(kMaxReasonBytes, 'x'));
  // Two bytes each behind one: the limit falls into the middle of a character.
  std::string text = "x";
  for (int i = 0; i < 200; ++i) text += "\xC3\xA9";
  EXPECT_EQ(ToGrpcStatus(absl::InternalError(text)).error_message(), text.substr(0, kMaxReasonBytes - 1));
  EXPECT_EQ(FromGrpcStatus({grpc::StatusCode::INTERNAL, text}).message().size(), kMaxReasonBytes - 1);
}

}  // namespace
}  // namespace diloco
