// The initial parameters from the seeder: pieces in order, assembled in memory, each checked; handed to the driver when
// they are whole. One seed at a time: others are told to come again.
#pragma once

#include <string>

#include "coordinator/service/stream.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

class SeedStream final : public Stream<grpc::ServerReadReactor<v1::SeedRequest>> {
 public:
  SeedStream(const ServiceWorld* world, grpc::CallbackServerContext* context, v1::SeedResponse* response);
  void Open();
  // Goes on: what is nearly whole may still become durable before calls are cancelled.
  void Drain() override {}

 private:
  void OnReadDone(bool ok) override;
  // Lets the next seed in before this caller is answered, so that it may try again at once.
  void OnEndLocked() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The piece in request_, checked and added.
  absl::Status Take();
  absl::Status CheckWhole() const;
  void Read();

  v1::SeedResponse* const response_;
  bool admitted_ = false;
  v1::SeedRequest request_;
  v1::SeedRequest first_;  // Without its payload.
  std::string parameters_;
};

}  // namespace diloco
