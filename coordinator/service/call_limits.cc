#include "coordinator/service/call_limits.h"

#include "absl/strings/str_format.h"

#include "common/base/check.h"

namespace diloco {
namespace {

// From one sweep over callers that have gone to the next: each keeps a few hundred bytes until then.
constexpr absl::Duration kForgetEvery = absl::Seconds(10);

}  // namespace

std::optional<CallLimit> CallLimits::Begin(const std::string& who, MonotonicTime now) {
  MutexLock lock(&mutex_);
  Forget(now);
  State& state = callers_.try_emplace(who, State{.calls = Allowance(options_.calls, now)}).first->second;
  if (state.open_calls >= options_.open_calls) return CallLimit::kOpenCalls;
  if (!state.calls.Take(now)) return CallLimit::kCallRate;
  ++state.open_calls;
  return std::nullopt;
}

void CallLimits::End(const std::string& who, MonotonicTime now) {
  MutexLock lock(&mutex_);
  State& state = callers_.at(who);
  DILOCO_CHECK(state.open_calls > 0);
  --state.open_calls;
  Forget(now);
}

bool CallLimits::Take(const std::string& who, size_t bytes) {
  MutexLock lock(&mutex_);
  State& state = callers_.at(who);
  if (bytes > options_.bytes_in_flight - state.bytes) return false;
  state.bytes += bytes;
  return true;
}

void CallLimits::Give(const std::string& who, size_t bytes) {
  MutexLock lock(&mutex_);
  State& state = callers_.at(who);
  DILOCO_CHECK(state.bytes >= bytes);
  state.bytes -= bytes;
}

void CallLimits::Forget(MonotonicTime now) {
  if (now < forget_at_) return;
  forget_at_ = now + kForgetEvery;
  std::erase_if(callers_, [now](const auto& caller) {
    return caller.second.open_calls == 0 && caller.second.calls.Untouched(now);
  });
}

absl::Status OverLimit(CallLimit limit, const CallLimits::Options& options, const std::string& who) {
  switch (limit) {
    case CallLimit::kOpenCalls:
      return absl::ResourceExhaustedError(
          absl::StrFormat("%s has %d calls open, which is the limit; end some first", who, options.open_calls));
    case CallLimit::kCallRate:
      return absl::ResourceExhaustedError(
          absl::StrFormat("%s makes more than %g calls a second; try again later", who, options.calls.per_second));
    case CallLimit::kBytesInFlight:
      return absl::ResourceExhaustedError(
          absl::StrFormat("%s has more than %d bytes in flight, which is the limit; wait for answers first", who,
                          options.bytes_in_flight));
  }
  DILOCO_CHECK(false);
  return absl::OkStatus();
}

}  // namespace diloco
