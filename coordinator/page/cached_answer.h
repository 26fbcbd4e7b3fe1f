// An HTTP answer that many ask for and that is made once for all of them.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/http/http_server.h"

namespace diloco {

// Whoever asks within this long is given what was made before.
inline constexpr absl::Duration kAnswerKept = absl::Seconds(1);
// While one thread makes the answer, which may take its time, nobody waits for that: others are given the one before,
// up to this age.
inline constexpr absl::Duration kAnswerOldest = absl::Seconds(5);

// Thread-safe.
class CachedAnswer {
 public:
  using Make = std::function<absl::StatusOr<std::string>()>;
  // `make`: JSON, or why there is none now. Called by one thread at a time.
  CachedAnswer(const Clock* clock, Make make) : clock_(*clock), make_(std::move(make)) {}

  // 200 with the JSON, or 503 with {"error": "why"}.
  HttpAnswer Get();

 private:
  const Clock& clock_;
  const Make make_;
  Mutex mutex_;
  bool making_ ABSL_GUARDED_BY(mutex_) = false;
  MonotonicTime made_ ABSL_GUARDED_BY(mutex_);
  std::string json_ ABSL_GUARDED_BY(mutex_);  // Empty: none yet.
};

}  // namespace diloco
