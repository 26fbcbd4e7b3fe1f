// Where the driver's long work runs: syncs on one thread, merges on a pool. Passed in, so that a simulated cluster can
// run both in the driver's own thread and order them by its seed.
#pragma once

#include <functional>

namespace diloco {

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs `task` once, later, on a thread of the executor's. Tasks of a one-thread executor run in order.
  virtual void Submit(std::function<void()> task) = 0;
};

}  // namespace diloco
