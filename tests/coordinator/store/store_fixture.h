// Records as a small run would append them, and the list of what a store acknowledged: what recovery is held against.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "coordinator/store/store.h"

namespace diloco {

inline constexpr char kFolder[] = "data";
inline constexpr int kFragments = 2;

v1::RunRecord MakeRun(size_t config_bytes = 20);
v1::MemberRecord MakeMember(const std::string& worker, uint64_t incarnation, bool left = false);
v1::EvaluationRecord MakeEvaluation(int64_t version, double loss);
// Bytes depend on fragment and round only.
std::shared_ptr<const PublishedDelta> MakeDelta(int fragment, int64_t round, size_t chunk_bytes = 40, int chunks = 2);
v1::EndRecord MakeEnd(int64_t rounds);
// A consensus that depends on the version only, of `elements` floats.
std::vector<float> MakeConsensus(int64_t version, size_t elements = 64);

// What was acknowledged, kept as plain lists.
struct Expected {
  std::string run;  // Serialised; empty: none.
  std::map<std::string, std::string> members;
  std::map<int64_t, std::string> evaluations;    // By version.
  int64_t snapshot_version = -1;                 // -1: none.
  std::vector<std::vector<std::string>> deltas;  // Messages of each that the newest snapshot does not cover.
  bool ended = false;

  bool operator==(const Expected&) const = default;
};
Expected Summarise(const RecoveredState& recovered);
std::string Describe(const Expected& expected);
void PrintTo(const Expected& expected, std::ostream* out);  // For failed assertions.

// A store and, beside it, what it acknowledged. Each call appends, and remembers when that returned OK.
class Recorder {
 public:
  explicit Recorder(Store* store) : store_(store) {}
  // Goes on after a restart.
  Recorder(Store* store, const RecoveredState& recovered)
      : store_(store), expected_(Summarise(recovered)), if_worked_(expected_), deltas_(recovered.deltas) {}

  absl::Status Run(const v1::RunRecord& record);
  absl::Status Member(const v1::MemberRecord& record);
  absl::Status Evaluation(const v1::EvaluationRecord& record);
  absl::Status Delta(std::shared_ptr<const PublishedDelta> delta);
  absl::Status End(const v1::EndRecord& record);
  // At `version`; deltas of rounds from there on go into the new journal.
  absl::Status Snapshot(int64_t version, size_t elements = 64);

  const Expected& expected() const { return expected_; }
  // What it would be had the call that failed last worked.
  const Expected& expected_if_last_worked() const { return if_worked_; }

 private:
  absl::Status Remember(absl::Status status);

  Store* store_;
  Expected expected_;
  Expected if_worked_;
  std::vector<std::shared_ptr<const PublishedDelta>> deltas_;
};

}  // namespace diloco
