#include "tests/chaos/journal_replay.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/config/run_config.h"
#include "common/layout/layout_proto.h"
#include "coordinator/store/recovery.h"
#include "diloco/v1/worker.pb.h"
#include "tests/common/codec/naive_codec.h"

namespace diloco::testing {
namespace {

Digest DigestFrom(const v1::Digest& digest) { return Digest::FromBytes(digest.value()); }

absl::Status Contradiction(const std::string& what) { return absl::DataLossError(what); }

// The encoded average of a group's chunks, which come in order, before the settled list.
absl::StatusOr<std::string> EncodedAverage(const JournalGroup& group) {
  std::string encoded;
  for (size_t i = 0; i + 1 < group.records.size(); ++i) {
    v1::SubscribeResponse message;
    if (!message.ParseFromString(group.records[i]) || !message.has_chunk() || message.chunk().index() != i) {
      return Contradiction(absl::StrFormat("record %d of a global delta is not its chunk", i));
    }
    encoded += message.chunk().payload();
  }
  return encoded;
}

}  // namespace

absl::StatusOr<JournalReplay> JournalReplay::Read(const std::string& folder) {
  DILOCO_ASSIGN_OR_RETURN(const FolderFiles present, ListFolder(PosixFileSystem(), folder));
  JournalReplay replay;
  for (const uint64_t sequence : present.snapshots) {
    DILOCO_ASSIGN_OR_RETURN(SnapshotContent content,
                            ReadSnapshotFile(PosixFileSystem(), SnapshotPath(folder, sequence), sequence));
    replay.snapshots_.push_back(std::move(content));
  }
  if (replay.snapshots_.empty()) return absl::NotFoundError("the run is not seeded");
  DILOCO_RETURN_IF_ERROR(replay.Adopt(replay.snapshots_.front()));
  // A journal holds what a snapshot of a greater number has, and what came after it, when a crash came between the two.
  for (const uint64_t sequence : present.journals) {
    DILOCO_RETURN_IF_ERROR(replay.TakeJournal(JournalPath(folder, sequence), sequence));
  }
  for (const SnapshotContent& snapshot : replay.snapshots_) DILOCO_RETURN_IF_ERROR(replay.Compare(snapshot.record));
  replay.snapshots_.clear();
  return replay;
}

std::optional<Digest> JournalReplay::DigestOf(int fragment, int64_t version) const {
  const auto found = digests_.find({fragment, version});
  return found == digests_.end() ? std::nullopt : std::optional(found->second);
}

std::set<std::string> JournalReplay::Merged(int fragment, int64_t round) const {
  const auto found = deltas_.find({fragment, round});
  return found == deltas_.end() ? std::set<std::string>() : found->second.merged;
}

std::map<int64_t, JournalReplay::Settled> JournalReplay::SettledOf(const std::string& worker, int fragment) const {
  const auto found = settled_.find({worker, fragment});
  return found == settled_.end() ? std::map<int64_t, Settled>() : found->second;
}

std::set<std::string> JournalReplay::AtWork(int fragment, int64_t round) const {
  const auto found = deltas_.find({fragment, round});
  return found == deltas_.end() ? std::set<std::string>() : found->second.at_work;
}

void JournalReplay::Note(int fragment) {
  const Fragment& state = fragments_[static_cast<size_t>(fragment)];
  DigestBuilder builder;
  builder.Add(state.parameters);
  builder.Add(state.momentum);
  digests_[{fragment, state.version}] = builder.Finish();
}

absl::Status JournalReplay::Adopt(const SnapshotContent& snapshot) {
  const v1::SnapshotRecord& record = snapshot.record;
  DILOCO_ASSIGN_OR_RETURN(const RunConfig config, ParseRunConfig(record.run().config_yaml(), "snapshot"));
  if (config.outer.optimizer != "nesterov") return absl::UnimplementedError(config.outer.optimizer);
  DILOCO_ASSIGN_OR_RETURN(const Layout layout,
                          Layout::Cut(TensorSpecsFromProto(record.run().tensors()), config.fragments.cut));
  fragments_.assign(static_cast<size_t>(layout.fragment_count()), {});
  auto at = snapshot.consensus.begin();
  for (int f = 0; f < layout.fragment_count(); ++f) {
    const int64_t elements = layout.fragments()[static_cast<size_t>(f)].count;
    Fragment& fragment = fragments_[static_cast<size_t>(f)];
    fragment.version = record.version();
    fragment.parameters.assign(at, at + elements);
    fragment.momentum.assign(at + elements, at + 2 * elements);
    at += 2 * elements;
    Note(f);
  }
  return Compare(record);
}

absl::Status JournalReplay::Compare(const v1::SnapshotRecord& record) const {
  for (int f = 0; f < record.consensus_digests_size(); ++f) {
    const std::optional<Digest> digest = DigestOf(f, record.version());
    if (digest ? *digest == DigestFrom(record.consensus_digests(f)) : gaps_ > 0) continue;
    return Contradiction(
        absl::StrFormat("the snapshot at version %d has another digest of fragment %d", record.version(), f));
  }
  return absl::OkStatus();
}

absl::Status JournalReplay::CrossGap(int64_t round) {
  const auto next = std::find_if(snapshots_.rbegin(), snapshots_.rend(), [round](const SnapshotContent& snapshot) {
    return snapshot.record.version() <= round;
  });
  if (next == snapshots_.rend()) return Contradiction(absl::StrFormat("rounds before %d are missing", round));
  ++gaps_;
  return Adopt(*next);
}

absl::Status JournalReplay::TakeJournal(const std::string& path, uint64_t sequence) {
  DILOCO_ASSIGN_OR_RETURN(const auto reader, JournalReader::Open(PosixFileSystem(), path, sequence));
  while (true) {
    DILOCO_ASSIGN_OR_RETURN(const std::optional<JournalGroup> group, reader->Next());
    if (!group) return absl::OkStatus();
    if (group->kind == GroupKind::kGlobalDelta) {
      DILOCO_RETURN_IF_ERROR(TakeDelta(*group));
    } else if (group->kind == GroupKind::kEnd) {
      v1::EndRecord end;
      const std::string& bytes = group->records.empty() ? group->commit_payload : group->records.front();
      if (!end.ParseFromString(bytes)) return Contradiction("the end record cannot be read");
      DILOCO_RETURN_IF_ERROR(TakeEnd(end));
    }
  }
}

absl::Status JournalReplay::TakeDelta(const JournalGroup& group) {
  v1::SubscribeResponse message;
  v1::SubscribeResponse settled;
  if (!message.ParseFromString(group.commit_payload) || !message.has_commit() || group.records.empty() ||
      !settled.ParseFromString(group.records.back()) || !settled.has_settled()) {
    return Contradiction("a global delta without its settled list or commit record");
  }
  const v1::GlobalDeltaCommit& commit = message.commit();
  const int fragment = static_cast<int>(commit.fragment());
  const std::string name = absl::StrFormat("fragment %d, round %d: ", fragment, commit.round());
  Delta delta{.payload = DigestFrom(commit.payload_digest()), .settled = DigestFrom(commit.settled_digest())};
  if (delta.settled != diloco::DigestOf(settled.settled().SerializeAsString())) {
    return Contradiction(name + "the settled list is not the commit record's");
  }
  if (commit.round() > version(fragment)) DILOCO_RETURN_IF_ERROR(CrossGap(commit.round()));
  Fragment& state = fragments_[static_cast<size_t>(fragment)];
  if (commit.round() > state.version) return Contradiction(name + "a round before it is missing");
  if (commit.round() < state.version) {  // A new journal repeats what its snapshot does not hold.
    const auto seen = deltas_.find({fragment, commit.round()});
    const bool same =
        seen == deltas_.end() || (seen->second.payload == delta.payload && seen->second.settled == delta.settled);
    return same ? absl::OkStatus() : Contradiction(name + "what was published has changed");
  }
  if (const auto before = DigestOf(fragment, commit.consensus_version());
      before && *before != DigestFrom(commit.consensus_digest())) {
    return Contradiction(absl::StrCat(name, "the digest at version ", commit.consensus_version(), " is another one"));
  }
  DILOCO_RETURN_IF_ERROR(Settle(settled.settled(), commit, &delta));
  deltas_[{fragment, commit.round()}] = std::move(delta);

  DILOCO_ASSIGN_OR_RETURN(const std::string encoded, EncodedAverage(group));
  if (diloco::DigestOf(encoded) != DigestFrom(commit.payload_digest())) {
    return Contradiction(name + "the payload has another digest");
  }
  const std::vector<float> average = NaiveDecode(commit.codec(), encoded, state.parameters.size());
  const v1::StepScalars& scalars = commit.scalars();
  for (size_t i = 0; i < average.size(); ++i) {
    const float gradient = scalars.clip_scale() * average[i];
    state.momentum[i] = scalars.momentum() * state.momentum[i] + gradient;
    state.parameters[i] -= scalars.rate() * (gradient + scalars.momentum() * state.momentum[i]);
  }
  ++state.version;
  Note(fragment);
  return absl::OkStatus();
}

absl::Status JournalReplay::NoteSettled(const v1::SettledContribution& line, int64_t by_round) {
  const v1::ContributionId& id = line.id();
  auto& of_worker = settled_[{id.worker_id(), static_cast<int>(id.fragment())}];
  const bool first =
      of_worker.try_emplace(id.round(), Settled{line.settlement(), by_round, DigestFrom(line.digest())}).second;
  return first ? absl::OkStatus()
               : Contradiction(absl::StrFormat("contribution (%s, %d, %d) is settled twice", id.worker_id(),
                                               id.fragment(), id.round()));
}

absl::Status JournalReplay::Settle(const v1::SettledList& list, const v1::GlobalDeltaCommit& commit, Delta* delta) {
  uint32_t merged = 0;
  for (const v1::SettledContribution& line : list.settled()) {
    const v1::ContributionId& id = line.id();
    const std::string name = absl::StrFormat("contribution (%s, %d, %d): ", id.worker_id(), id.fragment(), id.round());
    DILOCO_RETURN_IF_ERROR(NoteSettled(line, commit.round()));
    if (id.fragment() != commit.fragment() || id.round() > commit.round()) {
      return Contradiction(absl::StrCat(name, "settled by round ", commit.round()));
    }
    if ((line.settlement() == v1::SETTLEMENT_MERGED) != (line.weight() > 0)) {
      return Contradiction(name + "its weight is not that of what became of it");
    }
    if (line.settlement() != v1::SETTLEMENT_MERGED) {
      ++dropped_;
      continue;
    }
    ++merged;
    delta->at_work.insert(id.worker_id());
    if (id.round() == commit.round()) {
      ++merged_;
      delta->merged.insert(id.worker_id());
    } else {
      ++merged_late_;
    }
  }
  return merged == commit.merged_count() ? absl::OkStatus() : Contradiction("merged_count is not the list's");
}

absl::Status JournalReplay::TakeEnd(const v1::EndRecord& end) {
  if (ended_) return absl::OkStatus();  // A new journal repeats it.
  ended_ = true;
  for (const v1::SettledContribution& line : end.settled()) {
    DILOCO_RETURN_IF_ERROR(NoteSettled(line, end.rounds()));
  }
  for (int f = 0; f < fragments(); ++f) {
    if (version(f) != end.rounds() || end.consensus_digests_size() != fragments() ||
        DigestOf(f, end.rounds()) != DigestFrom(end.consensus_digests(f))) {
      return Contradiction(absl::StrFormat("the end record has another consensus of fragment %d", f));
    }
  }
  return absl::OkStatus();
}

}  // namespace diloco::testing
