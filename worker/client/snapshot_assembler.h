// PURE: puts a snapshot together and checks it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/layout/layout.h"
#include "common/outer/consensus.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

struct Snapshot {
  int64_t version = 0;
  std::vector<Consensus> fragments;
  std::vector<int64_t> settled_rounds;  // Newest settled round of this worker by fragment; -1: none.
  std::optional<StepScalars> scalars;   // Of the newest global delta; absent at version 0.
};

class SnapshotAssembler {
 public:
  // Both outlive the object.
  SnapshotAssembler(std::string run_id, const Layout* layout, const OuterOptimizer* optimizer);

  // The header, then chunks in order of offset. Errors: kDataLoss for a checksum, an order or a size: fetch it again;
  // kInvalidArgument for another run or layout, or scalars out of range.
  absl::Status Add(const v1::FetchSnapshotResponse& item);

  // After the last item. Errors: kDataLoss when bytes are missing or a consensus digest is wrong.
  absl::StatusOr<Snapshot> Finish();

 private:
  absl::Status AddHeader(const v1::SnapshotHeader& header);

  std::string run_id_;
  const Layout* layout_;
  const OuterOptimizer* optimizer_;
  bool has_header_ = false;
  v1::SnapshotHeader header_;
  std::string bytes_;
};

}  // namespace diloco
