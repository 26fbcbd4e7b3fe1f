#include "worker/loop/seed.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/outer/consensus.h"
#include "common/rpc/status.h"
#include "worker/sync/given_consensus.h"

namespace diloco {
namespace {

// A link slower than this cannot seed: the bound on a call that has no other.
constexpr double kSlowestBytesPerSecond = 100e3;

absl::Status CheckDigests(const v1::SeedResponse& response, const Layout& layout, const OuterOptimizer& optimizer,
                          absl::Span<const float> parameters) {
  for (int f = 0; f < layout.fragment_count(); ++f) {
    const FragmentRange& range = layout.fragments()[static_cast<size_t>(f)];
    const absl::Span<const float> own =
        parameters.subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count));
    const Consensus consensus(&optimizer, std::vector<float>(own.begin(), own.end()));
    if (f >= response.consensus_digests_size() ||
        Digest::FromBytes(response.consensus_digests(f).value()) != consensus.ComputeDigest()) {
      return absl::DataLossError(
          absl::StrFormat("the coordinator holds other initial parameters for fragment %d than were sent", f));
    }
  }
  return absl::OkStatus();
}

// `identity` with all that is the same in every piece.
absl::StatusOr<v1::SeedResponse> SendPieces(v1::WorkerService::Stub* stub, grpc::ClientContext* context,
                                            const v1::SeedRequest& identity, std::string_view bytes) {
  const absl::Duration limit =
      kStreamProgressDeadline + absl::Seconds(static_cast<double>(bytes.size()) / kSlowestBytesPerSecond);
  context->set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(limit));
  v1::SeedResponse response;
  const auto writer = stub->Seed(context, &response);
  v1::SeedRequest piece = identity;
  piece.set_total_bytes(bytes.size());
  size_t offset = 0;
  do {
    piece.set_offset(offset);
    piece.set_payload(std::string(bytes.substr(offset, kMaxChunkBytes)));
    piece.set_crc32c(ComputeCrc32c(piece.payload()).value);
    offset += piece.payload().size();
  } while (writer->Write(piece) && offset < bytes.size());
  writer->WritesDone();
  DILOCO_RETURN_IF_ERROR(FromGrpcStatus(writer->Finish()));
  return response;
}

std::string_view BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

absl::Status SendSeed(v1::WorkerService::Stub* stub, const v1::SeedRequest& identity, const Layout& layout,
                      const OuterOptimizer& optimizer, absl::Span<const float> parameters) {
  grpc::ClientContext context;
  DILOCO_ASSIGN_OR_RETURN(const v1::SeedResponse response, SendPieces(stub, &context, identity, BytesOf(parameters)));
  return CheckDigests(response, layout, optimizer, parameters);
}

absl::Status SendConsensus(v1::WorkerService::Stub* stub, grpc::ClientContext* context, const v1::SeedRequest& identity,
                           const FullConsensus& consensus) {
  DILOCO_ASSIGN_OR_RETURN(
      const v1::SeedResponse response,
      SendPieces(stub, context, DescribeConsensus(identity, consensus), SerializeConsensus(consensus)));
  for (size_t f = 0; f < consensus.fragments.size(); ++f) {
    if (static_cast<int>(f) >= response.consensus_digests_size() ||
        Digest::FromBytes(response.consensus_digests(static_cast<int>(f)).value()) !=
            consensus.fragments[f].ComputeDigest()) {
      return absl::DataLossError(
          absl::StrFormat("the coordinator holds another consensus of fragment %d than was sent", f));
    }
  }
  return absl::OkStatus();
}

}  // namespace diloco
