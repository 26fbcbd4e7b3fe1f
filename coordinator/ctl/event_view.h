// What `events` and `round watch` print, a line each, as it comes. Pure.
#pragma once

#include <string>

#include "diloco/v1/admin.pb.h"

namespace diloco {

// Of the lines that the next two give. Ends with a newline, as they do.
std::string EventHeader();
std::string RoundHeader();

// "    17        2m05s  worker lost       west        its lease ended". One behind a gap says so in a line before.
std::string EventLine(const v1::WatchEventsResponse& response);
std::string RoundLine(const v1::RoundSummary& round);

// A table of settings, their values and from which round on they hold.
std::string ChangesText(const google::protobuf::RepeatedPtrField<v1::RunChange>& changes);

// "worker lost"; also for kinds that this program does not know.
std::string EventKindText(v1::EventKind kind);

}  // namespace diloco
