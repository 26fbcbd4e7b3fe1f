// The answer that a request waits for. Copies share it; it is given once. Dropped without an answer, because the driver
// stops or the store failed, it answers kUnavailable by itself, so that no caller waits for ever.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coordinator/driver/shutting_down.h"

namespace diloco {

template <typename Response>
class PendingReply {
 public:
  using Function = std::function<void(absl::StatusOr<Response>)>;

  explicit PendingReply(Function reply) : state_(std::make_shared<State>(std::move(reply))) {}

  // The first call answers, later ones do nothing.
  void operator()(absl::StatusOr<Response> response) const { state_->Answer(std::move(response)); }

 private:
  struct State {
    explicit State(Function function) : reply(std::move(function)) {}
    ~State() { Answer(ShuttingDown()); }
    void Answer(absl::StatusOr<Response> response) {
      if (!answered.exchange(true)) {
        reply(std::move(response));
      }
    }
    Function reply;
    std::atomic<bool> answered = false;
  };
  std::shared_ptr<State> state_;
};

}  // namespace diloco
