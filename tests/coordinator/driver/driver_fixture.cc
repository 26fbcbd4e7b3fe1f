#include "tests/coordinator/driver/driver_fixture.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"

namespace diloco {

bool ManualExecutor::RunOne() {
  if (tasks_.empty()) {
    return false;
  }
  const std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  task();
  return true;
}

std::string RunYaml(int workers, int rounds, const std::string& uplink, const std::string& downlink,
                    const std::string& more) {
  return absl::StrFormat(
      "run: {id: test, workers: %d, rounds: %d}\n"
      "method: diloco\n"
      "inner_steps: 4\n"
      "wire: {uplink: %s, downlink: %s, fragments: 2}\n"
      "%s",
      workers, rounds, uplink, downlink, more);
}

std::vector<TensorSpec> TwoFragments() {
  return {{.name = "a", .shape = {5}, .layer = 0}, {.name = "b", .shape = {2, 3}, .layer = 1, .decay = true}};
}

Coordinator::Coordinator(std::string yaml, FileSystem* files) : files_(files) { SetYaml(std::move(yaml)); }

void Coordinator::SetYaml(std::string yaml) {
  yaml_ = std::move(yaml);
  absl::StatusOr<RunConfig> config = ParseRunConfig(yaml_, "test.yaml");
  if (!config.ok()) {
    ADD_FAILURE() << config.status();
  }
  DILOCO_CHECK(config.ok());
  config_ = *std::move(config);
}

absl::Status Coordinator::Start() {
  RecoveredState recovered;
  DILOCO_ASSIGN_OR_RETURN(store, Store::Open(files_, {.folder = folder_.path(), .holder = "the test"}, &recovered));
  const DriverWorld world{
      .clock = &clock, .files = files_, .store = store.get(), .disk = &disk, .pool = &pool, .observer = &observer};
  absl::StatusOr<std::unique_ptr<Driver>> created =
      Driver::Create({.config = config_, .config_yaml = yaml_, .checkpoint_folder = folder_.File("checkpoints")}, world,
                     std::move(recovered));
  if (!created.ok()) {
    store.reset();
    return created.status();
  }
  driver = *std::move(created);
  return absl::OkStatus();
}

void Coordinator::Crash() {
  disk.Discard();
  pool.Discard();
  driver.reset();
  store.reset();
}

bool Coordinator::PumpOne() {
  driver->RunUntilIdle();
  return disk.RunOne() || pool.RunOne();
}

void Coordinator::Pump() {
  while (PumpOne()) {
  }
  driver->RunUntilIdle();
}

}  // namespace diloco
