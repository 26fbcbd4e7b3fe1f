#include "coordinator/driver/mailbox.h"

#include <utility>

namespace diloco {

absl::Status Mailbox::Offer(Task task) {
  MutexLock lock(&mutex_);
  if (!closed_.ok()) {
    return closed_;
  }
  if (tasks_.size() >= limit_) {
    return absl::ResourceExhaustedError("the coordinator has too many requests waiting; try again later");
  }
  tasks_.push_back(std::move(task));
  arrived_.NotifyOne();
  return absl::OkStatus();
}

void Mailbox::Post(Task task) {
  MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  arrived_.NotifyOne();
}

void Mailbox::Close(absl::Status reason) {
  MutexLock lock(&mutex_);
  if (closed_.ok()) {
    closed_ = std::move(reason);
  }
}

std::deque<Mailbox::Task> Mailbox::TakeUntil(std::chrono::steady_clock::time_point deadline) {
  MutexLock lock(&mutex_);
  while (tasks_.empty()) {
    if (!arrived_.WaitUntil(&mutex_, deadline)) {
      break;
    }
  }
  return std::exchange(tasks_, {});
}

bool Mailbox::empty() {
  MutexLock lock(&mutex_);
  return tasks_.empty();
}

}  // namespace diloco
