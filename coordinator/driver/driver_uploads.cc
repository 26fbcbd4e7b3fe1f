// Contributions on their way in: from the first chunk to the verdict.
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/wire.h"

namespace diloco {
namespace {

// Largest weight of a contribution: what a double counts exactly, and the sum over all workers stays finite.
constexpr double kMaxWeight = 0x1p53;

ContributionId IdOf(const v1::UploadRequest& request) {
  return {.worker = request.worker_id(), .fragment = static_cast<int>(request.fragment()), .round = request.round()};
}

}  // namespace

v1::UploadResponse Driver::Impl::UploadAnswer(const ContributionId& id, v1::ContributionVerdict verdict,
                                              const std::string& reason) const {
  v1::UploadResponse response;
  response.set_run_id(options_.config.run.id);
  response.set_fragment(static_cast<uint32_t>(id.fragment));
  response.set_round(id.round);
  response.set_verdict(verdict);
  response.set_reason(BoundedReason(reason));
  return response;
}

// What no worker of ours sends: the request as a whole is wrong, and no contribution is to blame.
absl::Status Driver::Impl::CheckUpload(const v1::UploadRequest& request) const {
  const int fragments = run_->layout->fragment_count();
  if (request.fragment() >= static_cast<uint32_t>(fragments)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("fragment %d: the layout has %d fragments", request.fragment(), fragments));
  }
  // What is beyond the end of a run that was stopped is the end record's to settle.
  if (request.round() < 0 || (request.round() >= Config().run.rounds && !run_->record.stopped())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("round %d: the run has %d rounds", request.round(), Config().run.rounds));
  }
  if (request.payload().size() > kMaxChunkBytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a chunk of %d bytes is larger than %d", request.payload().size(), kMaxChunkBytes));
  }
  return absl::OkStatus();
}

// What a contribution says of itself and must be right before its bytes are taken in.
absl::Status Driver::Impl::CheckUploadContent(const v1::UploadRequest& request) const {
  if (request.layout_digest().value() != run_->layout->digest().Bytes()) {
    return absl::InvalidArgumentError("it is of another layout than the run");
  }
  if (request.codec() != uplink_->name) {
    return absl::InvalidArgumentError(absl::StrFormat("it is encoded with \"%s\", the run's uplink codec is %s",
                                                      BoundedReason(request.codec()), uplink_->name));
  }
  const auto elements = static_cast<uint64_t>(run_->layout->fragments()[request.fragment()].count);
  const uint64_t bytes = uplink_->encoded_bytes(elements);
  if (request.element_count() != elements || request.contribution_bytes() != bytes) {
    return absl::InvalidArgumentError(absl::StrFormat("it has %d elements in %d bytes, fragment %d has %d in %d",
                                                      request.element_count(), request.contribution_bytes(),
                                                      request.fragment(), elements, bytes));
  }
  if (!(request.weight() > 0 && request.weight() <= kMaxWeight)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("its weight %g is not positive and at most %g", request.weight(), kMaxWeight));
  }
  if (request.chunk_bytes() == 0 || request.chunk_bytes() > kMaxChunkBytes ||
      bytes / request.chunk_bytes() > kMaxUploadChunks) {
    return absl::InvalidArgumentError(
        absl::StrFormat("it comes in chunks of %d bytes, at most %d bytes and %d chunks "
                        "are allowed",
                        request.chunk_bytes(), kMaxChunkBytes, kMaxUploadChunks));
  }
  if (Digest::FromBytes(request.contribution_digest().value()).empty()) {
    return absl::InvalidArgumentError("it has no digest");
  }
  return absl::OkStatus();
}

void Driver::Impl::Upload(const v1::UploadRequest& request, const PendingReply<v1::UploadResponse>& reply) {
  absl::Status status = HearMember(request.run_id(), request.worker_id(), request.incarnation());
  if (status.ok()) {
    status = CheckUpload(request);
  }
  if (!status.ok()) {
    reply(status);
    return;
  }
  const ContributionId id = IdOf(request);
  if (!request.payload().empty()) {
    received_bytes_ += request.payload().size();
    world_.observer->OnChunkReceived(id, request.payload().size());
  }
  if (FolderIsBehind()) {
    reply(UploadAnswer(id, v1::CONTRIBUTION_VERDICT_BUSY, "the run is held"));
    return;
  }
  const Verdict verdict = machine_.Ask(id, request.incarnation());
  switch (verdict) {
    case Verdict::kSettled:
      reply(UploadAnswer(id, VerdictToProto(verdict), ""));
      return;
    case Verdict::kRefused:
      reply(UploadAnswer(id, VerdictToProto(verdict), "its content was refused before"));
      return;
    case Verdict::kTooEarly:
      reply(UploadAnswer(id, VerdictToProto(verdict),
                         machine_.phase() == RunPhase::kTraining
                             ? absl::StrFormat("round %d is too far ahead: the oldest open round of fragment %d is %d",
                                               id.round, id.fragment, machine_.NextRound(id.fragment))
                             : "training has not started"));
      return;
    case Verdict::kStored:
    case Verdict::kWanted:
      break;
  }
  if (const absl::Status content = CheckUploadContent(request); !content.ok()) {
    upload_replies_[id].push_back(reply);
    RefuseUpload(id, request.incarnation(), Digest::FromBytes(request.contribution_digest().value()),
                 std::string(content.message()));
    return;
  }
  if (verdict == Verdict::kStored) {
    const bool same = staging_.ShapeOf(id)->digest == Digest::FromBytes(request.contribution_digest().value());
    reply(same ? UploadAnswer(id, v1::CONTRIBUTION_VERDICT_STORED, "")
               : UploadAnswer(id, v1::CONTRIBUTION_VERDICT_REFUSED,
                              "other bytes are held for this round; what is acknowledged is not replaced"));
    return;
  }
  AddChunk(request, id, reply);
}

void Driver::Impl::RefuseUpload(const ContributionId& id, uint64_t incarnation, const Digest& digest,
                                const std::string& reason) {
  Step(ContributionRefused{id, incarnation, digest, BoundedReason(reason)});
  AnswerLeftOver(id);
}

void Driver::Impl::AddChunk(const v1::UploadRequest& request, const ContributionId& id,
                            const PendingReply<v1::UploadResponse>& reply) {
  const ContributionShape shape{.total_bytes = request.contribution_bytes(),
                                .chunk_bytes = request.chunk_bytes(),
                                .digest = Digest::FromBytes(request.contribution_digest().value()),
                                .weight = request.weight()};
  const bool query = request.payload().empty() && request.crc32c() == 0 && shape.total_bytes > 0;
  Staging::Result result =
      staging_.Checking(id, request.incarnation()) ? Staging::Result::kChecking : Staging::Result::kReceiving;
  if (!query) {
    const absl::StatusOr<Staging::Result> added =
        staging_.Add(id, request.incarnation(), shape, request.chunk_index(), request.payload());
    if (!added.ok()) {
      reply(added.status());
      return;
    }
    result = *added;
  }
  switch (result) {
    case Staging::Result::kReceiving: {
      v1::UploadResponse response = UploadAnswer(id, v1::CONTRIBUTION_VERDICT_UNSPECIFIED, "");
      for (v1::ChunkRange& range : staging_.Held(id, request.incarnation())) {
        *response.add_held() = std::move(range);
      }
      reply(std::move(response));
      return;
    }
    case Staging::Result::kNoRoom:
      reply(UploadAnswer(id, v1::CONTRIBUTION_VERDICT_BUSY,
                         absl::StrFormat("%d of %d bytes for contributions are taken; send it again later",
                                         staging_.staged_bytes(), kMaxStagedBytes)));
      return;
    case Staging::Result::kComplete:
      upload_replies_[id].push_back(reply);
      StartCheck(id, request.incarnation(), shape);
      return;
    case Staging::Result::kChecking:
      upload_replies_[id].push_back(reply);
      return;
  }
}

void Driver::Impl::StartCheck(const ContributionId& id, uint64_t incarnation, const ContributionShape& shape) {
  const StagedBytes bytes = staging_.Bytes(id);
  const auto elements = static_cast<uint64_t>(run_->layout->fragments()[static_cast<size_t>(id.fragment)].count);
  Submit(
      world_.pool,
      [bytes, elements, codec = uplink_, digest = shape.digest] {
        return CheckContribution(*codec, *bytes, elements, digest);
      },
      [this, id, incarnation, shape, bytes](const absl::Status& status) {
        FinishCheck(id, incarnation, shape, bytes, status);
      });
}

void Driver::Impl::FinishCheck(const ContributionId& id, uint64_t incarnation, const ContributionShape& shape,
                               const StagedBytes& bytes, const absl::Status& status) {
  if (!staging_.Holds(id, bytes)) {
    return;  // Discarded meanwhile, and answered.
  }
  if (!status.ok()) {
    staging_.Drop(id);
    RefuseUpload(id, incarnation, shape.digest, std::string(status.message()));
    return;
  }
  staging_.MarkStored(id, bytes);
  Step(ContributionStored{id, incarnation, shape.digest, shape.weight});
  if (machine_.Ask(id, incarnation) != Verdict::kStored) {
    staging_.Drop(id);
  }
  AnswerLeftOver(id);
}

void Driver::Impl::Carry(const AnswerContribution& effect) {
  const auto it = upload_replies_.find(effect.id);
  if (it == upload_replies_.end()) {
    return;  // An abstention, which heartbeats repeat.
  }
  world_.observer->OnContribution(effect.id, effect.verdict, effect.reason);
  const auto replies = std::move(it->second);
  upload_replies_.erase(it);
  for (const PendingReply<v1::UploadResponse>& reply : replies) {
    reply(UploadAnswer(effect.id, VerdictToProto(effect.verdict), effect.reason));
  }
}

// The machine ignores what a worker sent that is not a member any more.
void Driver::Impl::AnswerLeftOver(const ContributionId& id) {
  const auto it = upload_replies_.find(id);
  if (it == upload_replies_.end()) {
    return;
  }
  const auto replies = std::move(it->second);
  upload_replies_.erase(it);
  const absl::Status status = NotAMember(id.worker);
  for (const PendingReply<v1::UploadResponse>& reply : replies) {
    reply(status);
  }
}

// Bytes that are not whole and checked, of a worker that left, is lost, or came back as another incarnation.
void Driver::Impl::DiscardIncomplete(const std::string& worker, uint64_t keep) {
  for (const ContributionId& id : staging_.DropIncomplete(worker, keep)) {
    AnswerLeftOver(id);
  }
}

}  // namespace diloco
