// What the synthetic workers of a process did, one JSON line each, written at once so that a kill loses the last line
// at most. Thread-safe.
#pragma once

#include <fstream>
#include <string>

#include "common/base/mutex.h"
#include "nlohmann/json.hpp"

namespace diloco::testing {

class Trace {
 public:
  // Writes nothing when `path` is empty.
  explicit Trace(const std::string& path) {
    if (!path.empty()) out_.open(path, std::ios::trunc);
  }
  bool on() const { return out_.is_open(); }
  void Write(const nlohmann::json& line) {
    MutexLock lock(&mutex_);
    if (out_.is_open()) out_ << line.dump() << std::endl;
  }

 private:
  Mutex mutex_;
  std::ofstream out_;
};

}  // namespace diloco::testing
