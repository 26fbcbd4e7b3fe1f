#include "tests/chaos/folder_copy.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/check.h"

namespace diloco::testing {

FolderCopy::FolderCopy(std::string from, std::string to)
    : from_(std::move(from)),
      to_(std::move(to)),
      notify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  std::filesystem::create_directories(from_);
  std::filesystem::create_directories(to_);
  DILOCO_CHECK(notify_ >= 0 && stop_ >= 0 && inotify_add_watch(notify_, from_.c_str(), IN_MOVED_TO) >= 0);
  thread_ = std::thread([this] { Run(); });
}

FolderCopy::~FolderCopy() {
  DILOCO_CHECK(eventfd_write(stop_, 1) == 0);
  thread_.join();
  close(notify_);
  close(stop_);
}

void FolderCopy::Run() {
  while (true) {
    pollfd waiting[] = {{notify_, POLLIN, 0}, {stop_, POLLIN, 0}};
    poll(waiting, 2, -1);
    if (waiting[1].revents != 0) return;
    char events[4096];
    while (read(notify_, events, sizeof(events)) > 0) {
    }
    Link();
  }
}

// The store gives a file its name once it is whole, and never the same name again. A file that is removed meanwhile, or
// linked by the other thread, is no error.
void FolderCopy::Link() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(from_, ignored)) {
    const std::string name = entry.path().filename();
    if ((name.starts_with("journal-") || name.starts_with("snapshot-")) && !name.ends_with(".tmp")) {
      std::filesystem::create_hard_link(entry.path(), to_ + "/" + name, ignored);
    }
  }
}

const std::string& FolderCopy::CatchUp() {
  Link();
  return to_;
}

}  // namespace diloco::testing
