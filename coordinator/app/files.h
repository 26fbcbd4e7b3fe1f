// The two small files that the coordinator reads and writes besides its data folder.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace diloco {

// The configuration, whole. Errors, kInvalidArgument: it cannot be read, or is larger than kMaxConfigBytes.
absl::StatusOr<std::string> ReadConfigFile(const std::string& path);

// Whether WritePortFile could do so, as far as that can be told before anything else is made. Errors: as there.
absl::Status CheckPortFile(const std::string& path);

// {"listen": "127.0.0.1:7070", "http": "127.0.0.1:7071", "pid": 4711}, with "http" null for `none`: all of it or
// nothing, so that who waits for the file never reads a part. An empty path does nothing. Errors, kInvalidArgument: it
// cannot be written.
absl::Status WritePortFile(const std::string& path, const std::string& listen, const std::string& http);
// Removes it, if there is one: an old one would name ports of a process that is gone.
void RemovePortFile(const std::string& path);

}  // namespace diloco
