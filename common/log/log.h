// The process's log: one line an event on stderr, `time=... level=... event=... key=value ...`, UTC, milliseconds.
// Write it with spdlog: spdlog::info("event=round_committed fragment={} round={}", f, r).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace diloco {

// Levels, from the most to the least that is written; for --help.
inline constexpr std::string_view kLogLevels = "debug, info, warning, error";

// Sets up spdlog's default logger, which is thread-safe and flushes each line. Once, at the start of a program.
// Errors, kInvalidArgument: no level of kLogLevels.
absl::Status InitLog(std::string_view level);

// A value that may hold anything, in quotes, with control characters, quotes and backslashes escaped: one line stays
// one line, whatever a peer sent.
std::string Quoted(std::string_view value);

}  // namespace diloco
