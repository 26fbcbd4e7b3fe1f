// A process's trace: slices of what its threads and links did, for Perfetto (ui.perfetto.dev), chrome://tracing and
// deploy/trace.py. Chrome's trace event format as a JSON array, one event a line, each followed by a comma; the array
// rather than the object form, because readers take an array whose end is missing: the file of a process that was
// killed is good up to its last line end.
//
//   tracer == nullptr: nothing is traced, and nothing is computed for it.
//   const TraceSlice slice(tracer, track, "merge", {{"round", round}, {"fragment", fragment}});
//
// Times are the monotonic clock's, in microseconds, which the processes of a host share; the event `trace_start` has
// the wall clock beside it, so that traces of several hosts can be laid side by side. `pid` is not the process's own,
// which two containers may share, but drawn from host, process and time.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace diloco {

// What a trace's file may grow to. Then it ends, with a line in the log; the process goes on.
inline constexpr uint64_t kMaxTraceBytes = uint64_t{256} << 20;
// Events that are not written yet; what comes on top is dropped, and the trace's end says how many were.
inline constexpr uint64_t kMaxTraceBufferBytes = uint64_t{8} << 20;
// How long an event stays in memory: what a process that is killed loses.
inline constexpr absl::Duration kTraceFlushInterval = absl::Milliseconds(250);

// What is known of an event: a number, or text, which is kept as a view.
class TraceArg {
 public:
  template <std::integral T>
  TraceArg(std::string_view key, T value) : key_(key), value_(static_cast<int64_t>(value)) {}
  TraceArg(std::string_view key, std::string_view value) : key_(key), value_(value) {}
  std::string ToJson() const;  // `"key":value`.

 private:
  std::string_view key_;
  std::variant<int64_t, std::string_view> value_;
};
using TraceArgs = std::initializer_list<TraceArg>;

// Thread-safe. What traces an event copies it and returns; a thread of the tracer's own writes the file.
class Tracer {
 public:
  struct Options {
    std::string path;          // Replaced if it exists.
    std::string process_name;  // For people, such as "worker east".
    uint64_t max_bytes = kMaxTraceBytes;
    uint64_t max_buffer_bytes = kMaxTraceBufferBytes;
  };
  // A row of the picture.
  using Track = int;

  // Errors, kInvalidArgument: the file cannot be written.
  static absl::StatusOr<std::unique_ptr<Tracer>> Open(Options options);
  // Writes what is left, and the array's end.
  ~Tracer();
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  static MonotonicTime Now() { return SteadyClock().Now(); }

  // Rows are shown in the order in which they are added.
  Track AddTrack(std::string_view name);

  // Slices of one track do not overlap, or one lies within the other.
  void Slice(Track track, std::string_view name, MonotonicTime begin, MonotonicTime end, TraceArgs args = {});
  // One that may overlap others of its name, such as a transfer: each has a row to itself while it lasts.
  void AsyncSlice(std::string_view name, MonotonicTime begin, MonotonicTime end, TraceArgs args = {});
  // A moment.
  void Instant(Track track, std::string_view name, MonotonicTime at, TraceArgs args = {});
  // A point of a curve.
  void Counter(std::string_view name, MonotonicTime at, double value);

 private:
  friend class TraceSlice;

  Tracer(int fd, Options options);

  void SliceWith(Track track, std::string_view name, MonotonicTime begin, MonotonicTime end,
                 const std::string& args_json);
  // Takes an event, an object, or several with commas between.
  void Add(std::string_view event);
  void Run();
  // The last event and the array's end.
  std::string EndLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool WriteOut(std::string_view text) const;

  const Options options_;
  const uint32_t pid_;
  const int fd_;

  Mutex mutex_;
  CondVar changed_;
  std::string buffer_ ABSL_GUARDED_BY(mutex_);        // Whole lines.
  uint64_t taken_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // In all, the buffer's too.
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;      // Events for which the buffer had no room.
  bool full_ ABSL_GUARDED_BY(mutex_) = false;         // Takes no more.
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  Track last_track_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_async_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

// A slice from here to the end of the scope.
class TraceSlice {
 public:
  // `tracer` may be null; `name` outlives the object.
  TraceSlice(Tracer* tracer, Tracer::Track track, std::string_view name, TraceArgs args = {});
  ~TraceSlice();
  TraceSlice(const TraceSlice&) = delete;
  TraceSlice& operator=(const TraceSlice&) = delete;

 private:
  Tracer* const tracer_;
  const Tracer::Track track_;
  const std::string_view name_;
  std::string args_;
  MonotonicTime begin_;
};

}  // namespace diloco
