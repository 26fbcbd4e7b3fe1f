// Says in the log why the coordinator cannot be reached, while it cannot: calls wait for the connection, and gRPC tells
// nobody why there is none. Training goes on meanwhile; nothing is decided here.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/coordinator_link.h"

namespace diloco {

class LinkWatch {
 public:
  // `channel`: one over `link` that is in use. `link` outlives the object.
  LinkWatch(const CoordinatorLink* link, std::shared_ptr<grpc::Channel> channel);
  // Waits for a look that is under way, at most CoordinatorLink::kDiagnosisDeadline.
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

 private:
  void Run();
  bool Connected() const;
  // False: the object is being destroyed.
  bool Sleep(absl::Duration duration);

  const CoordinatorLink* const link_;
  const std::shared_ptr<grpc::Channel> channel_;
  const SteadyClock clock_;
  Mutex mutex_;
  CondVar changed_;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace diloco
