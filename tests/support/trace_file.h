// Reads what --trace wrote.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace diloco::testing {

// A slice with its times in nanoseconds, half-open.
struct TracedSlice {
  std::string name;
  std::string track;  // Empty: of its own.
  int64_t begin = 0;
  int64_t end = 0;
  nlohmann::json args;

  int64_t round() const { return args.value("round", int64_t{-1}); }
  int64_t fragment() const { return args.value("fragment", int64_t{-1}); }
  bool Overlaps(const TracedSlice& other) const { return begin < other.end && other.begin < end; }
  bool Contains(const TracedSlice& other) const { return begin <= other.begin && other.end <= end; }
};

class TraceFile {
 public:
  // Of a process that ended: one JSON document. Throws nlohmann's exceptions where it is none.
  static TraceFile Whole(const std::string& path);
  // Of one that may have been killed, or still runs: up to the last line end.
  static TraceFile Cut(const std::string& path);

  const nlohmann::json& events() const { return events_; }
  std::string process() const;
  std::vector<TracedSlice> Slices(const std::string& name) const;
  // The first of that name; null: none.
  nlohmann::json Event(const std::string& name) const;
  // What is wrong with the slices of the tracks: each two lie apart or one within the other. Empty: nothing.
  std::string Misplaced() const;

 private:
  explicit TraceFile(nlohmann::json events);

  nlohmann::json events_;
  std::vector<TracedSlice> slices_;
};

}  // namespace diloco::testing
