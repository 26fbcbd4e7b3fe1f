// dilococtl: shows and steers a run.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>

#include "common/rpc/server.h"
#include "coordinator/ctl/ctl.h"

namespace diloco {
namespace {

// Nothing is held that would need to be given back, so Ctrl-C may end the process where it is.
void EndAtOnce(int) { ::_exit(static_cast<int>(ExitCode::kInterrupted)); }

void Print(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

TerminalSize StdoutTerminal() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

// https://no-color.org: set to anything but nothing.
bool NoColor() {
  const char* const value = std::getenv("NO_COLOR");
  return value != nullptr && *value != '\0';
}

std::optional<std::string> Ask(std::string_view question) {
  if (::isatty(STDIN_FILENO) == 0) return std::nullopt;
  Print(stderr, question);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

int Main(int argc, char** argv) {
  struct sigaction interrupt {};
  interrupt.sa_handler = &EndAtOnce;
  ::sigaction(SIGINT, &interrupt, nullptr);
  RouteGrpcLog();
  const SteadyClock clock;
  return RunCtl(
      argc, argv,
      {.out = [](std::string_view text) { Print(stdout, text); },
       .err = [](std::string_view text) { Print(stderr, text); },
       .terminal = &StdoutTerminal,
       .no_color = NoColor(),
       .ask = &Ask,
       .clock = &clock,
       .pause = [](absl::Duration time) { ::poll(nullptr, 0, static_cast<int>(absl::ToInt64Milliseconds(time))); }});
}

}  // namespace
}  // namespace diloco

int main(int argc, char** argv) { return diloco::Main(argc, argv); }
