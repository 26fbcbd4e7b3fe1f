// Follows a text file that another process appends to, such as a log.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace diloco::testing {

class LineWatch {
 public:
  // The file exists. Lines before `offset` are passed over.
  LineWatch(std::string path, uint64_t offset);
  ~LineWatch();
  LineWatch(const LineWatch&) = delete;
  LineWatch& operator=(const LineWatch&) = delete;

  // The next whole line that `wanted` accepts; lines before it are used up. Errors: kDeadlineExceeded.
  absl::StatusOr<std::string> Next(const std::function<bool(const std::string&)>& wanted, absl::Duration deadline);

 private:
  // Reads what was appended; false when that was nothing.
  bool ReadMore();

  const std::string path_;
  uint64_t offset_;     // Of what has not been read yet.
  std::string unread_;  // Read, and not used up.
  int notify_ = -1;
};

}  // namespace diloco::testing
