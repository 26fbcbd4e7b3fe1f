// The programs as containers run them: as process 1 of a namespace, on some of the machine's CPUs, with few processes
// allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/line_watch.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::Process;
using testing::Program;
using testing::ReadFile;
using testing::RunProcess;
using testing::TempFolder;

constexpr char kConfig[] =
    "run: {id: boxed, workers: 1, rounds: 1000000}\n"
    "method: diloco\ninner_steps: 2\nfragments: {count: 1}\n"
    "rounds: {heartbeat_interval: 50ms, lease: 60s}\n"
    "model: {layers: 1, width: 32, heads: 1, sequence: 16}\n";

// Whatever it says while it ends, it is gone long before a supervisor would kill it.
constexpr absl::Duration kGracePeriod = absl::Seconds(30);

bool CanUnshare() {
  const absl::StatusOr<Finished> tried = RunProcess({"/usr/bin/unshare", "--pid", "--fork", "/bin/true"}, kPatience);
  return tried.ok() && tried->exit_code == 0;
}

// A program that is process 1 of a PID namespace. A signal that it does not handle is lost there.
class ProcessOne {
 public:
  ProcessOne(std::vector<std::string> arguments, std::string log) : log_(std::move(log)) {
    arguments.insert(arguments.begin(), {"/usr/bin/unshare", "--pid", "--fork", "--kill-child=KILL"});
    absl::StatusOr<Process> started = Process::Start({.arguments = arguments, .output_path = log_});
    EXPECT_TRUE(started.ok()) << started.status();
    unshare_ = std::make_unique<Process>(*std::move(started));
  }

  // Its id outside of the namespace.
  pid_t pid() const {
    const std::string path = "/proc/" + std::to_string(unshare_->pid());
    std::ifstream children(path + "/task/" + std::to_string(unshare_->pid()) + "/children");
    pid_t child = 0;
    children >> child;
    return child;
  }
  // unshare exits with the code of its child.
  int Terminate(int times = 1) {
    for (int i = 0; i < times; ++i) kill(pid(), SIGTERM);
    const absl::StatusOr<int> exit_code = unshare_->Wait(kGracePeriod);
    EXPECT_TRUE(exit_code.ok()) << ReadFile(log_);
    return exit_code.value_or(-1);
  }
  bool LogHas(const std::string& text) const {
    if (!testing::WaitForFile(log_, kPatience).ok()) return false;
    const auto has_text = [&text](const std::string& line) { return absl::StrContains(line, text); };
    return testing::LineWatch(log_, 0).Next(has_text, kPatience).ok();
  }

 private:
  std::string log_;
  std::unique_ptr<Process> unshare_;
};

class ContainerTest : public ::testing::Test {
 protected:
  ContainerTest() { folder_.Write("run.yaml", kConfig); }

  std::vector<std::string> CoordinatorArguments() const {
    return {Program("diloco-coordinator"),
            "--config",
            folder_.File("run.yaml"),
            "--data-dir",
            folder_.File("data"),
            "--listen",
            "127.0.0.1:0",
            "--http",
            "none",
            "--port-file",
            folder_.File("ports.json")};
  }
  std::string Address() const {
    EXPECT_TRUE(testing::WaitForFile(folder_.File("ports.json"), kPatience).ok()) << ReadFile(log_);
    return nlohmann::json::parse(ReadFile(folder_.File("ports.json"))).at("listen");
  }

  const TempFolder folder_;
  const std::string log_ = folder_.File("log");
};

TEST_F(ContainerTest, CoordinatorAsProcessOneEndsWithZeroWhenTold) {
  if (!CanUnshare()) GTEST_SKIP() << "no PID namespaces here";
  for (const int times : {1, 2}) {
    ProcessOne coordinator(CoordinatorArguments(), log_);
    Address();
    EXPECT_EQ(coordinator.Terminate(times), 0) << ReadFile(log_);
  }
}

// Before it is ready: in recovery, or a moment before or after.
TEST_F(ContainerTest, CoordinatorAsProcessOneEndsWithZeroHoweverEarly) {
  if (!CanUnshare()) GTEST_SKIP() << "no PID namespaces here";
  for (int i = 0; i < 5; ++i) {
    const std::string log = folder_.File("log" + std::to_string(i));
    ProcessOne coordinator(CoordinatorArguments(), log);
    ASSERT_TRUE(coordinator.LogHas("event=start"));
    EXPECT_EQ(coordinator.Terminate(), 0) << ReadFile(log);
  }
}

TEST_F(ContainerTest, CoordinatorAsProcessOneEndsWithZeroInARound) {
  if (!CanUnshare()) GTEST_SKIP() << "no PID namespaces here";
  ProcessOne coordinator(CoordinatorArguments(), log_);
  const absl::StatusOr<Process> worker =
      Process::Start({.arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", Address(), "--id", "w0", "--elements",
                                    "1000", "--step-ms", "5"},
                      .output_path = folder_.File("w0.log")});
  ASSERT_TRUE(worker.ok()) << worker.status();
  ASSERT_TRUE(coordinator.LogHas("event=round_committed"));
  EXPECT_EQ(coordinator.Terminate(2), 0) << ReadFile(log_);
  EXPECT_THAT(ReadFile(log_), HasSubstr("event=stopped"));
}

#ifdef DILOCO_TRAINER
TEST_F(ContainerTest, WorkerAsProcessOneEndsWithZeroWhenTold) {
  if (!CanUnshare()) GTEST_SKIP() << "no PID namespaces here";
  ProcessOne coordinator(CoordinatorArguments(), log_);
  const std::string data = folder_.Write("text", std::string(5000, 'x'));
  const std::string worker_log = folder_.File("worker.log");
  for (const int times : {1, 2}) {
    ProcessOne worker({Program("diloco-worker"), "--coordinator", Address(), "--id", "east", "--data", data,
                       "--threads", "1", "--progress", "none"},
                      worker_log);
    ASSERT_TRUE(worker.LogHas(times == 1 ? "event=start" : "event=snapshot_taken"));
    EXPECT_EQ(worker.Terminate(times), 0) << ReadFile(worker_log);
  }
}
#endif

// Threads that merge: what the affinity allows, printed at the start, unless a flag says otherwise.
TEST_F(ContainerTest, PoolsFollowTheCpusThatThisProcessMayUse) {
  for (const auto& [flags, threads] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{}, "merge_threads=1 "}, {{"--merge-threads", "3"}, "merge_threads=3 "}}) {
    std::vector<std::string> arguments = {"/usr/bin/taskset", "--cpu-list", "0"};
    const std::vector<std::string> program = CoordinatorArguments();
    arguments.insert(arguments.end(), program.begin(), program.end());
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const std::string log = folder_.File("log" + threads.substr(0, 15));
    absl::StatusOr<Process> process = Process::Start({.arguments = arguments, .output_path = log});
    ASSERT_TRUE(process.ok()) << process.status();
    Address();
    process->Signal(SIGTERM);
    EXPECT_EQ(process->Wait(kPatience).value_or(-1), 0);
    EXPECT_THAT(ReadFile(log), HasSubstr(threads));
  }
}

// Root has no such limit, so that somebody else runs it.
TEST_F(ContainerTest, TooFewProcessesAllowedIsOneSentence) {
  for (const char* allowed : {"1", "4", "12"}) {
    std::vector<std::string> arguments = {"/usr/bin/prlimit", std::string("--nproc=") + allowed};
    if (getuid() == 0) arguments.insert(arguments.begin(), {"/usr/bin/setpriv", "--reuid=65534", "--clear-groups"});
    arguments.insert(arguments.end(), {Program("diloco-coordinator"), "--version"});
    const absl::StatusOr<Finished> finished = RunProcess(arguments, kPatience);
    ASSERT_TRUE(finished.ok()) << finished.status();
    if (finished->errors.find("Permission denied") != std::string::npos) GTEST_SKIP() << finished->errors;
    EXPECT_EQ(finished->exit_code, 1);
    EXPECT_THAT(
        finished->errors,
        ::testing::MatchesRegex("diloco-coordinator: only [0-9]+ of 48 threads can start: [^\n]*; raise the limit "
                                "on processes [^\n]*\n"));
  }
}

}  // namespace
}  // namespace diloco
