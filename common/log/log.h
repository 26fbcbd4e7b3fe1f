// The process's log: one line an event on stderr, in UTC. As text, for people and grep, or as JSON, for collectors:
//
//   time=2026-11-30T07:45:22.123Z level=info event=worker_lost worker=west reason="no word for 20s" run=english
//   {"time":"2026-11-30T07:45:22.123Z","level":"info","event":"worker_lost","worker":"west","reason":"no word...",...}
//
//   text  := field (" " field)*
//   field := key "=" (bare | string)      key := [a-z] [a-z0-9_]*, once a line
//   bare  := [A-Za-z0-9_.:/+@%-]+         string := a JSON string, ASCII only
//
// So one line stays one line, whatever a peer sent: quotes, control characters and what is not ASCII are escaped, bytes
// that are no UTF-8 become U+FFFD. Numbers and booleans are bare; in JSON they are numbers and booleans, and a number
// that is not finite is null.
//
//   LogInfo("round_committed", {{"fragment", fragment}, {"round", round}, {"reason", reason}});
//
// Keys have one meaning each: run, worker, fragment, round, version, step, seconds, bytes, path; `reason` is a sentence
// that says why. CONTRIBUTING.md says which level an event has.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

namespace diloco {

// Levels, from the most to the least that is written, and formats; for --help.
inline constexpr std::string_view kLogLevels = "debug, info, warning, error";
inline constexpr std::string_view kLogFormats = "text, json";

struct LogOptions {
  std::string level = "info";   // One of kLogLevels.
  std::string format = "text";  // One of kLogFormats.
};

// Sets the log up: thread-safe, each line flushed. Once, at the start of a program.
// Errors, kInvalidArgument: no level of kLogLevels, no format of kLogFormats.
absl::Status InitLog(const LogOptions& options);

// A key and its value, which lives until the line is written. Text is kept as a view.
class LogField {
 public:
  using Value = std::variant<bool, int64_t, uint64_t, double, std::string_view>;

  template <typename T>
  LogField(std::string_view key, const T& value) : key_(key), value_(ToValue(value)) {}

  std::string_view key() const { return key_; }
  const Value& value() const { return value_; }

 private:
  template <typename T>
  static Value ToValue(const T& value) {
    if constexpr (std::same_as<T, bool>) {
      return value;
    } else if constexpr (std::signed_integral<T>) {
      return int64_t{value};
    } else if constexpr (std::unsigned_integral<T>) {
      return uint64_t{value};
    } else if constexpr (std::floating_point<T>) {
      return double{value};
    } else if constexpr (requires { value.data(); }) {  // Abseil's string_view too.
      return std::string_view(value.data(), value.size());
    } else {
      return std::string_view(value);
    }
  }

  std::string_view key_;
  Value value_;
};
using LogFields = std::initializer_list<LogField>;

// One event, a name such as `worker_joined`, and what is known of it. Thread-safe; cheap below the level.
void LogDebug(std::string_view event, LogFields fields = {});
void LogInfo(std::string_view event, LogFields fields = {});
void LogWarning(std::string_view event, LogFields fields = {});
void LogError(std::string_view event, LogFields fields = {});

// What the whole process is about: every line from now on ends with these keys, but for those that it has itself.
// Replaces what was set before. Thread-safe.
void SetLogContext(std::vector<std::pair<std::string, std::string>> context);

// Why the program ends, for whoever started it: `PROGRAM: MESSAGE` on stderr; where lines are JSON, an event `failed`.
void SayFailure(std::string_view program, std::string_view message);

}  // namespace diloco
