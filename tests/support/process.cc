#include "tests/support/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

extern char** environ;

namespace diloco::testing {
namespace {

using Steady = std::chrono::steady_clock;

int MillisecondsUntil(Steady::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Steady::now()).count();
  return left > 0 ? static_cast<int>(left) + 1 : 0;
}

// Only calls that are safe between fork and exec.
void RedirectTo(const char* path, int first, int second) {
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) _exit(127);
  dup2(file, first);
  if (second >= 0) dup2(file, second);
}

}  // namespace

std::string ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream content;
  content << stream.rdbuf();
  return content.str();
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << content;
  stream.close();
  DILOCO_CHECK(!stream.fail());
}

absl::Status WaitForFile(const std::string& path, absl::Duration deadline) {
  const Steady::time_point end = Steady::now() + absl::ToChronoMilliseconds(deadline);
  const std::string folder = std::filesystem::path(path).parent_path();
  const int notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  DILOCO_CHECK(notify >= 0);
  DILOCO_CHECK(inotify_add_watch(notify, folder.c_str(), IN_CREATE | IN_MOVED_TO) >= 0);
  absl::Status status;
  while (!std::filesystem::exists(path)) {
    if (Steady::now() >= end) {
      status = absl::DeadlineExceededError(absl::StrFormat("%s did not appear", path));
      break;
    }
    pollfd waiting{.fd = notify, .events = POLLIN, .revents = 0};
    poll(&waiting, 1, MillisecondsUntil(end));
    char events[4096];
    while (read(notify, events, sizeof(events)) > 0) {
    }
  }
  close(notify);
  return status;
}

absl::StatusOr<Process> Process::Start(const Options& options) {
  DILOCO_CHECK(!options.arguments.empty());
  std::vector<char*> arguments;
  for (const std::string& argument : options.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> environment;
  for (const std::string& variable : options.environment) environment.push_back(const_cast<char*>(variable.c_str()));
  for (char** variable = environ; *variable != nullptr; ++variable) environment.push_back(*variable);
  environment.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return absl::InternalError(absl::StrFormat("fork: %s", std::strerror(errno)));
  if (pid == 0) {
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    if (!options.output_path.empty()) RedirectTo(options.output_path.c_str(), STDERR_FILENO, STDOUT_FILENO);
    if (!options.stdout_path.empty()) RedirectTo(options.stdout_path.c_str(), STDOUT_FILENO, -1);
    execve(arguments[0], arguments.data(), environment.data());
    _exit(127);
  }
  return Process(pid);
}

Process::~Process() {
  if (pid_ < 0 || exit_code_ >= 0) return;
  kill(pid_, SIGKILL);
  Reap();
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), exit_code_(std::exchange(other.exit_code_, -1)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

void Process::Signal(int signal) const {
  if (pid_ > 0 && exit_code_ < 0) kill(pid_, signal);
}

void Process::Reap() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

absl::StatusOr<int> Process::Wait(absl::Duration deadline) {
  if (exit_code_ >= 0) return exit_code_;
  const Steady::time_point end = Steady::now() + absl::ToChronoMilliseconds(deadline);
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  DILOCO_CHECK(handle >= 0);
  pollfd waiting{.fd = handle, .events = POLLIN, .revents = 0};
  int ready = 0;
  while ((ready = poll(&waiting, 1, MillisecondsUntil(end))) < 0 && errno == EINTR) {
  }
  close(handle);
  if (ready == 0) return absl::DeadlineExceededError(absl::StrFormat("process %d still runs", pid_));
  Reap();
  return exit_code_;
}

bool Process::running() { return pid_ > 0 && !Wait(absl::ZeroDuration()).ok(); }

absl::StatusOr<Finished> RunProcess(const std::vector<std::string>& arguments, absl::Duration deadline,
                                    const std::vector<std::string>& environment) {
  const TempFolder folder;
  DILOCO_ASSIGN_OR_RETURN(Process process, Process::Start({.arguments = arguments,
                                                           .output_path = folder.File("errors"),
                                                           .stdout_path = folder.File("output"),
                                                           .environment = environment}));
  DILOCO_ASSIGN_OR_RETURN(const int exit_code, process.Wait(deadline));
  return Finished{
      .exit_code = exit_code, .output = ReadFile(folder.File("output")), .errors = ReadFile(folder.File("errors"))};
}

}  // namespace diloco::testing
