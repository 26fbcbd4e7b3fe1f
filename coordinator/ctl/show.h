// A command's result: the API message as JSON, or as text for people.
#pragma once

#include <string>

#include "common/json/message_json.h"
#include "coordinator/ctl/command.h"
#include "coordinator/ctl/view_options.h"

namespace diloco {

// Colours go to a terminal only, and not where they are not wanted.
inline ViewOptions ViewOf(OutputFormat format, const CtlIo& io) {
  const bool colors = !io.no_color && io.terminal && io.terminal().columns > 0;
  return {.wide = format == OutputFormat::kWide, .colors = colors ? Colors::kOn : Colors::kOff};
}
inline ViewOptions ViewOf(const CommandContext& context) { return ViewOf(context.format, context.io); }

// `text`: what to show of `message` but for -o json.
inline void Show(const CommandContext& context, const google::protobuf::Message& message, const std::string& text) {
  context.io.out(context.format == OutputFormat::kJson ? ToJson(message, JsonStyle::kIndented) : text);
}

}  // namespace diloco
