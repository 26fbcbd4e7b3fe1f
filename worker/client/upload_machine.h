// PURE: how contributions get to the coordinator, whatever happens to the streams that carry them. No clock, thread,
// log, byte or message: `now` comes in, effects come out, the sync thread carries them out.
//
//                 offered                       verdict STORED
//   (nothing) ------------------> kSending ------------------------> kStored
//                                  |   ^                               |
//          TOO_EARLY, BUSY         |   | query says what is missing    | a stream broke
//      kPostponed <----------------+   +----------- kQuerying <--------+  (from kSending and kAnswered too)
//          | time, a newer average         query      ^
//          +------------------------------------------+        SETTLED, REFUSED from any: kAnswered
//   A contribution is forgotten when a global delta (or the end record) settles it, never before.
//
// Chunks go over whichever stream is free. A stream handles its requests in order, so when a later chunk of a stream is
// held and an earlier one is not, the earlier one was damaged and is sent again; when a stream says nothing new for
// `quiet_limit`, a query finds out. In flight (sent, not known to be held) are at most `window_chunks` a stream.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "common/base/clock.h"
#include "worker/client/backoff.h"
#include "worker/client/token_bucket.h"

namespace diloco {

// Half-open range of chunk indices.
struct ChunkSpan {
  uint32_t first = 0;
  uint32_t end = 0;
};

// The wire's ContributionVerdict.
enum class UploadVerdict { kWanted, kStored, kSettled, kRefused, kTooEarly, kBusy };

// ---- Events ----

// A new contribution; (round, fragment) was never offered before.
struct ContributionOffered {
  int64_t round = 0;
  int fragment = 0;
  uint64_t bytes = 0;
  uint32_t chunk_bytes = 0;  // Of every chunk but the last. > 0.
};
// A published global delta, the end record or a snapshot settled it.
struct ContributionSettled {
  int64_t round = 0;
  int fragment = 0;
};
// An average arrived: what was too early may be sent now.
struct AverageArrived {
  int fragment = 0;
};
// The last effect for this stream has left; the next may follow.
struct UploadWritten {
  int stream = 0;
  uint64_t call = 0;
};
struct UploadAnswered {
  int stream = 0;
  uint64_t call = 0;
  int64_t round = 0;
  int fragment = 0;
  std::vector<ChunkSpan> held;
  UploadVerdict verdict = UploadVerdict::kWanted;
};
struct UploadClosed {
  int stream = 0;
  uint64_t call = 0;
};
struct UploadTimePassed {};

using UploadEvent = std::variant<ContributionOffered, ContributionSettled, AverageArrived, UploadWritten,
                                 UploadAnswered, UploadClosed, UploadTimePassed>;

// ---- Effects ----

// `call` names this opening of the stream; events of older ones are ignored.
struct OpenUpload {
  int stream = 0;
  uint64_t call = 0;
};
struct CancelUpload {
  int stream = 0;
  uint64_t call = 0;
};
struct SendChunk {
  int stream = 0;
  int64_t round = 0;
  int fragment = 0;
  uint32_t chunk = 0;
};
struct SendQuery {
  int stream = 0;
  int64_t round = 0;
  int fragment = 0;
};

using UploadEffect = std::variant<OpenUpload, CancelUpload, SendChunk, SendQuery>;

class UploadMachine {
 public:
  struct Options {
    int streams = 1;                                // wire.connections.
    size_t window_chunks = 64;                      // In flight on one stream.
    absl::Duration quiet_limit = absl::Seconds(5);  // Then a query; unanswered chunks are sent again.
    absl::Duration dead_limit = absl::Seconds(60);  // Without an answer to anything: the stream is opened again.
    int64_t bytes_per_second = 0;                   // wire.upload_bytes_per_second, over all streams. 0: no cap.
    Backoff::Options backoff;
  };

  explicit UploadMachine(const Options& options);

  // Effects are to be carried out in order.
  std::vector<UploadEffect> Step(const UploadEvent& event, MonotonicTime now);

  // When UploadTimePassed is due; nothing: not before another event.
  std::optional<MonotonicTime> next_wake() const { return next_wake_; }

  // Contributions that the coordinator does not hold yet, and their chunks on the way.
  size_t contributions_pending() const;
  size_t chunks_in_flight() const;
  // Streams that were heard again after they had broken.
  int64_t reconnects() const { return reconnects_; }
  // Contributions that the coordinator held whole, each counted once, and how long that took after they were offered.
  int64_t uploads() const { return uploads_done_; }
  absl::Duration upload_time() const { return upload_time_; }

 private:
  using Key = std::pair<int64_t, int>;  // Round, fragment: the order in which contributions go.

  static constexpr int kAnyStream = -1;

  enum class ChunkState : uint8_t { kUnsent, kInFlight, kHeld };
  enum class UploadState { kSending, kQuerying, kPostponed, kStored, kAnswered };

  struct Upload {
    UploadState state = UploadState::kSending;
    uint64_t bytes = 0;
    uint32_t chunk_bytes = 0;
    std::optional<MonotonicTime> offered_at;  // Until it is held for the first time.
    std::vector<ChunkState> chunks;
    bool query_due = false;         // A query is to be sent,
    int query_stream = kAnyStream;  // over this stream.
    MonotonicTime retry_at;         // In kPostponed.
    Backoff backoff;
    explicit Upload(const Backoff::Options& options) : backoff(options) {}
  };
  struct InFlight {
    Key key;
    uint32_t chunk = 0;
    bool queried = false;  // A query went after it: an answer without news means that it was damaged.
  };
  struct Stream {
    bool open = false;
    uint64_t call = 0;
    bool writing = false;
    bool heard = false;       // In this call.
    bool ever_heard = false;  // In any.
    std::deque<InFlight> in_flight;
    MonotonicTime quiet_since;  // Last news, or the last nudge.
    MonotonicTime heard_at;     // Last sign of life.
    MonotonicTime retry_at;     // While closed.
    Backoff backoff;
    explicit Stream(const Backoff::Options& options) : backoff(options) {}
  };

  void Handle(const ContributionOffered& event);
  void Handle(const ContributionSettled& event);
  void Handle(const AverageArrived& event);
  void Handle(const UploadWritten& event);
  void Handle(const UploadAnswered& event);
  void Handle(const UploadClosed& event);
  void Handle(const UploadTimePassed&) {}

  Stream* Current(int stream, uint64_t call);
  void AnswerWanted(const Key& key, const UploadAnswered& event, Upload* upload);
  bool TakeHeld(const std::vector<bool>& held, Upload* upload);
  static bool Lacks(const std::vector<bool>& held, const Upload& upload);
  bool DropSeen(const Key& key, const std::vector<bool>& held, bool queried_too, Stream* stream, Upload* upload);
  void AskAbout(Upload* upload, int stream);
  void ForgetInFlight(const Key& key);
  void Requeue(Upload* upload, uint32_t chunk) const;
  void Break(Stream* stream);
  void CheckTime();
  void CheckStream(int index);
  void Pump();
  bool SendOne(int index);
  bool SendDueQuery(int index);
  uint64_t BytesOf(const Upload& upload, uint32_t chunk) const;
  void WakeAt(MonotonicTime time);

  Options options_;
  TokenBucket bucket_;
  std::map<Key, Upload> uploads_;
  std::vector<Stream> streams_;
  uint64_t last_call_ = 0;
  int64_t reconnects_ = 0;
  int64_t uploads_done_ = 0;
  absl::Duration upload_time_;

  // Of the step in progress.
  MonotonicTime now_;
  std::vector<UploadEffect> effects_;
  std::optional<MonotonicTime> next_wake_;
};

}  // namespace diloco
