// What one caller may have under way, so that one that runs wild costs the others nothing. A caller is an identity, or
// a connection on a plaintext listener, where nobody has one.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"

#include "common/base/allowance.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace diloco {

// Calls that one caller has open, calls that it begins at once and later in a second, and bytes of its uploads that are
// taken in and not answered yet.
inline constexpr int kMaxCallsPerCaller = 64;
inline constexpr double kMaxCallBurstPerCaller = 400;
inline constexpr double kMaxCallsPerSecondPerCaller = 200;
inline constexpr size_t kMaxBytesInFlightPerCaller = size_t{128} << 20;

// Which limit was hit, as label values of CoordinatorMetrics.
enum class CallLimit : size_t { kOpenCalls, kCallRate, kBytesInFlight };
inline constexpr const char* kCallLimitNames[] = {"open_calls", "call_rate", "bytes_in_flight"};

// Thread-safe.
class CallLimits {
 public:
  struct Options {
    int open_calls = kMaxCallsPerCaller;
    Allowance::Options calls = {.burst = kMaxCallBurstPerCaller, .per_second = kMaxCallsPerSecondPerCaller};
    size_t bytes_in_flight = kMaxBytesInFlightPerCaller;
  };
  explicit CallLimits(const Options& options) : options_(options) {}

  // Begins a call of `who`; End ends it. Else the limit that was hit, and no call has begun.
  std::optional<CallLimit> Begin(const std::string& who, MonotonicTime now);
  void End(const std::string& who, MonotonicTime now);

  // Within a call of `who`. False: it would be too many; else Give gives them back.
  bool Take(const std::string& who, size_t bytes);
  void Give(const std::string& who, size_t bytes);

 private:
  struct State {
    int open_calls = 0;
    size_t bytes = 0;
    Allowance calls;
  };
  void Forget(MonotonicTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  Mutex mutex_;
  std::map<std::string, State> callers_ ABSL_GUARDED_BY(mutex_);  // Bounded: see Forget.
  MonotonicTime forget_at_ ABSL_GUARDED_BY(mutex_);
};

// The sentence for a limit of `options`.
absl::Status OverLimit(CallLimit limit, const CallLimits::Options& options, const std::string& who);

}  // namespace diloco
