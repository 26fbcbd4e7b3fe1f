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
#include "diloco/v1/worker.pb.h"

namespace diloco {

class ContributionStore {
 public:
  struct Options {
    std::string run_id;
    std::string worker_id;
    uint64_t incarnation = 0;
    Digest layout_digest;
    const Codec* codec = nullptr;  // wire.uplink.
    RoundingRule rounding;
    uint64_t chunk_bytes = 0;  // Of every chunk but the last; whole blocks of the codec.
    double weight = 1;         // In the average.
  };

  struct Contribution {
    uint64_t element_count = 0;
    std::string encoded;
    Digest digest;
    std::vector<Crc32c> chunk_crcs;
  };

  explicit ContributionStore(Options options) : options_(std::move(options)) {}

  // Encodes an outer gradient. (round, fragment) is not held yet.
  const Contribution& Add(int64_t round, int fragment, absl::Span<const float> outer_gradient);
  // Nothing happens when it is not held.
  void Remove(int64_t round, int fragment) { contributions_.erase({round, fragment}); }
  // Rounds of a fragment that are held, ascending.
  std::vector<int64_t> Rounds(int fragment) const;

  // Messages that carry a chunk, or ask which chunks are held. The contribution is held.
  v1::UploadRequest Chunk(int64_t round, int fragment, uint32_t chunk) const;
  v1::UploadRequest Query(int64_t round, int fragment) const;

  const Options& options() const { return options_; }

 private:
  Options options_;
  std::map<std::pair<int64_t, int>, Contribution> contributions_;
};

}  // namespace diloco
