// --trace, which both programs have that train a run.
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace diloco {

// Adds it, with DILOCO_TRACE. Tracer::Open checks the path.
void AddTraceFlag(CLI::App& app, std::string* path);

}  // namespace diloco
