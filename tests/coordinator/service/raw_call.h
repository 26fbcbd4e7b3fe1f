// Calls as bytes, without our stubs.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "tests/coordinator/service/wire_worker.h"

namespace diloco {

inline grpc::ByteBuffer ToBuffer(const std::string& bytes) {
  grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

inline std::string ToString(const grpc::ByteBuffer& buffer) {
  grpc::Slice slice;
  return buffer.DumpToSingleSlice(&slice).ok() ? std::string(slice.begin(), slice.end()) : "";
}

// One message there, the first one back, over any kind of method: what grpcurl and probes do.
class RawCall final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, const std::string& request)
      : request_(ToBuffer(request)) {
    SetDeadline(&context_);
    grpc::GenericStub stub(channel);
    stub.PrepareBidiStreamingCall(&context_, method, {}, this);
    StartWriteLast(&request_, {});
    StartRead(&response_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    if (text_.empty()) text_ = ToString(response_);
    StartRead(&response_);
  }
  void OnDone(const grpc::Status& status) override { done_.set_value(status); }
  void Cancel() { context_.TryCancel(); }
  // Waits for the end of the call.
  std::pair<grpc::Status, std::string> Result() {
    const grpc::Status status = done_.get_future().get();
    return {status, text_};
  }

 private:
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;
  std::string text_;
  std::promise<grpc::Status> done_;
};

}  // namespace diloco
