// What the training thread did, as slices of a trace: `compute` from one stop to the next, with every inner step in it,
// and what is done and waited for in between. Not thread-safe: the training thread's.
#pragma once

#include <cstdint>
#include <optional>

#include "common/trace/trace.h"
#include "worker/client/worker_status.h"

namespace diloco {

class TrainingTrace {
 public:
  // `tracer` may be null: nothing is traced.
  explicit TrainingTrace(Tracer* tracer)
      : tracer_(tracer), track_(tracer == nullptr ? 0 : tracer->AddTrack("training")) {}

  ~TrainingTrace() { EndCompute(); }

  // Around an inner step; `step` counts from 0.
  void BeginStep(int64_t step, int64_t round);
  void EndStep();
  // No step follows for now.
  void EndCompute();
  // Anything else, to the end of the scope.
  [[nodiscard]] TraceSlice Other(std::string_view name, TraceArgs args) {
    EndCompute();
    return TraceSlice(tracer_, track_, name, args);
  }
  // Curves, once a stop.
  void Curves(const StatusBoard& board) const;

 private:
  // Steps without anything in between, all of one round.
  struct Compute {
    MonotonicTime begin;
    MonotonicTime end;
    int64_t round = 0;
    int64_t first_step = 0;
    int64_t steps = 0;  // That are over.
  };

  Tracer* const tracer_;
  const Tracer::Track track_;
  std::optional<Compute> compute_;
  int64_t step_ = 0;
  MonotonicTime step_began_;
};

}  // namespace diloco
