// The small file that the coordinator writes besides its data folder.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace diloco {

// Whether WritePortFile could do so, as far as that can be told before anything else is made. Errors: as there.
absl::Status CheckPortFile(const std::string& path);

// {"listen": "127.0.0.1:7070", "http": "127.0.0.1:7071", "pid": 4711}, with "http" null for `none`: all of it or
// nothing, so that who waits for the file never reads a part. An empty path does nothing. Errors, kInvalidArgument: it
// cannot be written.
absl::Status WritePortFile(const std::string& path, const std::string& listen, const std::string& http);
// Removes it, if there is one: an old one would name ports of a process that is gone.
void RemovePortFile(const std::string& path);

}  // namespace diloco
