#include "coordinator/driver/disk_retry.h"

#include <algorithm>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "coordinator/store/store.h"

namespace diloco {

void DiskRetry::Refused(const absl::Status& why, MonotonicTime now) {
  wait_ = waiting() ? std::min(2 * wait_, kLongestDiskRetry) : kFirstDiskRetry;
  why_ = why;
  at_ = now + wait_;
}

std::string DiskRetry::Sentence(MonotonicTime now) const {
  const absl::Duration left = std::max(absl::Ceil(at_ - now, absl::Seconds(1)), absl::ZeroDuration());
  return absl::StrFormat("%s; tried again in %s, and goes on by itself once the disk %s", why_.message(),
                         absl::FormatDuration(left),
                         StoreErrorOf(why_) == StoreError::kReadOnly ? "can be written to" : "has room");
}

}  // namespace diloco
