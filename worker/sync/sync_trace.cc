#include "worker/sync/sync_trace.h"

#include <variant>

#include "absl/strings/str_cat.h"

namespace diloco {
namespace {

// Contributions that are watched for their verdict; the oldest is forgotten when there are more.
constexpr size_t kMaxWatched = 4096;
}  // namespace

SyncTrace::SyncTrace(Tracer* tracer, int connections) : tracer_(tracer), sending_(static_cast<size_t>(connections)) {
  if (tracer_ == nullptr) return;
  sync_ = tracer_->AddTrack("sync");
  for (int i = 0; i < connections; ++i) connections_.push_back(tracer_->AddTrack(absl::StrCat("upload ", i)));
  downloads_ = tracer_->AddTrack("download");
}

void SyncTrace::Begin(const SyncEvent& event) {
  if (tracer_ == nullptr) return;
  began_ = Tracer::Now();
  work_ = {};
  applied_ = 0;
  std::visit([this](const auto& e) { Note(e); }, event);
}

void SyncTrace::End() {
  if (tracer_ == nullptr || work_.name.empty()) return;
  const MonotonicTime now = Tracer::Now();
  if (work_.fragment == kAllFragments) {
    tracer_->Slice(sync_, work_.name, began_, now, {{"applied", applied_}});
  } else {
    tracer_->Slice(
        sync_, applied_ > 0 ? "apply" : work_.name, began_, now,
        {{"round", work_.round}, {"fragment", work_.fragment}, {"bytes", work_.bytes}, {"applied", applied_}});
  }
  work_ = {};
}

void SyncTrace::NoteApplied() { ++applied_; }

void SyncTrace::NoteSent(int connection, const v1::UploadRequest& request) {
  if (tracer_ == nullptr) return;
  const Transfer message = {Tracer::Now(), request.round(), request.fragment(), request.payload().size()};
  sending_[static_cast<size_t>(connection)] = message;
  if (request.payload().empty()) return;  // A query.
  contributions_
      .try_emplace({message.round, message.fragment}, Transfer{message.begin, message.round, message.fragment})
      .first->second.bytes += message.bytes;
  if (contributions_.size() > kMaxWatched) contributions_.erase(contributions_.begin());
}

void SyncTrace::Note(const OuterGradientTaken& event) {
  work_ = {"encode", event.round, event.fragment, event.outer_gradient.size() * sizeof(float)};
}

void SyncTrace::Note(const TrainingAdvanced& event) { work_ = {"stage", event.round, event.fragment}; }

void SyncTrace::Note(const StateWanted&) { work_.name = "copy state"; }

void SyncTrace::Note(const UploadReplied& event) {
  if (event.response.verdict() == v1::CONTRIBUTION_VERDICT_UNSPECIFIED) return;
  EndUpload(event.response.round(), event.response.fragment(), v1::ContributionVerdict_Name(event.response.verdict()));
}

void SyncTrace::EndUpload(int64_t round, int64_t fragment, const std::string& verdict) {
  const auto found = contributions_.find({round, fragment});
  if (found == contributions_.end()) return;
  const Transfer& upload = found->second;
  tracer_->AsyncSlice("upload", upload.begin, Tracer::Now(),
                      {{"round", round}, {"fragment", fragment}, {"bytes", upload.bytes}, {"verdict", verdict}});
  contributions_.erase(found);
}

void SyncTrace::Note(const UploadWritten& event) {
  const auto connection = static_cast<size_t>(event.stream);
  if (const std::optional<Transfer> sent = std::exchange(sending_[connection], std::nullopt)) {
    tracer_->Slice(connections_[connection], "send", sent->begin, Tracer::Now(),
                   {{"round", sent->round}, {"fragment", sent->fragment}, {"bytes", sent->bytes}});
  }
}

void SyncTrace::Note(const UploadClosed& event) { sending_[static_cast<size_t>(event.stream)].reset(); }

void SyncTrace::Note(const SnapshotItemRead& event) { ExtendDownload(0, kAllFragments, event.item.ByteSizeLong()); }

void SyncTrace::Note(const SubscriptionItemRead& event) {
  const v1::SubscribeResponse& item = event.item;
  if (item.has_chunk()) {
    ExtendDownload(item.chunk().round(), item.chunk().fragment(), item.chunk().payload().size());
  } else if (item.has_commit()) {
    work_ = {"take average", item.commit().round(), item.commit().fragment()};
    ExtendDownload(item.commit().round(), item.commit().fragment(), 0);
    EndDownload("download");
    // It may overtake the verdict.
    EndUpload(item.commit().round(), item.commit().fragment(), "settled");
  } else if (item.has_end()) {
    work_.name = "take end";
  }
}

void SyncTrace::Note(const DownloadFinished& event) {
  if (event.status.ok() && download_ && download_->fragment == kAllFragments) {
    work_.name = "take snapshot";
    EndDownload("download snapshot");
  }
  download_.reset();
}

// Deltas come one after another. One that breaks off leaves nothing.
void SyncTrace::ExtendDownload(int64_t round, int64_t fragment, uint64_t bytes) {
  if (!download_ || download_->round != round || download_->fragment != fragment) {
    download_ = Transfer{Tracer::Now(), round, fragment};
  }
  download_->bytes += bytes;
}

void SyncTrace::EndDownload(const char* name) {
  tracer_->Slice(downloads_, name, download_->begin, Tracer::Now(),
                 {{"round", download_->round}, {"fragment", download_->fragment}, {"bytes", download_->bytes}});
  download_.reset();
}

}  // namespace diloco
