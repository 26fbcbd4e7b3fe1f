#include "tests/support/line_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "common/base/check.h"

namespace diloco::testing {

LineWatch::LineWatch(std::string path, uint64_t offset)
    : path_(std::move(path)), offset_(offset), notify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  DILOCO_CHECK(notify_ >= 0 && inotify_add_watch(notify_, path_.c_str(), IN_MODIFY) >= 0);
}

LineWatch::~LineWatch() { close(notify_); }

bool LineWatch::ReadMore() {
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset_));
  const std::string more((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  offset_ += more.size();
  unread_ += more;
  return !more.empty();
}

absl::StatusOr<std::string> LineWatch::Next(const std::function<bool(const std::string&)>& wanted,
                                            absl::Duration deadline) {
  const absl::Time end = absl::Now() + deadline;
  while (true) {
    for (size_t line_end = 0; (line_end = unread_.find('\n')) != std::string::npos;) {
      const std::string line = unread_.substr(0, line_end);
      unread_.erase(0, line_end + 1);
      if (wanted(line)) return line;
    }
    // Changes from before the read are in it; later ones end the wait.
    char events[4096];
    while (read(notify_, events, sizeof(events)) > 0) {
    }
    if (ReadMore()) continue;
    const absl::Duration left = end - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(absl::StrFormat("%s: no such line in time", path_));
    }
    pollfd waiting{.fd = notify_, .events = POLLIN, .revents = 0};
    poll(&waiting, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
  }
}

}  // namespace diloco::testing
