// A global delta as the coordinator publishes it, in fp32 and one chunk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "common/base/crc32c.h"
#include "common/base/digest.h"
#include "common/outer/consensus.h"
#include "common/outer/step_scalars_proto.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

struct PublishedDelta {
  v1::GlobalDeltaChunk chunk;
  v1::SettledList settled;
  v1::GlobalDeltaCommit commit;
  std::string payload;
};

// The average of round consensus->version(); `consensus` takes the step. `own`: rounds of worker "solo" that it
// settles, with the digest of each contribution.
inline PublishedDelta PublishDelta(uint32_t fragment, const std::vector<float>& average, const StepScalars& scalars,
                                   const std::vector<std::pair<int64_t, Digest>>& own, Consensus* consensus,
                                   v1::Settlement settlement = v1::SETTLEMENT_MERGED) {
  PublishedDelta delta;
  const int64_t round = consensus->version();
  delta.payload.assign(reinterpret_cast<const char*>(average.data()), average.size() * sizeof(float));
  const auto place = [&](auto* message) {
    message->set_run_id("test");
    message->set_fragment(fragment);
    message->set_round(round);
  };
  place(&delta.chunk);
  delta.chunk.set_payload(delta.payload);
  delta.chunk.set_crc32c(ComputeCrc32c(delta.payload).value);
  place(&delta.settled);
  for (const auto& [own_round, digest] : own) {
    v1::SettledContribution* settled = delta.settled.add_settled();
    settled->mutable_id()->set_worker_id("solo");
    settled->mutable_id()->set_fragment(fragment);
    settled->mutable_id()->set_round(own_round);
    settled->mutable_digest()->set_value(digest.Bytes());
    settled->set_settlement(settlement);
    settled->set_weight(1);
  }
  place(&delta.commit);
  delta.commit.set_codec("fp32");
  delta.commit.set_element_count(average.size());
  delta.commit.set_payload_bytes(delta.payload.size());
  delta.commit.set_chunk_bytes(static_cast<uint32_t>(delta.payload.size()));
  delta.commit.set_chunk_count(1);
  delta.commit.mutable_payload_digest()->set_value(DigestOf(delta.payload).Bytes());
  delta.commit.mutable_settled_digest()->set_value(DigestOf(delta.settled.SerializeAsString()).Bytes());
  *delta.commit.mutable_scalars() = StepScalarsToProto(scalars);
  delta.commit.set_consensus_version(round);
  delta.commit.mutable_consensus_digest()->set_value(consensus->ComputeDigest().Bytes());
  consensus->Apply(scalars, average);
  return delta;
}

}  // namespace diloco
