#include "worker/client/delta_assembler.h"

#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"

namespace diloco {

DeltaAssembler::DeltaAssembler(Options options, int64_t next_round)
    : options_(std::move(options)), next_round_(next_round) {}

void DeltaAssembler::Restart(int64_t next_round) {
  next_round_ = next_round;
  next_chunk_ = 0;
  payload_.clear();
  settled_.Clear();
  has_settled_ = false;
}

absl::Status DeltaAssembler::CheckPlace(const std::string& run_id, uint32_t fragment, int64_t round) const {
  if (run_id != options_.run_id || fragment != options_.fragment) {
    return absl::InvalidArgumentError(absl::StrFormat("global delta of run \"%s\" fragment %d: expected run \"%s\" %d",
                                                      run_id, fragment, options_.run_id, options_.fragment));
  }
  if (round != next_round_) {
    return absl::DataLossError(
        absl::StrFormat("global delta of fragment %d round %d: expected round %d", fragment, round, next_round_));
  }
  return absl::OkStatus();
}

absl::Status DeltaAssembler::AddChunk(const v1::GlobalDeltaChunk& chunk) {
  DILOCO_RETURN_IF_ERROR(CheckPlace(chunk.run_id(), chunk.fragment(), chunk.round()));
  if (chunk.index() != next_chunk_) {
    return absl::DataLossError(absl::StrFormat("global delta of fragment %d round %d: chunk %d, expected %d",
                                               chunk.fragment(), chunk.round(), chunk.index(), next_chunk_));
  }
  if (ComputeCrc32c(chunk.payload()).value != chunk.crc32c()) {
    return absl::DataLossError(absl::StrFormat("global delta of fragment %d round %d: checksum of chunk %d",
                                               chunk.fragment(), chunk.round(), chunk.index()));
  }
  if (payload_.size() + chunk.payload().size() > options_.codec->encoded_bytes(options_.element_count)) {
    return absl::DataLossError(absl::StrFormat("global delta of fragment %d round %d is longer than %d bytes",
                                               chunk.fragment(), chunk.round(),
                                               options_.codec->encoded_bytes(options_.element_count)));
  }
  payload_ += chunk.payload();
  ++next_chunk_;
  return absl::OkStatus();
}

absl::Status DeltaAssembler::AddSettled(v1::SettledList settled) {
  DILOCO_RETURN_IF_ERROR(CheckPlace(settled.run_id(), settled.fragment(), settled.round()));
  settled_ = std::move(settled);
  has_settled_ = true;
  return absl::OkStatus();
}

absl::Status DeltaAssembler::CheckCommit(const v1::GlobalDeltaCommit& commit) const {
  DILOCO_RETURN_IF_ERROR(CheckPlace(commit.run_id(), commit.fragment(), commit.round()));
  const auto about = [&commit](const char* what) {
    return absl::StrFormat("global delta of fragment %d round %d: %s", commit.fragment(), commit.round(), what);
  };
  if (commit.codec() != options_.codec->name || commit.element_count() != options_.element_count) {
    return absl::InvalidArgumentError(
        about("codec or size is not the run's; the coordinator has another configuration or layout"));
  }
  if (commit.chunk_count() != next_chunk_ || commit.payload_bytes() != payload_.size() ||
      payload_.size() != options_.codec->encoded_bytes(options_.element_count)) {
    return absl::DataLossError(about("chunks are missing"));
  }
  if (Digest::FromBytes(commit.payload_digest().value()) != DigestOf(payload_)) {
    return absl::DataLossError(about("digest of the payload"));
  }
  if (!has_settled_ || Digest::FromBytes(commit.settled_digest().value()) != DigestOf(settled_.SerializeAsString())) {
    return absl::DataLossError(about("digest of the settled list"));
  }
  return absl::OkStatus();
}

absl::StatusOr<GlobalDelta> DeltaAssembler::AddCommit(const v1::GlobalDeltaCommit& commit) {
  DILOCO_RETURN_IF_ERROR(CheckCommit(commit));
  GlobalDelta delta{commit, std::move(settled_), std::move(payload_)};
  Restart(next_round_ + 1);
  return delta;
}

}  // namespace diloco
