// The messages of a published global delta: built once, journaled and sent as they are. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "common/base/digest.h"
#include "common/codec/codec.h"
#include "common/merge/merge.h"
#include "common/outer/step_scalars.h"
#include "coordinator/round/round_events.h"
#include "coordinator/store/store.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

// Names one global delta and how its average travels.
struct DeltaHeader {
  std::string run_id;
  int fragment = 0;
  int64_t round = 0;
  const Codec* codec = nullptr;  // Downlink.
  uint64_t elements = 0;
};

// A finished merge, its average already cut into messages: what does not wait for the settled list.
struct EncodedAverage {
  std::vector<std::string> chunk_messages;  // Serialised v1::SubscribeResponse.
  uint64_t payload_bytes = 0;
  Digest payload_digest;
  double norm = 0;
};
EncodedAverage EncodeAverage(const DeltaHeader& header, const MergeResult& merged);

// What the commit record says besides the average.
struct CommitFacts {
  StepScalars scalars;
  std::vector<Settled> settled;  // In (worker id, round) order.
  int64_t consensus_version = 0;
  Digest consensus_digest;  // At that version.
};
std::shared_ptr<const PublishedDelta> BuildDelta(const DeltaHeader& header, EncodedAverage average,
                                                 const CommitFacts& facts);

// The average that a published delta carries. Shapes: result [elements].
// Errors, kDataLoss: chunks that do not make up such an array, or another digest than the commit record's.
absl::StatusOr<std::vector<float>> DecodeDelta(const PublishedDelta& delta, const Codec& codec, uint64_t elements);

// Serialised v1::SubscribeResponse that holds the end record, the run's settings, or asks for a resync.
std::string EndMessage(const v1::EndRecord& end);
std::string SettingsMessage(const std::string& run_id,
                            const google::protobuf::RepeatedPtrField<v1::RunChange>& changes);
std::string ResyncMessage(const std::string& run_id, const std::string& reason);

}  // namespace diloco
