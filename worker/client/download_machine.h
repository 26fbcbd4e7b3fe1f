// PURE: how a worker gets the snapshot and then every published global delta, whatever happens to the stream.
//
//   kFetching --snapshot--> kSubscribed --end record--> kEnded
//      ^  | failed              |  | closed, damaged
//      |  v                     |  v
//   kWaiting <------------------+ kWaiting --time--> kSubscribed, from the rounds that are missing
//      ^------- OUT_OF_RANGE, told to resync: the snapshot is next
//   A worker with a checkpoint starts with the subscription.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "common/base/clock.h"
#include "worker/client/backoff.h"

namespace diloco {

// ---- Events. Those with a `call` are ignored when it is not the newest. ----

// A message of the snapshot or the subscription arrived, whatever was in it.
struct DownloadProgress {
  uint64_t call = 0;
};
// The snapshot is whole; by fragment, the round to go on with. (A fragment that is ahead of the snapshot stays there.)
struct SnapshotTaken {
  uint64_t call = 0;
  std::vector<int64_t> next_rounds;
};
// The global delta of this round is whole.
struct DeltaTaken {
  uint64_t call = 0;
  int fragment = 0;
  int64_t round = 0;
};
// The end record arrived.
struct EndTaken {
  uint64_t call = 0;
};
// The coordinator asks to take the snapshot.
struct ResyncAsked {
  uint64_t call = 0;
};
// The call ended, whichever way, or what it brought was damaged (kDataLoss).
struct DownloadClosed {
  uint64_t call = 0;
  absl::StatusCode code = absl::StatusCode::kOk;
};
struct DownloadTimePassed {};

using DownloadEvent = std::variant<DownloadProgress, SnapshotTaken, DeltaTaken, EndTaken, ResyncAsked, DownloadClosed,
                                   DownloadTimePassed>;

// ---- Effects ----

struct FetchSnapshot {
  uint64_t call = 0;
};
struct OpenSubscription {
  uint64_t call = 0;
  std::vector<int64_t> next_rounds;
};
struct CancelDownload {
  uint64_t call = 0;
};

using DownloadEffect = std::variant<FetchSnapshot, OpenSubscription, CancelDownload>;

class DownloadMachine {
 public:
  struct Options {
    int fragments = 1;
    absl::Duration snapshot_dead_limit = absl::Seconds(60);  // Without a message of the snapshot: fetch it again.
    Backoff::Options backoff;
    std::vector<int64_t> next_rounds;  // To go on with, by fragment; empty: none, the snapshot comes first.
  };

  // Starts at the first event.
  explicit DownloadMachine(const Options& options);

  std::vector<DownloadEffect> Step(const DownloadEvent& event, MonotonicTime now);

  // When DownloadTimePassed is due.
  std::optional<MonotonicTime> next_wake() const;

  // False: events of this call would be ignored.
  bool IsCurrent(uint64_t call) const { return call == call_ && state_ != State::kWaiting && state_ != State::kEnded; }
  bool ended() const { return state_ == State::kEnded; }
  // Downloads that were heard again after they had broken.
  int64_t reconnects() const { return reconnects_; }
  int64_t resyncs() const { return resyncs_; }

 private:
  enum class State { kWaiting, kFetching, kSubscribed, kEnded };

  void Handle(const DownloadProgress& event);
  void Handle(const SnapshotTaken& event);
  void Handle(const DeltaTaken& event);
  void Handle(const EndTaken& event);
  void Handle(const ResyncAsked& event);
  void Handle(const DownloadClosed& event);
  void Handle(const DownloadTimePassed&) {}

  void Subscribe();
  void Retry();
  void CheckTime();

  Options options_;
  Backoff backoff_;
  State state_ = State::kWaiting;
  bool need_snapshot_ = true;
  uint64_t call_ = 0;
  MonotonicTime retry_at_;
  MonotonicTime heard_at_;
  std::vector<int64_t> next_rounds_;
  bool broken_ = false;  // Since it was heard last.
  int64_t reconnects_ = 0;
  int64_t resyncs_ = 0;

  MonotonicTime now_;
  std::vector<DownloadEffect> effects_;
};

}  // namespace diloco
