// What happened in the run since this process started, thinned out so that it stays small however long the run is: the
// curves of the status page. Fed by the driver's thread, read by others; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

// Points of one curve, at most; when there are more, each two neighbours become one.
inline constexpr size_t kMaxCurvePoints = 128;
// Newest commits whose times are known.
inline constexpr size_t kMaxCommitTimes = 64;

struct CurvePoint {
  double x = 0;
  double y = 0;
  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

// Samples in the order of x, as at most kMaxCurvePoints points: each is the mean of the same number of samples, a power
// of two, at the x of the last of them; the newest may stand for fewer. Not thread-safe.
class Curve {
 public:
  // A sample that is not finite, or at the x of the one before, adds nothing. One further back takes the place of
  // everything from its x on: whoever is measured began again from there.
  void Add(double x, double y);
  std::vector<CurvePoint> Points() const;

 private:
  struct Bin {
    double x = 0;
    double sum = 0;
    size_t samples = 0;
  };
  void Thin();

  std::vector<Bin> bins_;
  size_t samples_each_ = 1;
};

class RunHistory {
 public:
  void AddProgress(const std::string& worker, const v1::WorkerProgress& progress);
  void AddEvaluation(const v1::Evaluation& evaluation);
  // Every fragment commits each round, so that the first one's commits tell how fast the run is.
  void AddCommit(int fragment, int64_t round, MonotonicTime now);

  // {"commits": [{"round": 7, "seconds_ago": 1.5}, ...],        oldest first
  //  "held_out": [[version, loss], ...],
  //  "workers": [{"worker_id": "east", "points": [[step, training loss], ...]}, ...]}
  std::string ToJson(MonotonicTime now) const;

 private:
  struct Commit {
    int64_t round = 0;
    MonotonicTime time;
  };
  mutable Mutex mutex_;
  std::deque<Commit> commits_ ABSL_GUARDED_BY(mutex_);
  Curve held_out_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Curve> workers_ ABSL_GUARDED_BY(mutex_);  // At most kMaxWorkers.
};

}  // namespace diloco
