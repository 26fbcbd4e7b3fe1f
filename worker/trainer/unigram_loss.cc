#include "worker/trainer/unigram_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace diloco {
namespace {

constexpr int64_t kPieceTokens = int64_t{1} << 20;

absl::StatusOr<std::vector<int64_t>> Count(const TokenSource& source, const TokenRange& range, int vocabulary) {
  std::vector<int64_t> counts(static_cast<size_t>(vocabulary));
  std::vector<uint16_t> piece;
  for (int64_t position = range.begin; position < range.end; position += kPieceTokens) {
    piece.resize(static_cast<size_t>(std::min(kPieceTokens, range.end - position)));
    DILOCO_RETURN_IF_ERROR(source.Read(position, vocabulary, absl::MakeSpan(piece)));
    for (const uint16_t token : piece) {
      ++counts[token];
    }
  }
  return counts;
}

}  // namespace

absl::StatusOr<double> UnigramLoss(const TokenSource& training, const TokenRange& training_range,
                                   const TokenSource& held_out, const TokenRange& held_out_range, int vocabulary) {
  DILOCO_CHECK(held_out_range.size() > 0);
  DILOCO_ASSIGN_OR_RETURN(const std::vector<int64_t> seen, Count(training, training_range, vocabulary));
  DILOCO_ASSIGN_OR_RETURN(const std::vector<int64_t> tested, Count(held_out, held_out_range, vocabulary));
  const auto total = static_cast<double>(training_range.size() + vocabulary);
  double sum = 0;
  for (size_t token = 0; token < seen.size(); ++token) {
    sum -= static_cast<double>(tested[token]) * std::log(static_cast<double>(seen[token] + 1) / total);
  }
  return sum / static_cast<double>(held_out_range.size());
}

}  // namespace diloco
