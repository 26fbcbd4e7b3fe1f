#include "tests/coordinator/store/store_fixture.h"

#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "common/base/digest.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

constexpr char kRun[] = "run-1";

v1::RunRecord MakeRun(size_t config_bytes) {
  v1::RunRecord record;
  record.set_run_id(kRun);
  record.set_config_yaml(std::string(config_bytes, 'c'));
  return record;
}

v1::MemberRecord MakeMember(const std::string& worker, uint64_t incarnation, bool left) {
  v1::MemberRecord record;
  record.set_run_id(kRun);
  record.set_worker_id(worker);
  record.set_incarnation(incarnation);
  record.set_left(left);
  return record;
}

v1::EvaluationRecord MakeEvaluation(int64_t version, double loss) {
  v1::EvaluationRecord record;
  record.set_run_id(kRun);
  record.mutable_evaluation()->set_version(version);
  record.mutable_evaluation()->set_loss(loss);
  record.mutable_evaluation()->set_worker_id("east");
  return record;
}

std::shared_ptr<const PublishedDelta> MakeDelta(int fragment, int64_t round, size_t chunk_bytes, int chunks) {
  auto delta = std::make_shared<PublishedDelta>();
  delta->fragment = fragment;
  delta->round = round;
  for (int index = 0; index < chunks; ++index) {
    v1::SubscribeResponse response;
    v1::GlobalDeltaChunk& chunk = *response.mutable_chunk();
    chunk.set_run_id(kRun);
    chunk.set_fragment(static_cast<uint32_t>(fragment));
    chunk.set_round(round);
    chunk.set_index(static_cast<uint32_t>(index));
    chunk.set_payload(std::string(chunk_bytes, static_cast<char>(round * 16 + fragment * 4 + index + 1)));
    chunk.set_crc32c(ComputeCrc32c(chunk.payload()).value);
    delta->messages.push_back(response.SerializeAsString());
  }
  v1::SubscribeResponse settled;
  settled.mutable_settled()->set_run_id(kRun);
  settled.mutable_settled()->set_fragment(static_cast<uint32_t>(fragment));
  settled.mutable_settled()->set_round(round);
  delta->settled = settled.settled();
  delta->messages.push_back(settled.SerializeAsString());

  v1::SubscribeResponse commit;
  commit.mutable_commit()->set_run_id(kRun);
  commit.mutable_commit()->set_fragment(static_cast<uint32_t>(fragment));
  commit.mutable_commit()->set_round(round);
  commit.mutable_commit()->set_chunk_count(static_cast<uint32_t>(chunks));
  commit.mutable_commit()->mutable_settled_digest()->set_value(DigestOf(settled.settled().SerializeAsString()).Bytes());
  delta->commit = commit.commit();
  delta->messages.push_back(commit.SerializeAsString());
  return delta;
}

v1::EndRecord MakeEnd(int64_t rounds) {
  v1::EndRecord record;
  record.set_run_id(kRun);
  record.set_rounds(rounds);
  return record;
}

std::vector<float> MakeConsensus(int64_t version, size_t elements) {
  std::vector<float> consensus(elements);
  for (size_t i = 0; i < elements; ++i) consensus[i] = static_cast<float>(version) + 0.25F * static_cast<float>(i);
  return consensus;
}

Expected Summarise(const RecoveredState& recovered) {
  Expected found;
  if (recovered.run != nullptr) found.run = recovered.run->SerializeAsString();
  for (const v1::MemberRecord& member : recovered.members) {
    found.members[member.worker_id()] = member.SerializeAsString();
  }
  for (const v1::Evaluation& evaluation : recovered.evaluations) {
    found.evaluations[evaluation.version()] = evaluation.SerializeAsString();
  }
  if (recovered.snapshot != nullptr) found.snapshot_version = recovered.snapshot->version();
  for (const auto& delta : recovered.deltas) found.deltas.push_back(delta->messages);
  found.ended = recovered.end != nullptr;
  return found;
}

std::string Describe(const Expected& expected) {
  std::string text =
      absl::StrFormat("run %d bytes, %d members, %d evaluations, snapshot %d, ended %d, deltas", expected.run.size(),
                      expected.members.size(), expected.evaluations.size(), expected.snapshot_version, expected.ended);
  for (const std::vector<std::string>& messages : expected.deltas) {
    v1::SubscribeResponse commit;
    commit.ParseFromString(messages.back());
    text += absl::StrFormat(" %d:%d", commit.commit().fragment(), commit.commit().round());
  }
  return text;
}

void PrintTo(const Expected& expected, std::ostream* out) { *out << Describe(expected); }

absl::Status Recorder::Remember(absl::Status status) {
  if (status.ok()) expected_ = if_worked_;
  return status;
}

absl::Status Recorder::Run(const v1::RunRecord& record) {
  if_worked_ = expected_;
  if_worked_.run = record.SerializeAsString();
  return Remember(store_->AppendRun(record));
}

absl::Status Recorder::Member(const v1::MemberRecord& record) {
  if_worked_ = expected_;
  if_worked_.members[record.worker_id()] = record.SerializeAsString();
  return Remember(store_->AppendMember(record));
}

absl::Status Recorder::Evaluation(const v1::EvaluationRecord& record) {
  if_worked_ = expected_;
  if_worked_.evaluations[record.evaluation().version()] = record.evaluation().SerializeAsString();
  return Remember(store_->AppendEvaluation(record));
}

absl::Status Recorder::Delta(std::shared_ptr<const PublishedDelta> delta) {
  if_worked_ = expected_;
  if_worked_.deltas.push_back(delta->messages);
  const absl::Status status = store_->AppendGlobalDelta(*delta);
  if (status.ok()) deltas_.push_back(std::move(delta));
  return Remember(status);
}

absl::Status Recorder::End(const v1::EndRecord& record) {
  if_worked_ = expected_;
  if_worked_.ended = true;
  return Remember(store_->AppendEnd(record));
}

absl::Status Recorder::Snapshot(int64_t version, size_t elements) {
  const std::vector<float> consensus = MakeConsensus(version, elements);
  v1::SnapshotRecord header;
  header.mutable_run()->ParseFromString(expected_.run);
  header.set_version(version);
  for (const auto& [id, member] : expected_.members) header.add_members()->ParseFromString(member);
  for (const auto& [at, evaluation] : expected_.evaluations) header.add_evaluations()->ParseFromString(evaluation);
  header.set_consensus_bytes(consensus.size() * sizeof(float));
  header.set_ended(expected_.ended);

  std::vector<std::shared_ptr<const PublishedDelta>> newer;
  if_worked_ = expected_;
  if_worked_.snapshot_version = version;
  if_worked_.deltas.clear();
  for (const auto& delta : deltas_) {
    if (delta->round < version) continue;
    newer.push_back(delta);
    if_worked_.deltas.push_back(delta->messages);
  }
  // Two arrays, as parameters and momentum would be.
  const absl::Span<const float> whole = consensus;
  const std::vector<absl::Span<const float>> arrays = {whole.first(elements / 3), whole.subspan(elements / 3)};
  return Remember(store_->WriteSnapshot(header, arrays, newer));
}

}  // namespace diloco
