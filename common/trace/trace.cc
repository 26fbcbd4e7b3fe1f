#include "common/trace/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "common/base/json_string.h"
#include "common/log/log.h"

namespace diloco {
namespace {

// Of max_bytes, kept back for the array's end.
constexpr uint64_t kEndBytes = 256;
constexpr char kCategory[] = "diloco";

std::string HostName() {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return host;
}

// Names a host and a boot of it, in containers too: whose monotonic clock the times are of.
std::string BootId() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id.empty() ? HostName() : id;
}

// 31 bits, positive, as some readers want it.
uint32_t DrawPid(MonotonicTime now) {
  const std::string who = absl::StrFormat("%s %s %d %d", BootId(), HostName(), getpid(), now.nanoseconds);
  return (ComputeCrc32c(who).value >> 1) | 1;
}

std::string Microseconds(int64_t nanoseconds) {
  return absl::StrFormat("%d.%03d", nanoseconds / 1000, nanoseconds % 1000);
}

std::string ArgsJson(TraceArgs args) {
  std::string json = "{";
  for (const TraceArg& arg : args) absl::StrAppend(&json, json.size() > 1 ? "," : "", arg.ToJson());
  return json + "}";
}

}  // namespace

std::string TraceArg::ToJson() const {
  const auto* number = std::get_if<int64_t>(&value_);
  const std::string value = number != nullptr ? absl::StrCat(*number) : JsonString(std::get<std::string_view>(value_));
  return absl::StrCat(JsonString(key_), ":", value);
}

absl::StatusOr<std::unique_ptr<Tracer>> Tracer::Open(Options options) {
  const int fd = ::open(options.path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--trace %s: cannot be written: %s", options.path, std::strerror(errno)));
  }
  return std::unique_ptr<Tracer>(new Tracer(fd, std::move(options)));
}

Tracer::Tracer(int fd, Options options) : options_(std::move(options)), pid_(DrawPid(Now())), fd_(fd) {
  {
    MutexLock lock(&mutex_);
    buffer_ = "[\n";
    taken_bytes_ = buffer_.size();
  }
  const MonotonicTime now = Now();
  // Wall-clock time, for whoever lays traces of several hosts side by side.
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const int64_t unix_us = std::chrono::duration_cast<std::chrono::microseconds>(wall).count();
  const std::string host = HostName();
  const std::string boot = BootId();
  Add(absl::StrFormat(R"({"ph":"M","name":"process_name","pid":%d,"args":{"name":%s}})", pid_,
                      JsonString(options_.process_name)));
  Add(absl::StrFormat(R"({"ph":"i","s":"p","name":"trace_start","cat":"%s","pid":%d,"tid":0,"ts":%s,"args":%s})",
                      kCategory, pid_, Microseconds(now.nanoseconds),
                      ArgsJson({{"unix_us", unix_us}, {"host", host}, {"boot", boot}, {"process_id", getpid()}})));
  thread_ = std::thread([this] { Run(); });
}

Tracer::~Tracer() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  ::close(fd_);
}

Tracer::Track Tracer::AddTrack(std::string_view name) {
  const Track track = [this] {
    MutexLock lock(&mutex_);
    return ++last_track_;
  }();
  Add(absl::StrFormat(R"({"ph":"M","name":"thread_name","pid":%d,"tid":%d,"args":{"name":%s}})", pid_, track,
                      JsonString(name)));
  Add(absl::StrFormat(R"({"ph":"M","name":"thread_sort_index","pid":%d,"tid":%d,"args":{"sort_index":%d}})", pid_,
                      track, track));
  return track;
}

void Tracer::Slice(Track track, std::string_view name, MonotonicTime begin, MonotonicTime end, TraceArgs args) {
  SliceWith(track, name, begin, end, ArgsJson(args));
}

void Tracer::SliceWith(Track track, std::string_view name, MonotonicTime begin, MonotonicTime end,
                       const std::string& args_json) {
  Add(absl::StrFormat(R"({"ph":"X","name":%s,"cat":"%s","pid":%d,"tid":%d,"ts":%s,"dur":%s,"args":%s})",
                      JsonString(name), kCategory, pid_, track, Microseconds(begin.nanoseconds),
                      Microseconds(end.nanoseconds - begin.nanoseconds), args_json));
}

// A pair of events. The id is the process's own, so that traces can be put together.
void Tracer::AsyncSlice(std::string_view name, MonotonicTime begin, MonotonicTime end, TraceArgs args) {
  const int64_t id = [this] {
    MutexLock lock(&mutex_);
    return ++last_async_;
  }();
  const auto half = [&](char phase, MonotonicTime at, const std::string& args_json) {
    return absl::StrFormat(
        R"({"ph":"%c","name":%s,"cat":"%s","id2":{"local":"0x%x"},"pid":%d,"tid":0,"ts":%s,"args":%s})", phase,
        JsonString(name), kCategory, id, pid_, Microseconds(at.nanoseconds), args_json);
  };
  Add(absl::StrCat(half('b', begin, ArgsJson(args)), ",\n", half('e', end, "{}")));
}

void Tracer::Instant(Track track, std::string_view name, MonotonicTime at, TraceArgs args) {
  Add(absl::StrFormat(R"({"ph":"i","s":"t","name":%s,"cat":"%s","pid":%d,"tid":%d,"ts":%s,"args":%s})",
                      JsonString(name), kCategory, pid_, track, Microseconds(at.nanoseconds), ArgsJson(args)));
}

void Tracer::Counter(std::string_view name, MonotonicTime at, double value) {
  Add(absl::StrFormat(R"({"ph":"C","name":%s,"pid":%d,"ts":%s,"args":{"value":%.6g}})", JsonString(name), pid_,
                      Microseconds(at.nanoseconds), value));
}

void Tracer::Add(std::string_view event) {
  MutexLock lock(&mutex_);
  if (full_) return;
  const uint64_t bytes = event.size() + 2;
  if (taken_bytes_ + bytes + kEndBytes > options_.max_bytes) {
    full_ = true;
    changed_.NotifyAll();
    return;
  }
  if (buffer_.size() + bytes > options_.max_buffer_bytes) {
    ++dropped_;
    return;
  }
  buffer_.append(event).append(",\n");
  taken_bytes_ += bytes;
}

void Tracer::Run() {
  bool going = true;
  while (going) {
    std::string text;
    {
      MutexLock lock(&mutex_);
      const MonotonicTime wake = Now() + kTraceFlushInterval;
      bool in_time = true;
      while (!closing_ && !full_ && in_time) in_time = changed_.WaitUntil(&mutex_, ToSteady(wake));
      text.swap(buffer_);
      going = !closing_ && !full_;
      if (!going) text += EndLocked();
    }
    if (!WriteOut(text)) {
      LogWarning("trace_failed", {{"path", options_.path}, {"reason", std::strerror(errno)}});
      MutexLock lock(&mutex_);
      full_ = true;
      buffer_.clear();
      return;
    }
  }
}

std::string Tracer::EndLocked() const {
  if (full_) {
    LogWarning("trace_full", {{"path", options_.path},
                              {"bytes", taken_bytes_},
                              {"reason", "the trace has its largest size; it holds nothing from here on"}});
  }
  return absl::StrFormat(R"({"ph":"i","s":"p","name":"trace_end","cat":"%s","pid":%d,"tid":0,"ts":%s,"args":%s})"
                         "\n]\n",
                         kCategory, pid_, Microseconds(Now().nanoseconds),
                         ArgsJson({{"reason", full_ ? "size limit" : "end of the process"}, {"dropped", dropped_}}));
}

bool Tracer::WriteOut(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(fd_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

TraceSlice::TraceSlice(Tracer* tracer, Tracer::Track track, std::string_view name, TraceArgs args)
    : tracer_(tracer), track_(track), name_(name) {
  if (tracer_ == nullptr) return;
  args_ = ArgsJson(args);
  begin_ = Tracer::Now();
}

TraceSlice::~TraceSlice() {
  if (tracer_ != nullptr) tracer_->SliceWith(track_, name_, begin_, Tracer::Now(), args_);
}

}  // namespace diloco
