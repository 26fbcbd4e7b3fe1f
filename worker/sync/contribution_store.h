// PURE: the encoded bytes of this worker's contributions, kept until each is settled so that any chunk can be sent
// again.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "common/base/crc32c.h"
#include "common/base/digest.h"
#include "common/codec/codec.h"
#include "common/codec/error_feedback.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

enum class ContributionFate {
  kMerged,   // Or not known: nothing counts twice.
  kDropped,  // For timing: late, out of order, the run ended.
  kRefused,  // For its content.
};

class ContributionStore {
 public:
  struct Options {
    std::string run_id;
    std::string worker_id;
    uint64_t incarnation = 0;
    Digest layout_digest;
    const Codec* codec = nullptr;  // wire.uplink.
    RoundingRule rounding;
    bool error_feedback = false;  // wire.error_feedback, uplink.
    uint64_t chunk_bytes = 0;     // Of every chunk but the last; whole blocks of the codec.
  };

  struct Contribution {
    uint64_t element_count = 0;
    std::string encoded;
    Digest digest;
    double weight = 0;  // In the average, > 0.
    std::vector<Crc32c> chunk_crcs;
  };

  explicit ContributionStore(Options options) : options_(std::move(options)) {}

  // Encodes an outer gradient, with error feedback the residual with it. (round, fragment) is not held yet.
  const Contribution& Add(int64_t round, int fragment, absl::Span<const float> outer_gradient, double weight);
  // Takes over what an earlier process encoded. (round, fragment) is not held yet; `encoded` is of so many elements.
  const Contribution& Restore(int64_t round, int fragment, uint64_t element_count, std::string encoded, double weight);
  // Of the error feedback; empty before a fragment's first contribution and without error feedback.
  absl::Span<const float> residual(int fragment) const;
  void RestoreResidual(int fragment, std::vector<float> residual);
  // What became of it; it is held no more. With error feedback the residual takes back what was dropped for timing, and
  // is cleared by a refusal. Nothing happens when it is not held.
  void Settle(int64_t round, int fragment, ContributionFate fate);
  // Rounds of a fragment that are held, ascending.
  std::vector<int64_t> Rounds(int fragment) const;
  bool empty() const { return contributions_.empty(); }

  // Messages that carry a chunk, or ask which chunks are held. The contribution is held.
  v1::UploadRequest Chunk(int64_t round, int fragment, uint32_t chunk) const;
  v1::UploadRequest Query(int64_t round, int fragment) const;

  // The contribution is held.
  const Contribution& Get(int64_t round, int fragment) const { return contributions_.at({round, fragment}); }

  const Options& options() const { return options_; }

 private:
  Contribution& Insert(int64_t round, int fragment, uint64_t element_count, double weight);
  // Digest and checksums of contribution.encoded.
  void Seal(Contribution* contribution) const;

  Options options_;
  std::map<std::pair<int64_t, int>, Contribution> contributions_;
  std::map<int, ErrorFeedback> feedback_;  // By fragment; empty without error feedback.
};

}  // namespace diloco
