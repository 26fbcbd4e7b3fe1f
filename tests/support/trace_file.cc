#include "tests/support/trace_file.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "tests/support/process.h"

namespace diloco::testing {
namespace {

using nlohmann::json;

int64_t Nanoseconds(const json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

}  // namespace

TraceFile TraceFile::Whole(const std::string& path) { return TraceFile(json::parse(ReadFile(path))); }

TraceFile TraceFile::Cut(const std::string& path) {
  std::string text = ReadFile(path);
  const size_t line_end = text.rfind('\n');
  if (line_end == std::string::npos) return TraceFile(json::array());
  text.resize(line_end);
  if (text.ends_with("]")) return TraceFile(json::parse(text));
  if (text.ends_with(",")) text.pop_back();
  return TraceFile(json::parse(text + "]"));
}

TraceFile::TraceFile(json events) : events_(std::move(events)) {
  std::map<int64_t, std::string> tracks;
  std::map<std::string, TracedSlice> begun;  // By id.
  for (const json& event : events_) {
    const std::string phase = event.at("ph");
    const std::string name = event.at("name");
    if (name == "thread_name") tracks[event.at("tid")] = event.at("args").at("name");
    if (phase == "X") {
      const int64_t begin = Nanoseconds(event.at("ts"));
      slices_.push_back({.name = name,
                         .track = tracks.at(event.at("tid")),
                         .begin = begin,
                         .end = begin + Nanoseconds(event.at("dur")),
                         .args = event.at("args")});
    } else if (phase == "b") {
      begun[event.at("id2").at("local")] = {
          .name = name, .begin = Nanoseconds(event.at("ts")), .args = event.at("args")};
    } else if (phase == "e") {
      TracedSlice slice = begun.at(event.at("id2").at("local"));
      slice.end = Nanoseconds(event.at("ts"));
      slices_.push_back(std::move(slice));
    }
  }
}

std::string TraceFile::process() const { return Event("process_name").at("args").at("name"); }

std::vector<TracedSlice> TraceFile::Slices(const std::string& name) const {
  std::vector<TracedSlice> found;
  std::copy_if(slices_.begin(), slices_.end(), std::back_inserter(found),
               [&name](const TracedSlice& slice) { return slice.name == name; });
  return found;
}

json TraceFile::Event(const std::string& name) const {
  const auto found =
      std::find_if(events_.begin(), events_.end(), [&name](const json& event) { return event.at("name") == name; });
  return found == events_.end() ? json() : *found;
}

std::string TraceFile::Misplaced() const {
  std::map<std::string, std::vector<TracedSlice>> by_track;
  for (const TracedSlice& slice : slices_) {
    if (!slice.track.empty()) by_track[slice.track].push_back(slice);
  }
  for (auto& [track, slices] : by_track) {
    std::sort(slices.begin(), slices.end(), [](const TracedSlice& a, const TracedSlice& b) {
      return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
    });
    std::vector<const TracedSlice*> open;
    for (const TracedSlice& slice : slices) {
      while (!open.empty() && open.back()->end <= slice.begin) open.pop_back();
      if (slice.end < slice.begin || (!open.empty() && slice.end > open.back()->end)) {
        return absl::StrCat(track, ": ", slice.name, " ", slice.args.dump(), " at ", slice.begin,
                            open.empty() ? "" : absl::StrCat(" overlaps ", open.back()->name));
      }
      open.push_back(&slice);
    }
  }
  return "";
}

}  // namespace diloco::testing
