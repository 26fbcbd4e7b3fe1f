#include "common/rpc/status.h"

#include <string>
#include <string_view>

#include "common/base/limits.h"

namespace diloco {
namespace {

std::string Cut(std::string_view text) {
  size_t size = text.size();
  if (size > kMaxReasonBytes) {
    size = kMaxReasonBytes;
    // 10xxxxxx continues a UTF-8 character.
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  }
  return std::string(text.substr(0, size));
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const absl::string_view message = status.message();
  return {static_cast<grpc::StatusCode>(status.code()), Cut({message.data(), message.size()})};
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const bool known = status.error_code() > 0 && status.error_code() <= grpc::StatusCode::UNAUTHENTICATED;
  return {known ? static_cast<absl::StatusCode>(status.error_code()) : absl::StatusCode::kUnknown,
          Cut(status.error_message())};
}

}  // namespace diloco
