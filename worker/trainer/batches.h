// What a worker trains and evaluates on: its data, split, cut into windows and batched. Free of LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/config/run_config.h"
#include "worker/trainer/token_source.h"
#include "worker/trainer/windows.h"

namespace diloco {

// A worker's data as its flags name it, opened before the run's configuration is known.
struct DataFiles {
  TokenSource data;
  std::optional<TokenSource> held_out;  // Without it, the last share of `data` is held out.
};

// `held_out` may be empty. Errors, kInvalidArgument: those of TokenSource::Open, or one of them holds no tokens.
absl::StatusOr<DataFiles> OpenDataFiles(const std::string& data, const std::string& held_out);

// Immutable, thread-safe. T = model.sequence, and a window is T + 1 tokens.
class Batches {
 public:
  // A token beyond the vocabulary is found here, in one pass over all of the data, and not in some later step.
  // Errors, kInvalidArgument: the training part, or a held-out file, holds no whole window; and those of
  // TokenSource::CheckTokens. A held-out share of the data that holds no window is no error: then evaluation_windows()
  // is 0.
  static absl::StatusOr<Batches> Create(DataFiles files, const RunConfig& config, std::string worker_id);

  int64_t training_tokens() const { return training_range_.size(); }
  int64_t held_out_tokens() const { return held_out_range_.size(); }
  int64_t evaluation_windows() const { return static_cast<int64_t>(evaluation_starts_.size()); }

  // Windows [first, first + count) of the batch of inner step `step`; count = out.size() / (T + 1).
  absl::Status ReadTraining(int64_t step, int64_t first, absl::Span<uint16_t> out) const;
  // Windows [first, first + count) of the evaluation set, the same at every evaluation.
  absl::Status ReadEvaluation(int64_t first, absl::Span<uint16_t> out) const;

 private:
  Batches(DataFiles files, std::string worker_id) : files_(std::move(files)), worker_id_(std::move(worker_id)) {}
  const TokenSource& held_out() const { return files_.held_out.has_value() ? *files_.held_out : files_.data; }
  size_t window() const { return static_cast<size_t>(sequence_) + 1; }

  DataFiles files_;
  std::string worker_id_;
  int sequence_ = 0;
  int vocabulary_ = 0;
  uint64_t seed_ = 0;
  TokenRange training_range_;
  TokenRange held_out_range_;
  std::vector<int64_t> evaluation_starts_;
};

}  // namespace diloco
