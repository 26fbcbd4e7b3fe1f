#include "worker/sync/sync_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/log/log.h"
#include "common/outer/method.h"
#include "spdlog/spdlog.h"

namespace diloco {
namespace {

UploadMachine::Options UploadOptions(UploadMachine::Options options, const RunConfig& config) {
  options.streams = config.wire.connections;
  options.bytes_per_second = config.wire.upload_bytes_per_second;
  return options;
}

DownloadMachine::Options DownloadOptions(DownloadMachine::Options options, const Layout& layout) {
  options.fragments = layout.fragment_count();
  return options;
}

ContributionStore::Options StoreOptions(const SyncCore::Options& options, const RunConfig& config,
                                        const Layout& layout) {
  const Codec* codec = FindCodec(config.wire.uplink);
  DILOCO_CHECK(codec != nullptr);
  return {.run_id = config.run.id,
          .worker_id = options.worker_id,
          .incarnation = options.incarnation,
          .layout_digest = layout.digest(),
          .codec = codec,
          .chunk_bytes = ChunkBytesFor(*codec, options.chunk_bytes)};
}

UploadVerdict FromProto(v1::ContributionVerdict verdict) {
  switch (verdict) {
    case v1::CONTRIBUTION_VERDICT_STORED:
      return UploadVerdict::kStored;
    case v1::CONTRIBUTION_VERDICT_SETTLED:
      return UploadVerdict::kSettled;
    case v1::CONTRIBUTION_VERDICT_REFUSED:
      return UploadVerdict::kRefused;
    case v1::CONTRIBUTION_VERDICT_TOO_EARLY:
      return UploadVerdict::kTooEarly;
    case v1::CONTRIBUTION_VERDICT_BUSY:
      return UploadVerdict::kBusy;
    default:
      return UploadVerdict::kWanted;
  }
}

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

SyncCore::SyncCore(Options options, const RunConfig* config, const Layout* layout, Exchange* exchange,
                   StatusBoard* board, SyncNetwork* network)
    : options_(std::move(options)),
      config_(*config),
      layout_(*layout),
      exchange_(exchange),
      board_(board),
      network_(network),
      schedule_(*config),
      downlink_(FindCodec(config->wire.downlink)),
      store_(StoreOptions(options_, *config, *layout)),
      upload_(UploadOptions(options_.upload, *config)),
      download_(DownloadOptions(options_.download, *layout)) {
  DILOCO_CHECK(downlink_ != nullptr);
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    assemblers_.emplace_back(DeltaAssembler::Options{.run_id = config_.run.id,
                                                     .fragment = static_cast<uint32_t>(f),
                                                     .codec = downlink_,
                                                     .element_count = static_cast<uint64_t>(
                                                         layout_.fragments()[static_cast<size_t>(f)].count)},
                             0);
  }
}

absl::Status SyncCore::Handle(SyncEvent event, MonotonicTime now) {
  now_ = now;
  absl::Status status = std::visit([this](auto& e) { return On(std::move(e)); }, event);
  if (!status.ok()) {
    exchange_->Fail(status);
  }
  ReportStatus();
  return status;
}

absl::Status SyncCore::HandleTime(MonotonicTime now) {
  now_ = now;
  Upload(UploadTimePassed{});
  Download(DownloadTimePassed{});
  ReportStatus();
  return absl::OkStatus();
}

std::optional<MonotonicTime> SyncCore::next_wake() const {
  const std::optional<MonotonicTime> upload = upload_.next_wake();
  const std::optional<MonotonicTime> download = download_.next_wake();
  return upload && download ? std::min(*upload, *download) : upload ? upload : download;
}

// ---- What the training thread hands over ----

absl::Status SyncCore::On(OuterGradientTaken event) {
  DILOCO_CHECK(!fragments_.empty());
  const absl::Span<const float> all = event.outer_gradient;
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    const FragmentRange& range = layout_.fragments()[static_cast<size_t>(f)];
    const ContributionStore::Contribution& contribution =
        store_.Add(event.round, f, all.subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count)));
    OwnContribution own{.round = event.round, .digest = contribution.digest};
    own.lambda = event.lambdas.empty() ? 0 : event.lambdas[static_cast<size_t>(f)];
    own.decoded.resize(static_cast<size_t>(range.count));
    store_.options().codec->decode(contribution.encoded, absl::MakeSpan(own.decoded));
    fragments_[static_cast<size_t>(f)].Contribute(std::move(own));
    unstaged_.insert(f);
    Upload(ContributionOffered{event.round, f, contribution.encoded.size(),
                               static_cast<uint32_t>(store_.options().chunk_bytes)});
  }
  return absl::OkStatus();
}

absl::Status SyncCore::On(const RoundAbstained& event) {
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    if (fragments_[static_cast<size_t>(f)].received() <= event.round) {
      abstentions_.push_back({f, event.round, event.reason});
    }
  }
  return absl::OkStatus();
}

absl::Status SyncCore::On(const TrainingAdvanced& event) {
  if (boundary_.round == kBeforeTraining) {
    for (int f = 0; f < layout_.fragment_count(); ++f) {
      unstaged_.insert(f);
    }
  }
  boundary_.round = event.round;
  return ApplyAllowed();
}

// ---- Uploads ----

absl::Status SyncCore::On(const UploadReplied& event) {
  const v1::UploadResponse& response = event.response;
  UploadAnswered answered{.stream = event.stream,
                          .call = event.call,
                          .round = response.round(),
                          .fragment = static_cast<int>(response.fragment()),
                          .verdict = FromProto(response.verdict())};
  for (const v1::ChunkRange& range : response.held()) {
    answered.held.push_back({range.first(), range.end()});
  }
  if (answered.verdict == UploadVerdict::kRefused) {
    spdlog::warn("event=contribution_refused fragment={} round={} reason={}", answered.fragment, answered.round,
                 Quoted(response.reason()));
  }
  Upload(answered);
  return absl::OkStatus();
}

absl::Status SyncCore::On(const UploadWritten& event) {
  Upload(event);
  return absl::OkStatus();
}

absl::Status SyncCore::On(const UploadClosed& event) {
  Upload(event);
  return absl::OkStatus();
}

void SyncCore::Upload(const UploadEvent& event) {
  for (const UploadEffect& effect : upload_.Step(event, now_)) {
    std::visit(Overloaded{
                   [this](const OpenUpload& e) { network_->OpenUpload(e.stream, e.call); },
                   [this](const CancelUpload& e) { network_->CancelUpload(e.stream, e.call); },
                   [this](const SendQuery& e) { network_->Send(e.stream, store_.Query(e.round, e.fragment)); },
                   [this](const SendChunk& e) {
                     v1::UploadRequest request = store_.Chunk(e.round, e.fragment, e.chunk);
                     uploaded_bytes_ += request.payload().size();
                     network_->Send(e.stream, std::move(request));
                   },
               },
               effect);
  }
}

// ---- Downloads ----

void SyncCore::Download(const DownloadEvent& event) {
  for (const DownloadEffect& effect : download_.Step(event, now_)) {
    std::visit(Overloaded{
                   [this](const FetchSnapshot& e) {
                     snapshot_.emplace(config_.run.id, &layout_, FindOuterOptimizer(config_.outer.optimizer));
                     v1::FetchSnapshotRequest request;
                     request.set_run_id(config_.run.id);
                     request.set_worker_id(options_.worker_id);
                     request.set_incarnation(options_.incarnation);
                     network_->FetchSnapshot(e.call, std::move(request));
                   },
                   [this](const OpenSubscription& e) {
                     v1::SubscribeRequest request;
                     request.set_run_id(config_.run.id);
                     request.set_worker_id(options_.worker_id);
                     request.set_incarnation(options_.incarnation);
                     for (size_t f = 0; f < assemblers_.size(); ++f) {
                       assemblers_[f].Restart(e.next_rounds[f]);
                       request.add_next_rounds(e.next_rounds[f]);
                     }
                     network_->OpenSubscription(e.call, std::move(request));
                   },
                   [this](const CancelDownload& e) { network_->CancelDownload(e.call); },
               },
               effect);
  }
}

absl::Status SyncCore::Damaged(uint64_t call, const absl::Status& status) {
  if (!absl::IsDataLoss(status)) {
    return status;
  }
  spdlog::warn("event=download_damaged reason={}", Quoted(status.ToString()));
  Download(DownloadClosed{call, absl::StatusCode::kDataLoss});
  return absl::OkStatus();
}

absl::Status SyncCore::On(const DownloadFinished& event) {
  if (!download_.IsCurrent(event.call)) {
    return absl::OkStatus();
  }
  if (event.status.ok() && snapshot_) {
    return TakeSnapshot(event.call);
  }
  spdlog::info("event=download_closed status={}", Quoted(event.status.ToString()));
  snapshot_.reset();
  Download(DownloadClosed{event.call, event.status.code()});
  return absl::OkStatus();
}

absl::Status SyncCore::On(const SnapshotItemRead& event) {
  if (!download_.IsCurrent(event.call)) {
    return absl::OkStatus();
  }
  exchange_->NoteContact();
  Download(DownloadProgress{event.call});
  if (const absl::Status status = snapshot_->Add(event.item); !status.ok()) {
    snapshot_.reset();
    return Damaged(event.call, status);
  }
  network_->ReadNext(event.call);
  return absl::OkStatus();
}

absl::Status SyncCore::TakeSnapshot(uint64_t call) {
  absl::StatusOr<Snapshot> snapshot = snapshot_->Finish();
  snapshot_.reset();
  if (!snapshot.ok()) {
    return Damaged(call, snapshot.status());
  }
  spdlog::info("event=snapshot_taken version={}", snapshot->version);
  Adopt(*std::move(snapshot));
  std::vector<int64_t> next_rounds;
  for (const FragmentSync& fragment : fragments_) {
    next_rounds.push_back(fragment.received());
  }
  Download(SnapshotTaken{call, std::move(next_rounds)});
  return ApplyAllowed();
}

// A fragment never goes back: one that is ahead of the snapshot stays where it is.
void SyncCore::Adopt(Snapshot snapshot) {
  const OuterOptimizer& optimizer = *FindOuterOptimizer(config_.outer.optimizer);
  const StepScalars initial{.rate = static_cast<float>(config_.outer.rate),
                            .momentum = optimizer.uses_momentum ? static_cast<float>(config_.outer.momentum) : 0,
                            .participating_weight = static_cast<double>(config_.run.workers)};
  const StepScalars scalars = snapshot.scalars.value_or(initial);
  const bool first = fragments_.empty();
  for (size_t f = 0; f < snapshot.fragments.size(); ++f) {
    if (first) {
      const FragmentOuter::Options outer{.method = FindMethod(config_.method),
                                         .lookahead = config_.lookahead,
                                         .initial_scalars = scalars,
                                         .own_weight = store_.options().weight};
      fragments_.emplace_back(
          FragmentSync::Options{
              .fragment = static_cast<int>(f), .worker_id = options_.worker_id, .downlink = downlink_, .outer = outer},
          std::move(snapshot.fragments[f]));
    } else if (snapshot.version > fragments_[f].received()) {
      fragments_[f].Resync(std::move(snapshot.fragments[f]), scalars, snapshot.settled_rounds[f]);
    } else {
      continue;
    }
    SettleUpTo(snapshot.settled_rounds[f], static_cast<int>(f));
    Announce(static_cast<int>(f));
  }
}

absl::Status SyncCore::On(const SubscriptionItemRead& event) {
  if (!download_.IsCurrent(event.call)) {
    return absl::OkStatus();
  }
  exchange_->NoteContact();
  Download(DownloadProgress{event.call});
  const auto assembler = [this](uint32_t fragment) -> DeltaAssembler* {
    return fragment < assemblers_.size() ? &assemblers_[fragment] : nullptr;
  };
  absl::Status status = absl::DataLossError("subscription: a message that names no fragment of the layout");
  switch (event.item.item_case()) {
    case v1::SubscribeResponse::kChunk:
      if (DeltaAssembler* to = assembler(event.item.chunk().fragment())) {
        status = to->AddChunk(event.item.chunk());
        downloaded_bytes_ += event.item.chunk().payload().size();
      }
      break;
    case v1::SubscribeResponse::kSettled:
      if (DeltaAssembler* to = assembler(event.item.settled().fragment())) {
        status = to->AddSettled(event.item.settled());
      }
      break;
    case v1::SubscribeResponse::kCommit:
      if (assembler(event.item.commit().fragment()) != nullptr) {
        return TakeCommit(event.call, event.item.commit());
      }
      break;
    case v1::SubscribeResponse::kEnd:
      return TakeEnd(event.call, event.item.end());
    case v1::SubscribeResponse::kResync:
      spdlog::warn("event=resync reason={}", Quoted(event.item.resync().reason()));
      Download(ResyncAsked{event.call});
      return absl::OkStatus();
    case v1::SubscribeResponse::ITEM_NOT_SET:
      break;
  }
  if (!status.ok()) {
    return Damaged(event.call, status);
  }
  network_->ReadNext(event.call);
  return absl::OkStatus();
}

absl::Status SyncCore::TakeCommit(uint64_t call, const v1::GlobalDeltaCommit& commit) {
  const int fragment = static_cast<int>(commit.fragment());
  absl::StatusOr<GlobalDelta> delta = assemblers_[commit.fragment()].AddCommit(commit);
  if (!delta.ok()) {
    return Damaged(call, delta.status());
  }
  Download(DeltaTaken{call, fragment, commit.round()});
  network_->ReadNext(call);
  for (const v1::SettledContribution& settled : delta->settled.settled()) {
    SettleOwn(settled);
  }
  std::erase_if(abstentions_, [&](const RoundAbstention& abstention) {
    return abstention.fragment == fragment && abstention.round <= commit.round();
  });
  fragments_[commit.fragment()].Hold(*std::move(delta));
  Upload(AverageArrived{fragment});
  return ApplyAllowed();
}

absl::Status SyncCore::TakeEnd(uint64_t call, const v1::EndRecord& end) {
  if (end.run_id() != config_.run.id || end.consensus_digests_size() != layout_.fragment_count() ||
      end.rounds() != Published()) {
    return Damaged(call, absl::DataLossError(absl::StrFormat("end record of run \"%s\" after %d rounds: this worker "
                                                             "has received %d rounds of run \"%s\"",
                                                             end.run_id(), end.rounds(), Published(), config_.run.id)));
  }
  spdlog::info("event=run_ended rounds={}", end.rounds());
  Download(EndTaken{call});
  for (const v1::SettledContribution& settled : end.settled()) {
    SettleOwn(settled);
  }
  end_ = end;
  return ApplyAllowed();
}

void SyncCore::SettleOwn(const v1::SettledContribution& settled) {
  if (settled.id().worker_id() != options_.worker_id) {
    return;
  }
  if (settled.settlement() != v1::SETTLEMENT_MERGED) {
    spdlog::warn("event=contribution_dropped fragment={} round={} settlement={}", settled.id().fragment(),
                 settled.id().round(), v1::Settlement_Name(settled.settlement()));
  }
  SettleUpTo(settled.id().round(), static_cast<int>(settled.id().fragment()));
}

// Contributions of a fragment settle in round order: what a newer one overtook is not taken any more.
void SyncCore::SettleUpTo(int64_t round, int fragment) {
  for (const int64_t held : store_.Rounds(fragment)) {
    if (held <= round) {
      Upload(ContributionSettled{held, fragment});
      store_.Remove(held, fragment);
    }
  }
}

// ---- The outer loop ----

int64_t SyncCore::Allowed(const FragmentSync& fragment) const {
  if (boundary_.round >= schedule_.rounds()) {
    return fragment.received();
  }
  const int64_t round = std::max(boundary_.round, options_.first_round);
  return std::min(fragment.received(), schedule_.Plan(round, fragment.received()).wanted);
}

int64_t SyncCore::Published() const {
  const auto oldest = std::min_element(fragments_.begin(), fragments_.end(),
                                       [](const auto& a, const auto& b) { return a.received() < b.received(); });
  return oldest == fragments_.end() ? 0 : oldest->received();
}

std::optional<int64_t> SyncCore::CommonVersion() const {
  for (const FragmentSync& fragment : fragments_) {
    if (fragment.version() != fragments_.front().version()) {
      return std::nullopt;
    }
  }
  return fragments_.empty() ? std::nullopt : std::optional<int64_t>(fragments_.front().version());
}

// Fragments advance version by version together, so that every version that all reach is seen.
absl::Status SyncCore::ApplyAllowed() {
  while (true) {
    int next = -1;
    for (size_t f = 0; f < fragments_.size(); ++f) {
      const bool allowed = fragments_[f].version() < Allowed(fragments_[f]);
      if (allowed && (next < 0 || fragments_[f].version() < fragments_[static_cast<size_t>(next)].version())) {
        next = static_cast<int>(f);
      }
    }
    if (next < 0) {
      break;
    }
    DILOCO_RETURN_IF_ERROR(fragments_[static_cast<size_t>(next)].ApplyNext());
    Announce(next);
    MaybeCopyConsensus(false);
  }
  PublishBoundary();
  // Only now: whoever hears of a version finds it staged.
  for (const auto& [fragment, version, digest] : std::exchange(announcements_, {})) {
    options_.on_consensus(fragment, version, digest);
  }
  return MaybeFinish();
}

void SyncCore::Announce(int fragment) {
  unstaged_.insert(fragment);
  if (options_.on_consensus) {
    const FragmentSync& changed = fragments_[static_cast<size_t>(fragment)];
    announcements_.push_back({fragment, changed.version(), changed.digest()});
  }
}

void SyncCore::MaybeCopyConsensus(bool at_end) {
  const std::optional<int64_t> version = CommonVersion();
  if (!exchange_->evaluator() || !version || *version <= copied_version_) {
    return;
  }
  const int64_t every = config_.eval.every;
  const bool crossed = every > 0 && *version / every > copied_version_ / every;
  if (!crossed && !at_end) {
    return;
  }
  copied_version_ = *version;
  auto copy = std::make_shared<ConsensusCopy>();
  copy->version = *version;
  for (const FragmentSync& fragment : fragments_) {
    const absl::Span<const float> parameters = fragment.consensus().parameters();
    copy->parameters.insert(copy->parameters.end(), parameters.begin(), parameters.end());
  }
  exchange_->PublishConsensusCopy(std::move(copy));
}

FragmentOuter::Staged SyncCore::Stage(const FragmentSync& fragment) const {
  if (boundary_.round != kBeforeTraining) {
    return fragment.Stage();
  }
  const absl::Span<const float> parameters = fragment.consensus().parameters();
  return {.base = {parameters.begin(), parameters.end()}, .version = fragment.version()};
}

void SyncCore::PublishBoundary() {
  if (fragments_.empty() || boundary_.round >= schedule_.rounds()) {
    return;
  }
  boundary_.published = Published();
  boundary_.fragments.resize(fragments_.size());
  for (const int f : unstaged_) {
    boundary_.fragments[static_cast<size_t>(f)] =
        std::make_shared<const FragmentOuter::Staged>(Stage(fragments_[static_cast<size_t>(f)]));
  }
  unstaged_.clear();
  exchange_->Publish(boundary_);
}

absl::Status SyncCore::MaybeFinish() {
  if (finished_ || !end_ || boundary_.round < schedule_.rounds()) {
    return absl::OkStatus();
  }
  for (size_t f = 0; f < fragments_.size(); ++f) {
    DILOCO_RETURN_IF_ERROR(
        fragments_[f].CheckFinal(Digest::FromBytes(end_->consensus_digests(static_cast<int>(f)).value())));
  }
  finished_ = true;
  MaybeCopyConsensus(true);
  exchange_->PublishEnd();
  return absl::OkStatus();
}

void SyncCore::ReportStatus() {
  const auto oldest = std::min_element(fragments_.begin(), fragments_.end(),
                                       [](const auto& a, const auto& b) { return a.version() < b.version(); });
  const int64_t version = oldest == fragments_.end() ? 0 : oldest->version();
  board_->Update([&](WorkerStatus& status) {
    status.version = version;
    status.uploaded_bytes = uploaded_bytes_;
    status.downloaded_bytes = downloaded_bytes_;
    status.stream_reconnects = upload_.reconnects() + download_.reconnects();
    status.resyncs = download_.resyncs();
    status.upload_queue = static_cast<int64_t>(upload_.contributions_pending());
    status.abstentions = abstentions_;
  });
}

}  // namespace diloco
