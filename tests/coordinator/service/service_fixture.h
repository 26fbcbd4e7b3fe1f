// A service on a free port over a real driver and store.
#pragma once

#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/config/run_config.h"
#include "common/metrics/coordinator_metrics.h"
#include "coordinator/driver/driver.h"
#include "coordinator/driver/thread_pool.h"
#include "coordinator/service/gatekeeper.h"
#include "coordinator/service/method.h"
#include "coordinator/service/service.h"
#include "coordinator/store/store.h"
#include "tests/coordinator/service/wire_worker.h"
#include "tests/support/temp_folder.h"

namespace diloco {

inline constexpr char kConfig[] = R"(
run: {id: r1, workers: 1, rounds: 3}
method: diloco
inner_steps: 5
outer: {optimizer: sgd, rate: 1}
fragments: {count: 1}
wire: {uplink: fp32, downlink: fp32}
)";

class ServiceTest : public ::testing::Test {
 protected:
  // Elements of the one tensor: three chunks.
  static constexpr int64_t kElements = 600'000;

  void Start(absl::Duration progress_deadline = kStreamProgressDeadline, bool reflection = false) {
    absl::StatusOr<RunConfig> config = ParseRunConfig(config_, "run.yaml");
    ASSERT_TRUE(config.ok()) << config.status();
    RecoveredState recovered;
    absl::StatusOr<std::unique_ptr<Store>> store =
        Store::Open(PosixFileSystem(), {.folder = folder_.File("data"), .holder = "test"}, &recovered);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    absl::StatusOr<std::unique_ptr<Driver>> driver = Driver::Create(
        {.config = *config, .config_yaml = config_, .checkpoint_folder = folder_.File("data/checkpoints")},
        {.clock = &clock_,
         .files = PosixFileSystem(),
         .store = store_.get(),
         .disk = &disk_,
         .pool = &pool_,
         .observer = &observer_},
        std::move(recovered));
    ASSERT_TRUE(driver.ok()) << driver.status();
    driver_ = *std::move(driver);
    thread_ = std::thread([this] { driver_->Run(); });
    absl::StatusOr<std::unique_ptr<Service>> service = Service::Start("--listen",
                                                                      {.run_id = "r1",
                                                                       .address = {"127.0.0.1", 0},
                                                                       .events = &events_,
                                                                       .tls = tls_,
                                                                       .reflection = reflection,
                                                                       .limits = limits_,
                                                                       .progress_deadline = progress_deadline,
                                                                       .probe_time = probe_time_},
                                                                      driver_.get(), &metrics_, PosixFileSystem());
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
  }

  void TearDown() override {
    if (service_ != nullptr) service_->Stop(absl::ZeroDuration());
    if (thread_.joinable()) {
      driver_->Shutdown();
      thread_.join();
    }
  }

  WireWorker Worker(const std::string& id = "east", int64_t elements = kElements, const std::string& run = "r1") {
    return WireWorker(address(), run, id, elements);
  }
  std::string address() const { return service_->address().ToString(); }

  // 0, 1/4, 2/4, ...: exact in float32.
  static std::vector<float> Ramp(int64_t elements = kElements) {
    std::vector<float> values(static_cast<size_t>(elements));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 4096) / 4;
    return values;
  }

  std::string config_ = kConfig;
  absl::Duration probe_time_ = kMaxProbeTime;
  TlsFiles tls_;  // Not given: plaintext.
  CallLimits::Options limits_;
  static constexpr const char* kNoNames[] = {"only", "unused", "values", "here"};
  const SteadyClock clock_;
  ::diloco::testing::TempFolder folder_;
  DriverObserver observer_;
  EventLog events_{7, &clock_};
  prometheus::Registry registry_;
  CoordinatorMetrics metrics_{registry_,
                              {.methods = kMethodNames,
                               .phases = kNoNames,
                               .verdicts = kNoNames,
                               .refusals = kRefusalNames,
                               .limits = kCallLimitNames}};
  std::unique_ptr<Store> store_;
  ThreadPool disk_{1};
  ThreadPool pool_{2};
  std::unique_ptr<Driver> driver_;
  std::thread thread_;
  std::unique_ptr<Service> service_;
};

}  // namespace diloco
