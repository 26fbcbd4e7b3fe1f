// `--watch`: the same command again and again.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/base/status_macros.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/show.h"

namespace diloco {

// What one look gave.
struct Frame {
  std::string json;    // One line, with its newline.
  std::string screen;  // For a terminal, where it takes the place of the frame before.
  std::string lines;   // For a log.
  bool last = false;   // Nothing more will come.
};

// Looks every `interval` and shows each frame, up to the last one. Errors: those of `look`; a coordinator that cannot
// be reached only after `context.timeout` of it.
absl::Status Watch(const CommandContext& context, absl::Duration interval,
                   const std::function<absl::StatusOr<Frame>()>& look);

// Of a command that shows one message, once or, with --watch, until the user ends it.
struct WatchFlags {
  bool watch = false;
  std::string interval = "2s";
};
void AddWatchFlags(CLI::App& app, WatchFlags& flags);

// kInvalidArgument: the interval.
absl::StatusOr<absl::Duration> IntervalOf(const WatchFlags& flags);

// `fetch`: () -> StatusOr<Message>. `view`: (message, ViewOptions) -> text. `last`: whether that is all there will be.
template <typename Fetch, typename View, typename Last>
absl::StatusOr<ExitCode> ShowOrWatch(const CommandContext& context, const WatchFlags& flags, Fetch fetch, View view,
                                     Last last) {
  DILOCO_ASSIGN_OR_RETURN(const absl::Duration interval, IntervalOf(flags));
  if (!flags.watch) {
    DILOCO_ASSIGN_OR_RETURN(const auto message, fetch());
    Show(context, message, view(message, ViewOf(context)));
    return ExitCode::kOk;
  }
  DILOCO_RETURN_IF_ERROR(Watch(context, interval, [&]() -> absl::StatusOr<Frame> {
    DILOCO_ASSIGN_OR_RETURN(const auto message, fetch());
    const std::string text = view(message, ViewOf(context));
    return Frame{
        .json = ToJson(message, JsonStyle::kOneLine), .screen = text, .lines = text + "\n", .last = last(message)};
  }));
  return ExitCode::kOk;
}
template <typename Fetch, typename View>
absl::StatusOr<ExitCode> ShowOrWatch(const CommandContext& context, const WatchFlags& flags, Fetch fetch, View view) {
  return ShowOrWatch(context, flags, fetch, view, [](const auto&) { return false; });
}

}  // namespace diloco
