#include "coordinator/app/coordinator_trace.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace diloco {
namespace {

// Contributions that are watched for their verdict; the oldest is forgotten when there are more.
constexpr size_t kMaxArriving = 4096;

}  // namespace

CoordinatorTrace::CoordinatorTrace(Tracer* tracer) : tracer_(tracer) {
  if (tracer_ != nullptr) snapshots_ = tracer_->AddTrack("snapshot");
}

void CoordinatorTrace::OnEffect(const RoundEffect& effect) {
  if (tracer_ == nullptr) return;
  std::visit([this](const auto& e) { Begin(e); }, effect);
}

CoordinatorTrace::Closing& CoordinatorTrace::Of(int fragment) {
  const auto [it, added] = fragments_.try_emplace(fragment);
  if (added) it->second.track = tracer_->AddTrack(absl::StrCat("fragment ", fragment));
  return it->second;
}

// One round of a fragment closes after the other, so that these do not overlap.
void CoordinatorTrace::Begin(const StartMerge& effect) { Of(effect.fragment).began = Tracer::Now(); }

void CoordinatorTrace::Begin(const PersistCommit& effect) { Of(effect.fragment).began = Tracer::Now(); }

void CoordinatorTrace::Begin(const PublishGlobalDelta& effect) {
  const Closing& closing = Of(effect.fragment);
  tracer_->Slice(closing.track, "commit", closing.began, Tracer::Now(),
                 {{"round", effect.round}, {"fragment", effect.fragment}});
  publishing_ = effect;
}

void CoordinatorTrace::OnChunkReceived(const ContributionId& id, uint64_t payload_bytes) {
  if (tracer_ == nullptr) return;
  arriving_.try_emplace(id, Arriving{Tracer::Now()}).first->second.bytes += payload_bytes;
  if (arriving_.size() > kMaxArriving) arriving_.erase(arriving_.begin());
}

void CoordinatorTrace::OnContribution(const ContributionId& id, const std::string& verdict) {
  const auto found = arriving_.find(id);
  if (found == arriving_.end()) return;
  tracer_->AsyncSlice(absl::StrCat("contribution of ", id.worker), found->second.began, Tracer::Now(),
                      {{"worker", id.worker},
                       {"round", id.round},
                       {"fragment", id.fragment},
                       {"bytes", found->second.bytes},
                       {"verdict", verdict}});
  arriving_.erase(found);
}

void CoordinatorTrace::OnMerged(int fragment, int64_t round) {
  if (tracer_ == nullptr) return;
  const Closing& closing = Of(fragment);
  tracer_->Slice(closing.track, "merge", closing.began, Tracer::Now(), {{"round", round}, {"fragment", fragment}});
}

void CoordinatorTrace::OnPublished(uint64_t payload_bytes, int subscribers) {
  if (tracer_ == nullptr) return;
  tracer_->Instant(Of(publishing_.fragment).track, "publish", Tracer::Now(),
                   {{"round", publishing_.round},
                    {"fragment", publishing_.fragment},
                    {"bytes", payload_bytes},
                    {"subscribers", subscribers}});
}

void CoordinatorTrace::OnCommitted(int fragment, int64_t round, absl::Duration since_opened, int merged, int dropped,
                                   const std::string& reason) {
  if (tracer_ == nullptr) return;
  const MonotonicTime now = Tracer::Now();
  tracer_->AsyncSlice(
      "round", now + -since_opened, now,
      {{"round", round}, {"fragment", fragment}, {"merged", merged}, {"dropped", dropped}, {"reason", reason}});
}

void CoordinatorTrace::OnSnapshot(int64_t version, absl::Duration took) {
  if (tracer_ == nullptr) return;
  const MonotonicTime now = Tracer::Now();
  tracer_->Slice(snapshots_, "snapshot", now + -took, now, {{"version", version}});
}

void CoordinatorTrace::OnCheckpoint(int64_t version) {
  if (tracer_ != nullptr) tracer_->Instant(snapshots_, "checkpoint", Tracer::Now(), {{"version", version}});
}

void CoordinatorTrace::OnMembers(int alive, int participating) {
  if (tracer_ == nullptr) return;
  tracer_->Counter("workers alive", Tracer::Now(), alive);
  tracer_->Counter("workers participating", Tracer::Now(), participating);
}

}  // namespace diloco
