// A link that carries no bulk for longer than the lease: the worker is heard all the same, and goes on when it can.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"

#include "tests/support/coordinator_process.h"
#include "tests/support/drift_trainer.h"
#include "tests/support/tcp_proxy.h"
#include "worker/loop/run_worker.h"

namespace diloco {
namespace {

using testing::CoordinatorProcess;
using testing::DriftTrainer;
using testing::kPatience;
using testing::TcpProxy;

constexpr absl::Duration kLease = absl::Seconds(3);
constexpr char kConfig[] =
    "run: {id: thin, workers: 1, rounds: 2}\n"
    "method: diloco\ninner_steps: 2\nfragments: {count: 1}\nwire: {uplink: fp32, downlink: fp32}\n"
    "rounds: {heartbeat_interval: 200ms, lease: 3s}\n";

// In its first step the link closes for bulk.
class ClosingTrainer final : public DriftTrainer {
 public:
  ClosingTrainer(TcpProxy* link, std::promise<void>* closed)
      : DriftTrainer({.elements = 1 << 20, .tensors = 1}), link_(link), closed_(closed) {}

  absl::StatusOr<StepReport> Step(int64_t step, double rate) override {
    if (step == 0) {
      link_->Hold();
      closed_->set_value();
    }
    return DriftTrainer::Step(step, rate);
  }

 private:
  TcpProxy* const link_;
  std::promise<void>* const closed_;
};

TEST(ThinLinkTest, BulkThatDoesNotMoveForTwoLeasesLosesNobody) {
  const testing::TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), kConfig);
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  TcpProxy link(coordinator.port());
  std::promise<void> closed;
  absl::Status status;
  std::thread worker([&] {
    WorkerOptions options;
    options.coordinator = link.address();
    options.worker_id = "w0";
    status = RunWorker(options, [&](const RunConfig&) { return std::make_unique<ClosingTrainer>(&link, &closed); });
  });
  EXPECT_EQ(closed.get_future().wait_for(absl::ToChronoSeconds(kPatience)), std::future_status::ready);
  absl::SleepFor(2 * kLease);  // So long is what is tested.
  const absl::StatusOr<nlohmann::json> workers = coordinator.Ctl({"worker", "list"});
  link.Open();
  worker.join();
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_EQ(workers->at("workers").at(0).at("state"), "WORKER_STATE_ALIVE") << *workers;
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(coordinator.Log(), ::testing::Not(::testing::HasSubstr("event=worker_lost")));
}

}  // namespace
}  // namespace diloco
