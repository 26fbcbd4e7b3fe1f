#include "worker/sync/sync_core.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/log/log.h"
#include "common/outer/method.h"

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
  return {
      .run_id = config.run.id,
      .worker_id = options.worker_id,
      .incarnation = options.incarnation,
      .layout_digest = layout.digest(),
      .codec = codec,
      .rounding = {.stochastic = config.wire.stochastic_rounding, .seed = config.run.seed, .sender = options.worker_id},
      .error_feedback = config.wire.uplink_feedback(),
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

}  // namespace

SyncCore::SyncCore(Options options, const RunConfig* config, const Layout* layout, Exchange* exchange,
                   StatusBoard* board, SyncNetwork* network)
    : options_(std::move(options)),
      config_(*config),
      layout_(*layout),
      exchange_(exchange),
      board_(board),
      network_(network),
      settings_(*config),
      schedule_(*config, layout->fragment_count()),
      downlink_(FindCodec(config->wire.downlink)),
      store_(StoreOptions(options_, *config, *layout)),
      upload_(UploadOptions(options_.upload, *config)),
      download_(DownloadOptions(options_.download, *layout)),
      stops_(static_cast<size_t>(layout->fragment_count()), kBeforeTraining),
      arriving_since_(static_cast<size_t>(layout->fragment_count())) {
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

FragmentSync::Options SyncCore::FragmentOptions(int fragment, const StepScalars& next_scalars) const {
  return {.fragment = fragment,
          .worker_id = options_.worker_id,
          .downlink = downlink_,
          .outer = {.method = FindMethod(config_.method),
                    .lookahead = config_.lookahead,
                    .blend = config_.blend,
                    .next_scalars = next_scalars,
                    .weights = config_.outer.weights,
                    .workers = config_.run.workers}};
}

void SyncCore::Resume(SyncState state, MonotonicTime now) {
  DILOCO_CHECK(fragments_.empty() && state.fragments.size() == stops_.size());
  now_ = now;
  DownloadMachine::Options download = DownloadOptions(options_.download, layout_);
  for (size_t f = 0; f < state.fragments.size(); ++f) {
    SyncState::Fragment& fragment = state.fragments[f];
    const StepScalars next_scalars = fragment.outer.next_scalars;
    fragments_.emplace_back(FragmentOptions(static_cast<int>(f), next_scalars), std::move(fragment.outer));
    stops_[f] = fragment.stop;
    if (!fragment.residual.empty()) store_.RestoreResidual(static_cast<int>(f), std::move(fragment.residual));
    download.next_rounds.push_back(fragments_[f].version());
    Announce(static_cast<int>(f));
  }
  download_ = DownloadMachine(download);
  abstentions_ = std::move(state.abstentions);
  for (SyncState::Contribution& each : state.contributions) {
    const auto elements = static_cast<uint64_t>(layout_.fragments()[static_cast<size_t>(each.fragment)].count);
    Offer(each.round, each.fragment,
          store_.Restore(each.round, each.fragment, elements, std::move(each.encoded), each.weight));
  }
  copied_version_ = options_.evaluated_version;
  MaybeCopyConsensus(false);
  PublishStops();
  TellObserver();
  ReportStatus();
}

SyncState SyncCore::Save() const {
  DILOCO_CHECK(!fragments_.empty());
  SyncState state{.abstentions = abstentions_};
  for (size_t f = 0; f < fragments_.size(); ++f) {
    const absl::Span<const float> residual = store_.residual(static_cast<int>(f));
    state.fragments.push_back(
        {.outer = fragments_[f].Save(), .stop = stops_[f], .residual = {residual.begin(), residual.end()}});
    for (const int64_t round : store_.Rounds(static_cast<int>(f))) {
      const ContributionStore::Contribution& held = store_.Get(round, static_cast<int>(f));
      state.contributions.push_back({static_cast<int>(f), round, held.weight, held.encoded});
    }
  }
  return state;
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
  const ContributionStore::Contribution& contribution =
      store_.Add(event.round, event.fragment, event.outer_gradient, event.weight);
  OwnContribution own{.round = event.round, .digest = contribution.digest, .lambda = event.lambda};
  own.decoded.resize(event.outer_gradient.size());
  store_.options().codec->decode(contribution.encoded, absl::MakeSpan(own.decoded));
  fragments_[static_cast<size_t>(event.fragment)].Contribute(std::move(own));
  Offer(event.round, event.fragment, contribution);
  return absl::OkStatus();
}

void SyncCore::Offer(int64_t round, int fragment, const ContributionStore::Contribution& contribution) {
  Upload(ContributionOffered{round, fragment, contribution.encoded.size(),
                             static_cast<uint32_t>(store_.options().chunk_bytes)});
}

absl::Status SyncCore::On(const RoundAbstained& event) {
  if (fragments_[static_cast<size_t>(event.fragment)].received() <= event.round) {
    abstentions_.push_back({event.fragment, event.round, event.reason});
  }
  ReportStatus();
  if (options_.report_soon) {
    options_.report_soon();
  }
  return absl::OkStatus();
}

absl::Status SyncCore::On(const TrainingAdvanced& event) {
  stops_[static_cast<size_t>(event.fragment)] = event.round;
  unstaged_.insert(event.fragment);
  return ApplyAllowed();
}

absl::Status SyncCore::On(const TrainingStopped& event) {
  stopped_ = true;
  stops_.assign(stops_.size(), kNoRound);
  board_->Update([&event](WorkerStatus& status) { status.last_round = event.last_round; });
  if (options_.report_soon) {
    options_.report_soon();
  }
  return ApplyAllowed();
}

absl::Status SyncCore::On(const StateWanted& event) {
  event.take(Save());
  return absl::OkStatus();
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
    LogWarning("contribution_refused",
               {{"fragment", answered.fragment}, {"round", answered.round}, {"reason", response.reason()}});
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
    std::visit([this](const auto& e) { Carry(e); }, effect);
  }
}

void SyncCore::Carry(const OpenUpload& effect) { network_->OpenUpload(effect.stream, effect.call); }

void SyncCore::Carry(const CancelUpload& effect) { network_->CancelUpload(effect.stream, effect.call); }

void SyncCore::Carry(const SendQuery& effect) {
  network_->Send(effect.stream, store_.Query(effect.round, effect.fragment));
}

void SyncCore::Carry(const SendChunk& effect) {
  v1::UploadRequest request = store_.Chunk(effect.round, effect.fragment, effect.chunk);
  uploaded_bytes_ += request.payload().size();
  network_->Send(effect.stream, std::move(request));
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
    status.uploads = upload_.uploads();
    status.upload_seconds = absl::ToDoubleSeconds(upload_.upload_time());
    status.downloads = downloads_;
    status.download_seconds = absl::ToDoubleSeconds(download_time_);
    status.upload_queue = static_cast<int64_t>(upload_.contributions_pending());
    status.abstentions = abstentions_;
    status.held.clear();
    for (const FragmentSync& fragment : fragments_) status.held.push_back(fragment.received());
  });
}

}  // namespace diloco
