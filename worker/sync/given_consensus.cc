#include "worker/sync/given_consensus.h"

#include <vector>

#include "absl/types/span.h"

#include "common/outer/step_scalars_proto.h"

namespace diloco {

v1::SeedRequest DescribeConsensus(v1::SeedRequest identity, const FullConsensus& consensus) {
  identity.set_consensus(true);
  identity.set_version(consensus.version);
  if (consensus.scalars) *identity.mutable_scalars() = StepScalarsToProto(*consensus.scalars);
  return identity;
}

std::string SerializeConsensus(const FullConsensus& consensus) {
  std::string bytes;
  const auto append = [&bytes](absl::Span<const float> values) {
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  };
  for (const Consensus& fragment : consensus.fragments) {
    append(fragment.parameters());
    for (const std::vector<float>& state : fragment.state()) append(state);
  }
  return bytes;
}

}  // namespace diloco
