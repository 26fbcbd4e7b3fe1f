#include "tests/coordinator/driver/driver_fixture.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"

namespace diloco {

namespace {

class TestFile final : public WritableFile {
 public:
  TestFile(std::unique_ptr<WritableFile> file, std::string path, TestFileSystem* files)
      : file_(std::move(file)), path_(std::move(path)), files_(files) {}
  absl::Status Append(std::string_view bytes) override {
    const absl::Status status = files_->Change("append " + path_);
    DILOCO_RETURN_IF_ERROR(file_->Append(status.ok() ? bytes : bytes.substr(0, bytes.size() / 2)));
    return status;
  }
  absl::Status Sync() override {
    const absl::Status status = files_->Change("sync " + path_);
    return status.ok() ? status : SyncError(status);
  }

 private:
  std::unique_ptr<WritableFile> file_;
  const std::string path_;
  TestFileSystem* const files_;
};

}  // namespace

void TestFileSystem::Fail(std::string prefix, int nth, int times, absl::Status status) {
  failing_ = std::move(prefix);
  before_ = nth;
  times_ = times;
  status_ = std::move(status);
}

absl::Status TestFileSystem::Change(const std::string& line) {
  const MutexLock lock(&mutex_);
  changes.push_back(line);
  if (times_ == 0 || !line.starts_with(failing_) || before_-- > 0) {
    return absl::OkStatus();
  }
  --times_;
  return status_;
}

absl::StatusOr<std::unique_ptr<WritableFile>> TestFileSystem::Create(const std::string& path) {
  DILOCO_RETURN_IF_ERROR(Change("create " + path));
  DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, PosixFileSystem()->Create(path));
  return std::make_unique<TestFile>(std::move(file), path, this);
}
absl::StatusOr<std::unique_ptr<WritableFile>> TestFileSystem::OpenForAppend(const std::string& path) {
  DILOCO_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, PosixFileSystem()->OpenForAppend(path));
  return std::make_unique<TestFile>(std::move(file), path, this);
}
absl::StatusOr<std::unique_ptr<ReadableFile>> TestFileSystem::OpenForRead(const std::string& path) {
  return PosixFileSystem()->OpenForRead(path);
}
absl::Status TestFileSystem::Truncate(const std::string& path, uint64_t size) {
  DILOCO_RETURN_IF_ERROR(Change("truncate " + path));
  return PosixFileSystem()->Truncate(path, size);
}
absl::Status TestFileSystem::Rename(const std::string& from, const std::string& to) {
  DILOCO_RETURN_IF_ERROR(Change("rename " + from));
  return PosixFileSystem()->Rename(from, to);
}
absl::Status TestFileSystem::Remove(const std::string& path) {
  DILOCO_RETURN_IF_ERROR(Change("remove " + path));
  return PosixFileSystem()->Remove(path);
}
absl::StatusOr<std::vector<std::string>> TestFileSystem::List(const std::string& folder) {
  return PosixFileSystem()->List(folder);
}
absl::Status TestFileSystem::CreateFolder(const std::string& folder) { return PosixFileSystem()->CreateFolder(folder); }
absl::Status TestFileSystem::SyncFolder(const std::string& folder) {
  const absl::Status status = Change("sync-folder " + folder);
  return status.ok() ? status : SyncError(status);
}
absl::StatusOr<std::unique_ptr<FileLock>> TestFileSystem::Lock(const std::string& path, const std::string& holder) {
  return PosixFileSystem()->Lock(path, holder);
}

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
      "fragments: {count: 2}\nwire: {uplink: %s, downlink: %s}\n"
      "%s",
      workers, rounds, uplink, downlink, more);
}

std::vector<TensorSpec> TwoFragments() {
  return {{.name = "a", .shape = {5}, .layer = 0}, {.name = "b", .shape = {2, 3}, .layer = 1, .decay = true}};
}

Coordinator::Coordinator(std::string yaml) { SetYaml(std::move(yaml)); }

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
  DILOCO_ASSIGN_OR_RETURN(store, Store::Open(&files, {.folder = folder_.path(), .holder = "the test"}, &recovered));
  const DriverWorld world{
      .clock = &clock, .files = &files, .store = store.get(), .disk = &disk, .pool = &pool, .observer = &observer};
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
