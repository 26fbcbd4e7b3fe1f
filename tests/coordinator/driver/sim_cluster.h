// Workers on one coordinator, in the test's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/coordinator/driver/driver_fixture.h"
#include "tests/coordinator/driver/sim_worker.h"

namespace diloco {

struct SimCluster {
  SimCluster(const std::string& yaml, int count) : coordinator(yaml) {
    for (int i = 0; i < count; ++i) {
      AddWorker(std::string("w") + static_cast<char>('0' + i));
    }
  }

  SimWorker* AddWorker(const std::string& id) {
    workers.push_back(std::make_unique<SimWorker>(coordinator.config(), id, 100 + workers.size(), TwoFragments()));
    if (coordinator.driver != nullptr) {
      workers.back()->Connect(coordinator.driver.get());
    }
    return workers.back().get();
  }

  void Start() {
    const absl::Status started = coordinator.Start();
    ASSERT_TRUE(started.ok()) << started;
    for (const auto& worker : workers) {
      worker->Connect(coordinator.driver.get());
    }
  }

  void Crash() {
    for (const auto& worker : workers) {
      worker->Disconnect();
    }
    coordinator.Crash();
  }

  // One round of everybody; false when nothing is left to do.
  bool Turn() {
    bool worked = coordinator.PumpOne();
    for (const auto& worker : workers) {
      worked |= worker->Act();
    }
    return worked;
  }

  // Until nothing is left to do, at most `turns`. Returns how many it took.
  int Run(int turns = 100'000) {
    int turn = 0;
    while (turn < turns && Turn()) {
      ++turn;
    }
    return turn;
  }

  Coordinator coordinator;
  std::vector<std::unique_ptr<SimWorker>> workers;
};

}  // namespace diloco
