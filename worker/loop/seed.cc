#include "worker/loop/seed.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/outer/consensus.h"
#include "common/rpc/status.h"

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

}  // namespace

absl::Status SendSeed(v1::WorkerService::Stub* stub, const v1::SeedRequest& identity, const Layout& layout,
                      const OuterOptimizer& optimizer, absl::Span<const float> parameters) {
  const std::string_view bytes(reinterpret_cast<const char*>(parameters.data()), parameters.size() * sizeof(float));
  grpc::ClientContext context;
  const absl::Duration limit =
      kStreamProgressDeadline + absl::Seconds(static_cast<double>(bytes.size()) / kSlowestBytesPerSecond);
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(limit));
  v1::SeedResponse response;
  const auto writer = stub->Seed(&context, &response);
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
  return CheckDigests(response, layout, optimizer, parameters);
}

}  // namespace diloco
