// When the disk is asked again for something that it refused, and what is said meanwhile: kFirstDiskRetry after the
// first refusal, twice as long after each further one, at most kLongestDiskRetry. Not thread-safe: the driver's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/base/clock.h"

namespace diloco {

class DiskRetry {
 public:
  // `why`: with path, error and free bytes.
  void Refused(const absl::Status& why, MonotonicTime now);
  void Taken() { *this = DiskRetry(); }

  // Between a refusal and Taken().
  bool waiting() const { return !why_.ok(); }
  // When it waits: the refusal, and when to ask again.
  const absl::Status& why() const { return why_; }
  MonotonicTime at() const { return at_; }
  // Nothing to wait for any longer.
  bool Due(MonotonicTime now) const { return !waiting() || now >= at_; }
  // Why, when it is tried again, and what would help.
  std::string Sentence(MonotonicTime now) const;

 private:
  absl::Status why_;
  absl::Duration wait_;  // Before `at_`.
  MonotonicTime at_;
};

}  // namespace diloco
