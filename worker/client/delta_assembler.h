// PURE: puts the chunks of one fragment's global deltas together and lets through only what is whole and unharmed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/codec/codec.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

// One round's average of one fragment, as published.
struct GlobalDelta {
  v1::GlobalDeltaCommit commit;
  v1::SettledList settled;
  std::string payload;  // As encoded by commit.codec, element_count values.
};

class DeltaAssembler {
 public:
  struct Options {
    std::string run_id;
    uint32_t fragment = 0;
    const Codec* codec = nullptr;
    uint64_t element_count = 0;
  };

  DeltaAssembler(Options options, int64_t next_round);

  // Chunks of a round in order, then its settled list, then its commit record, which gives the whole.
  // Errors, kDataLoss: a checksum, size, digest or order is wrong. What was gathered is dropped: the caller subscribes
  // again from next_round(). kInvalidArgument: of another run, codec or size; subscribing again would not help.
  absl::Status AddChunk(const v1::GlobalDeltaChunk& chunk);
  absl::Status AddSettled(v1::SettledList settled);
  absl::StatusOr<GlobalDelta> AddCommit(const v1::GlobalDeltaCommit& commit);

  // Drops what was gathered and expects `next_round` from its first chunk on.
  void Restart(int64_t next_round);

  // The round that is not whole yet.
  int64_t next_round() const { return next_round_; }

 private:
  absl::Status CheckPlace(const std::string& run_id, uint32_t fragment, int64_t round) const;
  absl::Status CheckCommit(const v1::GlobalDeltaCommit& commit) const;

  Options options_;
  int64_t next_round_;
  uint32_t next_chunk_ = 0;
  std::string payload_;
  v1::SettledList settled_;
  bool has_settled_ = false;
};

}  // namespace diloco
