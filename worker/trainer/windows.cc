#include "worker/trainer/windows.h"

#include <algorithm>
#include <string>

#include "common/base/check.h"
#include "common/base/digest.h"

namespace diloco {

DataSplit SplitData(int64_t tokens, double share) {
  DILOCO_CHECK(tokens >= 0 && share >= 0 && share < 1);
  const int64_t split = tokens - static_cast<int64_t>(static_cast<double>(tokens) * share);
  return {.training = {0, split}, .held_out = {split, tokens}};
}

int64_t TrainingWindow(const TokenRange& range, int sequence, uint64_t seed, std::string_view worker_id, int64_t step,
                       int64_t index) {
  DILOCO_CHECK(range.Fits(sequence));
  std::string key;
  for (const uint64_t part : {seed, static_cast<uint64_t>(step), static_cast<uint64_t>(index)}) {
    for (int shift = 0; shift < 64; shift += 8) {
      key.push_back(static_cast<char>(part >> shift & 0xff));
    }
  }
  key.append(worker_id);
  const auto windows = static_cast<uint64_t>(range.size() - sequence);
  return range.begin + static_cast<int64_t>(DigestOf(key).low % windows);
}

std::vector<int64_t> EvaluationWindows(const TokenRange& range, int sequence, int64_t count) {
  count = std::min(count, (range.size() - 1) / sequence);
  std::vector<int64_t> starts;
  const int64_t last = range.size() - sequence - 1;
  for (int64_t i = 0; i < count; ++i) {
    starts.push_back(range.begin + (count == 1 ? 0 : i * (last / (count - 1))));
  }
  return starts;
}

}  // namespace diloco
