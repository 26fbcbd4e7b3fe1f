#include "coordinator/driver/publication.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/outer/step_scalars_proto.h"
#include "coordinator/driver/wire.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

EncodedAverage EncodeAverage(const DeltaHeader& header, const MergeResult& merged) {
  EncodedAverage average;
  average.payload_bytes = merged.encoded.size();
  average.payload_digest = merged.digest;
  average.norm = merged.norm;
  const uint64_t chunk_bytes = ChunkBytesFor(*header.codec, kMaxChunkBytes);
  const std::string_view encoded = merged.encoded;
  for (uint64_t offset = 0; offset < encoded.size(); offset += chunk_bytes) {
    const std::string_view payload = encoded.substr(offset, chunk_bytes);
    v1::SubscribeResponse message;
    v1::GlobalDeltaChunk* chunk = message.mutable_chunk();
    chunk->set_run_id(header.run_id);
    chunk->set_fragment(static_cast<uint32_t>(header.fragment));
    chunk->set_round(header.round);
    chunk->set_index(static_cast<uint32_t>(average.chunk_messages.size()));
    chunk->set_payload(payload.data(), payload.size());
    chunk->set_crc32c(ComputeCrc32c(payload).value);
    average.chunk_messages.push_back(message.SerializeAsString());
  }
  return average;
}

std::shared_ptr<const PublishedDelta> BuildDelta(const DeltaHeader& header, EncodedAverage average,
                                                 const CommitFacts& facts) {
  auto delta = std::make_shared<PublishedDelta>();
  delta->fragment = header.fragment;
  delta->round = header.round;

  v1::SettledList& settled = delta->settled;
  settled.set_run_id(header.run_id);
  settled.set_fragment(static_cast<uint32_t>(header.fragment));
  settled.set_round(header.round);
  *settled.mutable_settled() = SettledToProto(facts.settled);

  v1::GlobalDeltaCommit& commit = delta->commit;
  commit.set_run_id(header.run_id);
  commit.set_fragment(static_cast<uint32_t>(header.fragment));
  commit.set_round(header.round);
  commit.set_codec(std::string(header.codec->name));
  commit.set_element_count(header.elements);
  commit.set_payload_bytes(average.payload_bytes);
  commit.set_chunk_bytes(static_cast<uint32_t>(ChunkBytesFor(*header.codec, kMaxChunkBytes)));
  commit.set_chunk_count(static_cast<uint32_t>(average.chunk_messages.size()));
  *commit.mutable_payload_digest() = DigestToProto(average.payload_digest);
  *commit.mutable_scalars() = StepScalarsToProto(facts.scalars);
  const auto merged = std::count_if(facts.settled.begin(), facts.settled.end(),
                                    [](const Settled& line) { return line.settlement == Settlement::kMerged; });
  commit.set_merged_count(static_cast<uint32_t>(merged));
  commit.set_consensus_version(facts.consensus_version);
  *commit.mutable_consensus_digest() = DigestToProto(facts.consensus_digest);
  *commit.mutable_settled_digest() = DigestToProto(DigestOf(settled.SerializeAsString()));

  delta->messages = std::move(average.chunk_messages);
  v1::SubscribeResponse message;
  *message.mutable_settled() = settled;
  delta->messages.push_back(message.SerializeAsString());
  *message.mutable_commit() = commit;
  delta->messages.push_back(message.SerializeAsString());
  return delta;
}

absl::StatusOr<std::vector<float>> DecodeDelta(const PublishedDelta& delta, const Codec& codec, uint64_t elements) {
  const auto damaged = [&delta](const std::string& what) {
    return absl::DataLossError(absl::StrFormat("global delta of fragment %d, round %d: %s; restore the data folder",
                                               delta.fragment, delta.round, what));
  };
  std::string encoded;
  encoded.reserve(codec.encoded_bytes(elements));
  for (uint32_t index = 0; index < delta.commit.chunk_count(); ++index) {
    v1::SubscribeResponse message;
    if (index >= delta.messages.size() || !message.ParseFromString(delta.messages[index]) || !message.has_chunk()) {
      return damaged(absl::StrFormat("message %d is not a chunk", index));
    }
    encoded += message.chunk().payload();
  }
  if (delta.commit.codec() != codec.name || delta.commit.element_count() != elements ||
      encoded.size() != codec.encoded_bytes(elements)) {
    return damaged(absl::StrFormat("%d bytes of codec %s for %d elements are not %d elements of %s", encoded.size(),
                                   delta.commit.codec(), delta.commit.element_count(), elements, codec.name));
  }
  if (DigestOf(encoded).Bytes() != delta.commit.payload_digest().value()) {
    return damaged("the payload does not have the digest of its commit record");
  }
  std::vector<float> average(elements);
  codec.decode(encoded, absl::MakeSpan(average));
  return average;
}

std::string EndMessage(const v1::EndRecord& end) {
  v1::SubscribeResponse message;
  *message.mutable_end() = end;
  return message.SerializeAsString();
}

std::string SettingsMessage(const std::string& run_id,
                            const google::protobuf::RepeatedPtrField<v1::RunChange>& changes) {
  v1::SubscribeResponse message;
  message.mutable_run_settings()->set_run_id(run_id);
  *message.mutable_run_settings()->mutable_changes() = changes;
  return message.SerializeAsString();
}

std::string ResyncMessage(const std::string& run_id, const std::string& reason) {
  v1::SubscribeResponse message;
  message.mutable_resync()->set_run_id(run_id);
  message.mutable_resync()->set_reason(reason);
  return message.SerializeAsString();
}

}  // namespace diloco
