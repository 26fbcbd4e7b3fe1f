// --log-level and --log-format, which every program has that writes a log.
#pragma once

#include "common/log/log.h"

namespace CLI {
class App;
}  // namespace CLI

namespace diloco {

// Adds them, with DILOCO_LOG_LEVEL and DILOCO_LOG_FORMAT; what `options` holds is the default. InitLog checks values.
void AddLogFlags(CLI::App& app, LogOptions* options);

}  // namespace diloco
