// Encoded bytes of contributions that are on their way in or wait for their merge. One entry a contribution; chunks
// come in any order and more than once. Bounded: a contribution that does not fit is turned away, not queued.
// Not thread-safe: the driver's.
//
//   absent --Add--> receiving --last chunk--> checking --MarkStored--> stored --Drop--> absent
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/base/digest.h"
#include "common/codec/codec.h"
#include "coordinator/round/round_events.h"
#include "diloco/v1/types.pb.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

// What every chunk of a contribution says about the whole.
struct ContributionShape {
  uint64_t total_bytes = 0;
  uint32_t chunk_bytes = 0;  // > 0. Of every chunk but the last.
  Digest digest;             // Of the encoded bytes.
  double weight = 0;

  uint64_t ChunkCount() const { return (total_bytes + chunk_bytes - 1) / chunk_bytes; }
  friend bool operator==(const ContributionShape&, const ContributionShape&) = default;
};

using StagedBytes = std::shared_ptr<const std::string>;

class Staging {
 public:
  explicit Staging(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  enum class Result { kReceiving, kComplete, kChecking, kNoRoom };

  // Takes in one chunk. kComplete exactly once, with the last missing chunk (or the first call for a contribution of
  // no bytes): the entry is then in `checking`. A chunk that is held already changes nothing. An entry of another
  // incarnation is discarded first. CHECKs that it is not stored: what is held whole is not asked for again.
  // Errors, kInvalidArgument: a shape that differs from earlier chunks', an index outside, a payload of the wrong size.
  absl::StatusOr<Result> Add(const ContributionId& id, uint64_t incarnation, const ContributionShape& shape,
                             uint32_t chunk_index, std::string_view payload);

  // Chunks held, as ascending ranges; empty when there is no entry of this incarnation.
  std::vector<v1::ChunkRange> Held(const ContributionId& id, uint64_t incarnation) const;
  // True while a contribution of this incarnation is whole and being checked.
  bool Checking(const ContributionId& id, uint64_t incarnation) const;
  // What the entry's chunks say; nullptr: no entry.
  const ContributionShape* ShapeOf(const ContributionId& id) const;
  // Bytes of its chunks that are here.
  uint64_t ReceivedBytes(const ContributionId& id) const;
  // The bytes of an entry that is whole; nullptr: none.
  StagedBytes Bytes(const ContributionId& id) const;

  // The check passed. False when `bytes` are not what the entry holds any more.
  bool MarkStored(const ContributionId& id, const StagedBytes& bytes);
  // The same question without a change.
  bool Holds(const ContributionId& id, const StagedBytes& bytes) const;

  void Drop(const ContributionId& id);
  // Drops what is not stored of this worker, except under incarnation `keep` (0: all of it). Returns what it dropped.
  std::vector<ContributionId> DropIncomplete(const std::string& worker, uint64_t keep);
  void Clear();

  uint64_t staged_bytes() const { return staged_bytes_; }
  size_t size() const { return entries_.size(); }

 private:
  enum class State { kReceiving, kChecking, kStored };
  struct Entry {
    uint64_t incarnation = 0;
    ContributionShape shape;
    State state = State::kReceiving;
    std::shared_ptr<std::string> bytes;
    std::vector<bool> held;  // By chunk.
    uint64_t missing = 0;    // Chunks.
  };
  using Entries = std::map<ContributionId, Entry>;

  Entries::iterator Erase(Entries::iterator it);

  const uint64_t limit_bytes_;
  uint64_t staged_bytes_ = 0;
  Entries entries_;
};

// Whether the whole is what it claims to be and may be averaged: its digest, each block, and its L2 norm. Pure; takes
// time, so it runs on the pool. Errors: kInvalidArgument with what and where.
absl::Status CheckContribution(const Codec& codec, std::string_view encoded, uint64_t elements, const Digest& digest);

}  // namespace diloco
