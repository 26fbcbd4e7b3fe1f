#include "coordinator/driver/recovery.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/codec/codec.h"
#include "common/layout/layout_proto.h"

namespace diloco {
namespace {

bool SameModel(const std::optional<ModelSection>& a, const std::optional<ModelSection>& b) {
  if (!a || !b) {
    return a.has_value() == b.has_value();
  }
  return a->layers == b->layers && a->width == b->width && a->heads == b->heads && a->ffn == b->ffn &&
         a->vocabulary == b->vocabulary && a->sequence == b->sequence && a->precision == b->precision;
}

absl::Status Damaged(const std::string& what) {
  return absl::DataLossError(absl::StrFormat("recovery: %s; restore the data folder from a backup", what));
}

// Each commit record names a consensus digest at a version; those at this version must have come out.
absl::Status CheckDigests(const std::vector<std::shared_ptr<const PublishedDelta>>& deltas, int64_t version,
                          const std::vector<Digest>& digests) {
  for (const auto& delta : deltas) {
    const auto fragment = static_cast<size_t>(delta->fragment);
    if (delta->commit.consensus_version() == version &&
        delta->commit.consensus_digest().value() != digests[fragment].Bytes()) {
      return Damaged(
          absl::StrFormat("the consensus of fragment %d at version %d has digest %s, not the one that the "
                          "commit record of round %d holds",
                          fragment, version, digests[fragment].Hex(), delta->round));
    }
  }
  return absl::OkStatus();
}

// Groups deltas by round. Errors, kDataLoss: a fragment index or a round that does not follow.
absl::StatusOr<std::map<int64_t, WholeRound>> ByRound(const RecoveredState& recovered, int fragments,
                                                      std::vector<int64_t>* next_round) {
  std::map<int64_t, WholeRound> rounds;
  for (const auto& delta : recovered.deltas) {
    if (delta->fragment < 0 || delta->fragment >= fragments ||
        delta->round != (*next_round)[static_cast<size_t>(delta->fragment)]) {
      return Damaged(absl::StrFormat("a global delta of fragment %d, round %d does not follow the ones before it",
                                     delta->fragment, delta->round));
    }
    ++(*next_round)[static_cast<size_t>(delta->fragment)];
    WholeRound& round = rounds[delta->round];
    round.resize(static_cast<size_t>(fragments));
    round[static_cast<size_t>(delta->fragment)] = delta;
  }
  return rounds;
}

absl::Status RebuildConsensus(const RecoveredState& recovered, const RunConfig& config, const ParallelFor& parallel_for,
                              RecoveredRun* run) {
  const v1::SnapshotRecord& snapshot = *recovered.snapshot;
  const absl::Span<const float> raw = recovered.consensus;
  const size_t consensus_size = std::min<size_t>(snapshot.consensus_bytes() / sizeof(float), raw.size());
  const int fragments = run->layout.fragment_count();
  DILOCO_ASSIGN_OR_RETURN(ConsensusArrays arrays,
                          RestoreConsensus(run->layout, FindOuterOptimizer(config.outer.optimizer), snapshot.version(),
                                           raw.subspan(0, consensus_size)));
  run->snapshot_version = snapshot.version();
  run->residual = raw.subspan(consensus_size);
  if (!run->residual.empty() && run->residual.size() != static_cast<size_t>(run->layout.element_count())) {
    return Damaged(absl::StrFormat("the snapshot of version %d holds a residual of %d values for %d elements",
                                   snapshot.version(), run->residual.size(), run->layout.element_count()));
  }
  run->arrays = std::make_shared<ConsensusArrays>(std::move(arrays));
  run->digests = run->arrays->ComputeDigests(parallel_for);
  for (int fragment = 0; fragment < fragments; ++fragment) {
    if (fragment >= snapshot.consensus_digests_size() ||
        snapshot.consensus_digests(fragment).value() != run->digests[static_cast<size_t>(fragment)].Bytes()) {
      return Damaged(
          absl::StrFormat("the snapshot of version %d does not hold the consensus of fragment %d that its "
                          "digest names",
                          snapshot.version(), fragment));
    }
  }
  for (const v1::SettledMarks& marks : snapshot.settled_marks()) {
    std::vector<int64_t>& rounds = run->applied[marks.worker_id()];
    rounds.assign(marks.rounds().begin(), marks.rounds().end());
    rounds.resize(static_cast<size_t>(fragments), -1);
  }

  run->rounds.next_round.assign(static_cast<size_t>(fragments), snapshot.version());
  DILOCO_ASSIGN_OR_RETURN(const auto rounds, ByRound(recovered, fragments, &run->rounds.next_round));
  DILOCO_RETURN_IF_ERROR(CheckDigests(recovered.deltas, snapshot.version(), run->digests));
  const int64_t whole = *std::min_element(run->rounds.next_round.begin(), run->rounds.next_round.end());
  for (int64_t round = snapshot.version(); round < whole; ++round) {
    DILOCO_RETURN_IF_ERROR(
        ApplyRound(rounds.at(round), *FindCodec(config.wire.downlink), parallel_for, run->arrays.get()));
    run->digests = run->arrays->ComputeDigests(parallel_for);
    DILOCO_RETURN_IF_ERROR(CheckDigests(recovered.deltas, round + 1, run->digests));
    for (const auto& delta : rounds.at(round)) {
      RaiseMarks(delta->settled, fragments, &run->applied);
    }
  }
  return absl::OkStatus();
}

// What the workers of a run agree on for its whole length, for they do not hear of a change.
struct FixedSetting {
  std::string_view key;
  std::string (*text)(const RunConfig& config);
};

constexpr FixedSetting kFixedSettings[] = {
    {"run.id", [](const RunConfig& c) { return c.run.id; }},
    {"run.seed", [](const RunConfig& c) { return absl::StrFormat("%d", c.run.seed); }},
    {"method", [](const RunConfig& c) { return c.method; }},
    {"inner_steps", [](const RunConfig& c) { return absl::StrFormat("%d", c.inner_steps); }},
    {"overlap", [](const RunConfig& c) { return absl::StrFormat("%d", c.overlap); }},
    {"max_late", [](const RunConfig& c) { return absl::StrFormat("%d", c.max_late); }},
    {"lookahead.lambda",
     [](const RunConfig& c) {
       return c.lookahead.lambda ? absl::StrFormat("%.17g", *c.lookahead.lambda) : std::string("share");
     }},
    {"lookahead.momentum",
     [](const RunConfig& c) { return std::string(c.lookahead.shared_momentum ? "shared" : "own"); }},
    {"streaming.mixing", [](const RunConfig& c) { return absl::StrFormat("%.17g", c.streaming.mixing); }},
    {"blend.alpha", [](const RunConfig& c) { return absl::StrFormat("%.17g", c.blend.alpha); }},
    {"outer.optimizer", [](const RunConfig& c) { return c.outer.optimizer; }},
    {"outer.weights",
     [](const RunConfig& c) { return std::string(c.outer.weights == Weights::kByTokens ? "tokens" : "uniform"); }},
    {"inner.optimizer",
     [](const RunConfig& c) { return std::string(c.inner.optimizer == InnerAlgorithm::kSgd ? "sgd" : "adamw"); }},
    {"wire.uplink", [](const RunConfig& c) { return c.wire.uplink; }},
    {"wire.downlink", [](const RunConfig& c) { return c.wire.downlink; }},
    {"wire.rounding",
     [](const RunConfig& c) { return std::string(c.wire.stochastic_rounding ? "stochastic" : "nearest"); }},
    {"wire.error_feedback",
     [](const RunConfig& c) {
       return std::string(c.wire.uplink_feedback() ? (c.wire.downlink_feedback() ? "both" : "uplink")
                                                   : (c.wire.downlink_feedback() ? "downlink" : "none"));
     }},
};

}  // namespace

absl::Status CheckSameRun(const RunConfig& stored, const RunConfig& current) {
  const auto differs = [](std::string_view key, std::string_view was, std::string_view is) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the data folder holds a run with %s %s, the configuration says %s; use another data folder or put it back",
        key, was, is));
  };
  for (const auto& [key, text] : kFixedSettings) {
    if (text(stored) != text(current)) return differs(key, text(stored), text(current));
  }
  if (stored.fragments != current.fragments) return differs("fragments", "cut one way", "another");
  if (!SameModel(stored.model, current.model)) return differs("model", "of other dimensions or precision", "otherwise");
  return absl::OkStatus();
}

absl::StatusOr<RecoveredRun> RebuildRun(const RecoveredState& recovered, const RunConfig& config,
                                        const ParallelFor& parallel_for) {
  DILOCO_ASSIGN_OR_RETURN(Layout layout,
                          Layout::Cut(TensorSpecsFromProto(recovered.run->tensors()), config.fragments.cut));
  if (layout.digest().Bytes() != recovered.run->layout_digest().value()) {
    return absl::FailedPreconditionError(
        "the data folder holds a run whose layout this program cuts differently; use the program that started it");
  }
  RecoveredRun run{.layout = std::move(layout)};
  const auto fragments = static_cast<size_t>(run.layout.fragment_count());
  run.rounds.next_round.assign(fragments, 0);
  if (recovered.snapshot != nullptr) {
    DILOCO_RETURN_IF_ERROR(RebuildConsensus(recovered, config, parallel_for, &run));
  } else if (!recovered.deltas.empty()) {
    return Damaged("there are global deltas but no snapshot");
  }
  run.rounds.seeded = recovered.snapshot != nullptr;
  run.rounds.ended = recovered.end != nullptr;

  std::map<std::string, std::vector<int64_t>> settled = run.applied;
  for (const auto& delta : recovered.deltas) {
    RaiseMarks(delta->settled, run.layout.fragment_count(), &settled);
  }
  for (const v1::MemberRecord& record : recovered.members) {
    std::vector<int64_t>& marks = settled[record.worker_id()];
    marks.resize(fragments, -1);
    run.rounds.members.push_back({.worker = record.worker_id(),
                                  .incarnation = record.incarnation(),
                                  .first_round = record.first_round(),
                                  .left = record.left(),
                                  .draining = record.draining(),
                                  .evicted = record.evicted(),
                                  .resumes = record.resumes(),
                                  .settled_rounds = marks});
  }
  return run;
}

}  // namespace diloco
