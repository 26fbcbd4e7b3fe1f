// A command's result: the API message as JSON, or as text for people.
#pragma once

#include <string>

#include "coordinator/ctl/command.h"
#include "coordinator/ctl/json_output.h"

namespace diloco {

// `text`: what to show of `message` but for -o json.
inline void Show(const CommandContext& context, const google::protobuf::Message& message, const std::string& text) {
  context.io.out(context.format == OutputFormat::kJson ? ToJson(message, JsonStyle::kIndented) : text);
}

}  // namespace diloco
