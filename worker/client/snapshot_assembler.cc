#include "worker/client/snapshot_assembler.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "common/base/status_macros.h"
#include "common/outer/step_scalars_proto.h"

namespace diloco {
namespace {

std::vector<float> TakeFloats(const std::string& bytes, size_t* offset, size_t count) {
  std::vector<float> values(count);
  if (count > 0) {
    std::memcpy(values.data(), bytes.data() + *offset, count * sizeof(float));
  }
  *offset += count * sizeof(float);
  return values;
}

}  // namespace

SnapshotAssembler::SnapshotAssembler(std::string run_id, const Layout* layout, const OuterOptimizer* optimizer)
    : run_id_(std::move(run_id)), layout_(layout), optimizer_(optimizer) {}

absl::Status SnapshotAssembler::AddHeader(const v1::SnapshotHeader& header) {
  const uint64_t total = static_cast<uint64_t>(layout_->element_count()) * sizeof(float) *
                         static_cast<uint64_t>(1 + optimizer_->state_arrays);
  if (header.run_id() != run_id_ || Digest::FromBytes(header.layout_digest().value()) != layout_->digest() ||
      header.total_bytes() != total) {
    return absl::InvalidArgumentError(
        absl::StrFormat("snapshot of run \"%s\" with %d bytes: expected run \"%s\" "
                        "with %d bytes and this worker's layout",
                        header.run_id(), header.total_bytes(), run_id_, total));
  }
  const int fragments = layout_->fragment_count();
  if (header.consensus_digests_size() != fragments || header.settled_rounds_size() != fragments ||
      header.version() < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("snapshot of version %d does not describe %d fragments", header.version(), fragments));
  }
  if (header.has_scalars()) {
    DILOCO_RETURN_IF_ERROR(ValidateStepScalars(StepScalarsFromProto(header.scalars())));
  }
  header_ = header;
  has_header_ = true;
  bytes_.reserve(total);
  return absl::OkStatus();
}

absl::Status SnapshotAssembler::Add(const v1::FetchSnapshotResponse& item) {
  if (item.has_header() && !has_header_) {
    return AddHeader(item.header());
  }
  if (!item.has_chunk() || !has_header_) {
    return absl::DataLossError("snapshot: a header, then chunks were expected");
  }
  const v1::SnapshotChunk& chunk = item.chunk();
  if (chunk.run_id() != run_id_ || chunk.offset() != bytes_.size() ||
      chunk.payload().size() > header_.total_bytes() - bytes_.size() ||
      ComputeCrc32c(chunk.payload()).value != chunk.crc32c()) {
    return absl::DataLossError(absl::StrFormat("snapshot: chunk at byte %d of %d is damaged or out of place",
                                               chunk.offset(), header_.total_bytes()));
  }
  bytes_ += chunk.payload();
  return absl::OkStatus();
}

absl::StatusOr<Snapshot> SnapshotAssembler::Finish() {
  if (!has_header_ || bytes_.size() != header_.total_bytes()) {
    return absl::DataLossError(
        absl::StrFormat("snapshot ended after %d of %d bytes", bytes_.size(), header_.total_bytes()));
  }
  Snapshot snapshot;
  snapshot.version = header_.version();
  size_t offset = 0;
  for (int f = 0; f < layout_->fragment_count(); ++f) {
    const size_t count = static_cast<size_t>(layout_->fragments()[static_cast<size_t>(f)].count);
    std::vector<float> parameters = TakeFloats(bytes_, &offset, count);
    std::vector<std::vector<float>> state;
    for (int a = 0; a < optimizer_->state_arrays; ++a) {
      state.push_back(TakeFloats(bytes_, &offset, count));
    }
    Consensus consensus(optimizer_, header_.version(), std::move(parameters), std::move(state),
                        layout_->DecayedRanges(f));
    if (consensus.ComputeDigest() != Digest::FromBytes(header_.consensus_digests(f).value())) {
      return absl::DataLossError(
          absl::StrFormat("snapshot of version %d: digest of fragment %d", header_.version(), f));
    }
    snapshot.fragments.push_back(std::move(consensus));
    snapshot.settled_rounds.push_back(header_.settled_rounds(f));
  }
  if (header_.has_scalars()) {
    snapshot.scalars = StepScalarsFromProto(header_.scalars());
  }
  return snapshot;
}

}  // namespace diloco
