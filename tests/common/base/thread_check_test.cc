#include "common/base/thread_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <string>

namespace diloco {
namespace {

TEST(ThreadCheckTest, AFewThreadsCanStart) {
  EXPECT_TRUE(CheckThreadsStart(0).ok());
  EXPECT_TRUE(CheckThreadsStart(48).ok());
}

// Room for few stacks, because root has no limit of processes. Exit code 0: it was said how many threads could start.
[[noreturn]] void AskForTooMany() {
  const rlimit limit{.rlim_cur = rlim_t{1} << 30, .rlim_max = rlim_t{1} << 30};
  const bool limited = setrlimit(RLIMIT_AS, &limit) == 0;
  const absl::Status status = CheckThreadsStart(100'000);
  const std::string message(status.message());
  const bool said = absl::IsResourceExhausted(status) && message.starts_with("only ") &&
                    message.find(" of 100000 threads can start: ") != std::string::npos;
  std::_Exit(limited && said && CheckThreadsStart(1).ok() ? 0 : 1);
}

// In a process of its own, whose limit nothing else feels.
TEST(ThreadCheckTest, ThreadsThatCannotStartAreAnErrorThatSaysHowManyCan) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs more room than this test leaves";
#endif
  EXPECT_EXIT(AskForTooMany(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace diloco
