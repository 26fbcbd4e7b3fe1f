// PURE: which stretches of the token stream a worker trains and evaluates on. A window of a model with `sequence`
// tokens is sequence + 1 tokens long: inputs, and the same shifted by one as targets. Everything follows from its
// arguments, so a restarted worker goes on with the same windows.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace diloco {

// Positions [begin, end) of a stream.
struct TokenRange {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  bool Fits(int sequence) const { return size() > sequence; }
};

// The first part is for training, the last `share` of it, rounded down, is held out. `share`: [0, 1).
struct DataSplit {
  TokenRange training;
  TokenRange held_out;
};
DataSplit SplitData(int64_t tokens, double share);

// Start of the window that sequence `index` of a worker's batch uses in inner step `step`: uniform over all windows
// that lie in `range`, drawn by a hash of the other arguments. `range` must fit one.
int64_t TrainingWindow(const TokenRange& range, int sequence, uint64_t seed, std::string_view worker_id, int64_t step,
                       int64_t index);

// Starts of at most `count` evenly spaced windows in `range`, ascending, that predict no token twice; fewer where the
// range has fewer, none where it fits none.
std::vector<int64_t> EvaluationWindows(const TokenRange& range, int sequence, int64_t count);

}  // namespace diloco
