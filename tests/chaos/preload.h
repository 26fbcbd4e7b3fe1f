// Shared objects that change what the operating system says to a program (tests/chaos/preload).
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace diloco::testing {

// Environment of a process whose syncs of files each take that much longer.
std::vector<std::string> SlowSyncs(absl::Duration each);

// Environment of a process in which one sync of a file whose path contains `of` fails, after the file `when` was
// created.
std::vector<std::string> FailingSync(const std::string& of, const std::string& when);

// Environment of a process whose wall clock is off by what the file says; see SetRealtimeShift. The file exists.
std::vector<std::string> ShiftedRealtime(const std::string& file);
// Steps the wall clock of every process that has the file. Creates it.
void SetRealtimeShift(const std::string& file, absl::Duration shift);

}  // namespace diloco::testing
