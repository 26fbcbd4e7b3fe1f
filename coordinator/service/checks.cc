#include "coordinator/service/checks.h"

#include <string_view>

#include "absl/strings/str_format.h"

#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/base/name.h"
#include "common/base/status_macros.h"

namespace diloco {
namespace {

constexpr size_t kDigestBytes = 16;

absl::Status Limit(std::string_view what, uint64_t value, uint64_t limit) {
  if (value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat("%s is %d; the limit is %d", what, value, limit));
}

absl::Status CheckDigest(std::string_view what, const v1::Digest& digest) {
  if (digest.value().empty() || digest.value().size() == kDigestBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s has %d bytes; a digest has %d", what, digest.value().size(), kDigestBytes));
}

absl::Status CheckPlace(uint32_t fragment, int64_t round) {
  DILOCO_RETURN_IF_ERROR(Limit("fragment", fragment, kMaxFragments - 1));
  if (round < 0) return absl::InvalidArgumentError(absl::StrFormat("round is %d; rounds count from 0", round));
  return absl::OkStatus();
}

// What every request of a member carries.
template <typename Request>
absl::Status CheckMember(const Request& request) {
  DILOCO_RETURN_IF_ERROR(ValidateName("run id", request.run_id()));
  DILOCO_RETURN_IF_ERROR(ValidateName("worker id", request.worker_id()));
  if (request.incarnation() == 0) return absl::InvalidArgumentError("incarnation is 0; draw one at random");
  return absl::OkStatus();
}

absl::Status CheckHeldForm(const v1::HeldConsensus& held) {
  return Limit("number of versions held", static_cast<uint64_t>(held.versions_size()), kMaxFragments);
}

}  // namespace

absl::Status CheckForm(const v1::DescribeRunRequest& request) {
  return request.run_id().empty() ? absl::OkStatus() : ValidateName("run id", request.run_id());
}

absl::Status CheckForm(const v1::JoinRequest& request) {
  DILOCO_RETURN_IF_ERROR(CheckMember(request));
  DILOCO_RETURN_IF_ERROR(Limit("software version, in bytes,", request.software_version().size(), kMaxNameBytes));
  DILOCO_RETURN_IF_ERROR(Limit("number of tensors", static_cast<uint64_t>(request.tensors_size()), kMaxTensors));
  for (const v1::TensorSpec& tensor : request.tensors()) {
    DILOCO_RETURN_IF_ERROR(Limit("name of a tensor, in bytes,", tensor.name().size(), kMaxTensorNameBytes));
  }
  return CheckHeldForm(request.held());
}

absl::Status CheckForm(const v1::SessionRequest& request) {
  DILOCO_RETURN_IF_ERROR(CheckMember(request));
  DILOCO_RETURN_IF_ERROR(
      Limit("number of evaluations", static_cast<uint64_t>(request.evaluations_size()), kMaxEvaluationsPerHeartbeat));
  DILOCO_RETURN_IF_ERROR(
      Limit("number of abstentions", static_cast<uint64_t>(request.abstentions_size()), kMaxFragments));
  for (const v1::Abstention& abstention : request.abstentions()) {
    DILOCO_RETURN_IF_ERROR(CheckPlace(abstention.fragment(), abstention.round()));
    DILOCO_RETURN_IF_ERROR(Limit("reason of an abstention, in bytes,", abstention.reason().size(), kMaxReasonBytes));
  }
  for (const v1::Evaluation& evaluation : request.evaluations()) {
    DILOCO_RETURN_IF_ERROR(ValidateName("worker id of an evaluation", evaluation.worker_id()));
  }
  return absl::OkStatus();
}

absl::Status CheckForm(const v1::UploadRequest& request) {
  DILOCO_RETURN_IF_ERROR(CheckMember(request));
  DILOCO_RETURN_IF_ERROR(CheckPlace(request.fragment(), request.round()));
  DILOCO_RETURN_IF_ERROR(Limit("payload, in bytes,", request.payload().size(), kMaxChunkBytes));
  return Limit("name of the codec, in bytes,", request.codec().size(), kMaxNameBytes);
}

absl::Status CheckForm(const v1::SubscribeRequest& request) {
  DILOCO_RETURN_IF_ERROR(CheckMember(request));
  return Limit("number of next_rounds", static_cast<uint64_t>(request.next_rounds_size()), kMaxFragments);
}

absl::Status CheckForm(const v1::FetchSnapshotRequest& request) {
  DILOCO_RETURN_IF_ERROR(CheckMember(request));
  return CheckHeldForm(request.held());
}

absl::Status CheckForm(const v1::SeedRequest& request) {
  DILOCO_RETURN_IF_ERROR(CheckMember(request));
  DILOCO_RETURN_IF_ERROR(CheckDigest("layout_digest", request.layout_digest()));
  DILOCO_RETURN_IF_ERROR(Limit("total_bytes", request.total_bytes(), kMaxSeedBytes));
  return Limit("payload, in bytes,", request.payload().size(), kMaxChunkBytes);
}

absl::Status CheckForm(const v1::ProbeRequest& request) {
  if (!request.run_id().empty()) DILOCO_RETURN_IF_ERROR(ValidateName("run id", request.run_id()));
  DILOCO_RETURN_IF_ERROR(Limit("answer_bytes", request.answer_bytes(), kMaxChunkBytes));
  return Limit("payload, in bytes,", request.payload().size(), kMaxChunkBytes);
}

absl::Status CheckForm(const v1::SetConfigRequest& request) {
  DILOCO_RETURN_IF_ERROR(CheckAdminForm(request));
  if (request.settings().empty()) return absl::InvalidArgumentError("no setting is given; give KEY=VALUE");
  DILOCO_RETURN_IF_ERROR(
      Limit("number of settings", static_cast<uint64_t>(request.settings_size()), kMaxSettingsPerChange));
  for (const v1::Setting& setting : request.settings()) {
    DILOCO_RETURN_IF_ERROR(Limit("name of a setting, in bytes,", setting.key().size(), kMaxNameBytes));
    DILOCO_RETURN_IF_ERROR(Limit("value of a setting, in bytes,", setting.value().size(), kMaxNameBytes));
  }
  return absl::OkStatus();
}

bool PayloadIsGood(const v1::UploadRequest& request) {
  return ComputeCrc32c(request.payload()).value == request.crc32c();
}

bool PayloadIsGood(const v1::SeedRequest& request) {
  return ComputeCrc32c(request.payload()).value == request.crc32c();
}

}  // namespace diloco
