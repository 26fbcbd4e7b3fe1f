// A data folder has one process at a time, and a killed one leaves nothing to clean up.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_format.h"

#include "coordinator/store/store.h"

namespace diloco {
namespace {

absl::Status TryOpen(const std::string& folder, const std::string& holder, std::unique_ptr<Store>* held = nullptr) {
  RecoveredState recovered;
  absl::StatusOr<std::unique_ptr<Store>> store =
      Store::Open(PosixFileSystem(), StoreOptions{.folder = folder, .holder = holder}, &recovered);
  if (store.ok() && held != nullptr) *held = *std::move(store);
  return store.status();
}

TEST(LockTest, AnotherProcessIsRefusedUntilTheHolderIsKilled) {
  std::string folder = absl::StrFormat("%s/diloco_lock_XXXXXX", testing::TempDir());
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t holder = fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) {
    std::unique_ptr<Store> store;
    const char answer = TryOpen(folder, "diloco-coordinator pid 17 on rome", &store).ok() ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    while (true) pause();
  }
  char answer = 'n';
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  const absl::Status refused = TryOpen(folder, "diloco-coordinator pid 18 on rome");
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_EQ(refused.message(),
            absl::StrFormat("data folder \"%s\" is held by \"diloco-coordinator pid 17 on rome\"; stop it or use "
                            "another --data-dir",
                            folder));

  ASSERT_EQ(kill(holder, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(holder, &status, 0), holder);
  EXPECT_TRUE(TryOpen(folder, "diloco-coordinator pid 18 on rome").ok());
  close(ready[0]);
  close(ready[1]);
  std::filesystem::remove_all(folder);
}

TEST(LockTest, FolderThatCannotBeIsAnErrorThatNamesIt) {
  for (const char* folder : {"/dev/null/data", "/dev/null"}) {
    const absl::Status status = TryOpen(folder, "test");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()),
              absl::StrFormat("cannot create folder \"%s\": Not a directory; use another --data-dir", folder));
  }
}

}  // namespace
}  // namespace diloco
