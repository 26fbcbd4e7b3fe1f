#include "tests/worker/loop/fake_coordinator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <numeric>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/layout/layout_proto.h"
#include "common/outer/step_scalars_proto.h"
#include "common/schedule/outer_schedule.h"

namespace diloco {
namespace {

constexpr size_t kDownlinkChunk = 64;  // Small, so that tests of a few elements see several chunks.

auto Soon() { return std::chrono::steady_clock::now() + std::chrono::milliseconds(20); }

}  // namespace

grpc::Status FakeCoordinator::DescribeRun(grpc::ServerContext* context, const v1::DescribeRunRequest* request,
                                          v1::DescribeRunResponse* response) {
  {
    MutexLock lock(&mutex_);
    if (faults_.silent_describes > 0) {
      --faults_.silent_describes;
      while (!stopping_ && !context->IsCancelled()) changed_.WaitUntil(&mutex_, Soon());
      return grpc::Status::CANCELLED;
    }
  }
  if (!request->run_id().empty() && request->run_id() != config_.run.id) {
    return {grpc::StatusCode::NOT_FOUND, "no run \"" + request->run_id() + "\" here"};
  }
  response->set_run_id(config_.run.id);
  response->set_protocol_version(kProtocolVersion);
  response->set_config_yaml(yaml_);
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::Join(grpc::ServerContext*, const v1::JoinRequest* request, v1::JoinResponse* response) {
  MutexLock lock(&mutex_);
  if (faults_.id_in_use) {
    return {grpc::StatusCode::ALREADY_EXISTS, "worker \"" + request->worker_id() + "\" is alive; choose another id"};
  }
  if (!layout_) {
    layout_ = Layout::Cut(TensorSpecsFromProto(request->tensors()), config_.fragments.cut).value();
    published_.resize(static_cast<size_t>(layout_->fragment_count()));
  }
  if (std::find(members_.begin(), members_.end(), request->worker_id()) == members_.end()) {
    members_.push_back(request->worker_id());
  }
  response->set_run_id(config_.run.id);
  response->mutable_layout_digest()->set_value(layout_->digest().Bytes());
  response->mutable_heartbeat_interval()->set_nanos(20'000'000);
  response->mutable_lease()->set_seconds(5);
  *response->mutable_directive() = MakeDirective(request->worker_id());
  changed_.NotifyAll();
  return grpc::Status::OK;
}

v1::Directive FakeCoordinator::MakeDirective(const std::string& worker) const {
  v1::Directive directive;
  directive.set_state(consensus_.empty()                                        ? v1::RUN_STATE_SEEDING
                      : static_cast<int>(members_.size()) < config_.run.workers ? v1::RUN_STATE_WAITING_FOR_WORKERS
                      : Ended()                                                 ? v1::RUN_STATE_ENDED
                                                                                : v1::RUN_STATE_TRAINING);
  directive.set_seed(consensus_.empty() && worker == members_.front());
  directive.set_evaluate(worker == members_.front());
  directive.set_evaluated_version(evaluations_.empty() ? -1 : evaluations_.back().version());
  directive.set_leave(left_.count(worker) > 0);
  return directive;
}

grpc::Status FakeCoordinator::Session(grpc::ServerContext*,
                                      grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>* stream) {
  v1::SessionRequest request;
  while (stream->Read(&request)) {
    v1::SessionResponse response;
    {
      MutexLock lock(&mutex_);
      if (std::find(members_.begin(), members_.end(), request.worker_id()) == members_.end()) {
        return {grpc::StatusCode::ABORTED, "not a member; join again"};
      }
      heartbeats_.push_back(request);
      for (const v1::Evaluation& evaluation : request.evaluations()) {
        if (evaluations_.empty() || evaluation.version() > evaluations_.back().version()) {
          evaluations_.push_back(evaluation);
        }
      }
      for (const v1::Abstention& abstention : request.abstentions()) {
        abstained_.emplace(request.worker_id(), abstention.fragment(), abstention.round());
      }
      if (request.leaving() && request.evaluations().empty() && faults_.gone_when_left) {
        return {grpc::StatusCode::UNAVAILABLE, "shutting down"};
      }
      if (request.leaving() && !faults_.gone_when_left) {
        left_.insert(request.worker_id());
      }
      MaybeCommit(false);
      *response.mutable_directive() = MakeDirective(request.worker_id());
      response.set_run_id(config_.run.id);
      changed_.NotifyAll();
    }
    stream->Write(response);
  }
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::Upload(grpc::ServerContext*,
                                     grpc::ServerReaderWriter<v1::UploadResponse, v1::UploadRequest>* stream) {
  v1::UploadRequest request;
  while (stream->Read(&request)) {
    std::optional<v1::UploadResponse> response;
    {
      MutexLock lock(&mutex_);
      response = Take(request);
      MaybeCommit(false);
      changed_.NotifyAll();
    }
    if (response) {
      stream->Write(*response);
    }
  }
  return grpc::Status::OK;
}

std::optional<v1::UploadResponse> FakeCoordinator::Take(const v1::UploadRequest& request) {
  DILOCO_CHECK(request.run_id() == config_.run.id && request.codec() == uplink_.name &&
               Digest::FromBytes(request.layout_digest().value()) == layout_->digest());
  v1::UploadResponse response;
  response.set_run_id(request.run_id());
  response.set_fragment(request.fragment());
  response.set_round(request.round());
  const bool query = request.payload().empty() && request.crc32c() == 0;
  if (!query && faults_.too_early > 0) {
    --faults_.too_early;
    response.set_verdict(v1::CONTRIBUTION_VERDICT_TOO_EARLY);
    return response;
  }
  Staged& staged = staged_[{request.worker_id(), request.fragment(), request.round()}];
  staged.weight = request.weight();
  const bool damaged = !query && faults_.damaged_uploads > 0;
  if (damaged) {
    --faults_.damaged_uploads;
    if (faults_.damaged_are_silent) {
      return std::nullopt;
    }
  } else if (!query && staged.encoded.empty()) {
    DILOCO_CHECK(ComputeCrc32c(request.payload()).value == request.crc32c());
    repeated_chunks_ += staged.chunks.count(request.chunk_index()) > 0 ? 1 : 0;
    staged.chunks[request.chunk_index()] = request.payload();
  }
  const uint64_t chunks = (request.contribution_bytes() + request.chunk_bytes() - 1) / request.chunk_bytes();
  if (staged.encoded.empty() && staged.chunks.size() == chunks) {
    for (const auto& [index, payload] : staged.chunks) {
      staged.encoded += payload;
    }
    staged.digest = DigestOf(staged.encoded);
    DILOCO_CHECK(staged.digest == Digest::FromBytes(request.contribution_digest().value()));
  }
  if (!staged.encoded.empty()) {
    response.set_verdict(staged.settled ? v1::CONTRIBUTION_VERDICT_SETTLED : v1::CONTRIBUTION_VERDICT_STORED);
    return response;
  }
  for (const auto& [index, payload] : staged.chunks) {
    v1::ChunkRange* range = response.add_held();
    range->set_first(index);
    range->set_end(index + 1);
  }
  return response;
}

bool FakeCoordinator::Ready(uint32_t fragment) const {
  const int64_t round = consensus_[fragment].version();
  return static_cast<int>(members_.size()) >= config_.run.workers &&
         std::all_of(members_.begin(), members_.end(), [&](const std::string& worker) {
           const Key key(worker, fragment, round);
           const auto staged = staged_.find(key);
           return abstained_.count(key) > 0 || (staged != staged_.end() && !staged->second.encoded.empty());
         });
}

void FakeCoordinator::MaybeCommit(bool now) {
  for (uint32_t f = 0; f < consensus_.size(); ++f) {
    while (consensus_[f].version() < config_.run.rounds && (now || (!hold_ && Ready(f)))) {
      Commit(f);
      if (now) {
        break;
      }
    }
  }
  changed_.NotifyAll();
}

// Merges this round's contributions and whatever is older and not settled, as `late: merge` does.
void FakeCoordinator::Commit(uint32_t fragment) {
  Consensus& consensus = consensus_[fragment];
  const int64_t round = consensus.version();
  const size_t elements = consensus.parameters().size();
  std::vector<double> sum(elements);
  double total = 0;
  std::map<std::string, double> weights;  // Of the newest contribution of each member.
  for (const std::string& member : members_) weights[member] = 1;
  v1::SettledList list;
  list.set_run_id(config_.run.id);
  list.set_fragment(fragment);
  list.set_round(round);
  for (auto& [key, staged] : staged_) {
    if (std::get<1>(key) != fragment || std::get<2>(key) > round || staged.settled || staged.encoded.empty()) {
      continue;
    }
    staged.settled = true;
    std::vector<float> decoded(elements);
    uplink_.decode(staged.encoded, absl::MakeSpan(decoded));
    for (size_t i = 0; i < elements; ++i) {
      sum[i] += staged.weight * static_cast<double>(decoded[i]);
    }
    v1::SettledContribution* settled = list.add_settled();
    settled->mutable_id()->set_worker_id(std::get<0>(key));
    settled->mutable_id()->set_fragment(fragment);
    settled->mutable_id()->set_round(std::get<2>(key));
    settled->mutable_digest()->set_value(staged.digest.Bytes());
    settled->set_settlement(v1::SETTLEMENT_MERGED);
    settled->set_weight(staged.weight);
    total += staged.weight;
    weights[std::get<0>(key)] = staged.weight;
  }
  std::vector<float> average(elements);
  for (size_t i = 0; i < elements; ++i) {
    average[i] = static_cast<float>(total > 0 ? sum[i] / total : 0);
  }
  std::string payload(downlink_.encoded_bytes(elements), '\0');
  downlink_.encode(average, kNearest, absl::MakeSpan(payload.data(), payload.size()));
  downlink_.decode(payload, absl::MakeSpan(average));

  std::vector<v1::SubscribeResponse> items;
  const uint64_t chunk_bytes = ChunkBytesFor(downlink_, kDownlinkChunk);
  for (size_t offset = 0; offset < payload.size(); offset += chunk_bytes) {
    v1::GlobalDeltaChunk* chunk = items.emplace_back().mutable_chunk();
    chunk->set_run_id(config_.run.id);
    chunk->set_fragment(fragment);
    chunk->set_round(round);
    chunk->set_index(static_cast<uint32_t>(offset / chunk_bytes));
    chunk->set_payload(payload.substr(offset, chunk_bytes));
    chunk->set_crc32c(ComputeCrc32c(chunk->payload()).value);
  }
  v1::GlobalDeltaCommit commit;
  commit.set_run_id(config_.run.id);
  commit.set_fragment(fragment);
  commit.set_round(round);
  commit.set_codec(std::string(downlink_.name));
  commit.set_element_count(elements);
  commit.set_payload_bytes(payload.size());
  commit.set_chunk_bytes(static_cast<uint32_t>(chunk_bytes));
  commit.set_chunk_count(static_cast<uint32_t>(items.size()));
  commit.mutable_payload_digest()->set_value(DigestOf(payload).Bytes());
  const double square = std::inner_product(average.begin(), average.end(), average.begin(), 0.0);
  double participating = 0;
  for (const auto& [member, weight] : weights) participating += weight;
  scalars_ = ComputeStepScalars(config_, round, std::sqrt(square), participating);
  *commit.mutable_scalars() = StepScalarsToProto(scalars_);
  commit.set_merged_count(static_cast<uint32_t>(list.settled_size()));
  commit.set_consensus_version(round);
  Digest digest = consensus.ComputeDigest();
  digest.low += faults_.wrong_consensus_digest ? 1 : 0;
  commit.mutable_consensus_digest()->set_value(digest.Bytes());
  commit.mutable_settled_digest()->set_value(DigestOf(list.SerializeAsString()).Bytes());
  *items.emplace_back().mutable_settled() = list;
  *items.emplace_back().mutable_commit() = commit;
  published_[fragment].push_back(std::move(items));
  consensus.Apply(scalars_, average);
}

bool FakeCoordinator::Ended() const {
  return !consensus_.empty() && std::all_of(consensus_.begin(), consensus_.end(), [this](const Consensus& consensus) {
    return consensus.version() == config_.run.rounds;
  });
}

v1::EndRecord FakeCoordinator::MakeEnd() const {
  v1::EndRecord end;
  end.set_run_id(config_.run.id);
  end.set_rounds(config_.run.rounds);
  for (const Consensus& consensus : consensus_) {
    end.add_consensus_digests()->set_value(consensus.ComputeDigest().Bytes());
  }
  return end;
}

grpc::Status FakeCoordinator::Subscribe(grpc::ServerContext* context, const v1::SubscribeRequest* request,
                                        grpc::ServerWriter<v1::SubscribeResponse>* writer) {
  std::vector<int64_t> next(request->next_rounds().begin(), request->next_rounds().end());
  std::optional<int> resyncs;
  while (!context->IsCancelled()) {
    std::vector<v1::SubscribeResponse> items;
    bool last = false;
    {
      MutexLock lock(&mutex_);
      if (stopping_) {
        return {grpc::StatusCode::UNAVAILABLE, "shutting down"};
      }
      if (resyncs && *resyncs != resyncs_) {
        items.emplace_back().mutable_resync()->set_run_id(config_.run.id);
        last = true;
      }
      resyncs = resyncs_;
      for (size_t f = 0; f < next.size() && !last; ++f) {
        for (; next[f] < static_cast<int64_t>(published_[f].size()); ++next[f]) {
          const auto& round = published_[f][static_cast<size_t>(next[f])];
          items.insert(items.end(), round.begin(), round.end());
        }
      }
      if (items.empty() && Ended()) {
        *items.emplace_back().mutable_end() = MakeEnd();
        last = true;
      }
      if (!items.empty() && items.front().has_chunk() && faults_.damaged_downloads > 0) {
        --faults_.damaged_downloads;
        items.front().mutable_chunk()->set_crc32c(~items.front().chunk().crc32c());
      }
      if (items.empty()) {
        changed_.WaitUntil(&mutex_, Soon());
      }
    }
    for (const v1::SubscribeResponse& item : items) {
      if (!writer->Write(item)) {
        return grpc::Status::CANCELLED;
      }
    }
    if (last) {
      return grpc::Status::OK;
    }
  }
  return grpc::Status::CANCELLED;
}

grpc::Status FakeCoordinator::FetchSnapshot(grpc::ServerContext*, const v1::FetchSnapshotRequest* request,
                                            grpc::ServerWriter<v1::FetchSnapshotResponse>* writer) {
  std::string bytes;
  v1::FetchSnapshotResponse item;
  {
    MutexLock lock(&mutex_);
    if (consensus_.empty()) {
      return {grpc::StatusCode::FAILED_PRECONDITION, "not seeded yet"};
    }
    v1::SnapshotHeader* header = item.mutable_header();
    header->set_run_id(config_.run.id);
    header->set_version(consensus_.front().version());
    header->mutable_layout_digest()->set_value(layout_->digest().Bytes());
    for (uint32_t f = 0; f < consensus_.size(); ++f) {
      const Consensus& consensus = consensus_[f];
      DILOCO_CHECK(consensus.version() == consensus_.front().version());
      const auto add = [&bytes](absl::Span<const float> values) {
        bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      };
      add(consensus.parameters());
      for (const std::vector<float>& array : consensus.state()) {
        add(array);
      }
      header->add_consensus_digests()->set_value(consensus.ComputeDigest().Bytes());
      int64_t settled = -1;
      for (const auto& [key, staged] : staged_) {
        if (std::get<0>(key) == request->worker_id() && std::get<1>(key) == f && staged.settled) {
          settled = std::max(settled, std::get<2>(key));
        }
      }
      header->add_settled_rounds(settled);
    }
    if (header->version() > 0) {
      *header->mutable_scalars() = StepScalarsToProto(scalars_);
    }
    header->set_total_bytes(bytes.size());
  }
  writer->Write(item);
  for (size_t offset = 0; offset < bytes.size(); offset += kDownlinkChunk) {
    v1::SnapshotChunk* chunk = item.mutable_chunk();
    chunk->set_run_id(config_.run.id);
    chunk->set_offset(offset);
    chunk->set_payload(bytes.substr(offset, kDownlinkChunk));
    chunk->set_crc32c(ComputeCrc32c(chunk->payload()).value);
    writer->Write(item);
  }
  return grpc::Status::OK;
}

grpc::Status FakeCoordinator::Seed(grpc::ServerContext*, grpc::ServerReader<v1::SeedRequest>* reader,
                                   v1::SeedResponse* response) {
  std::string bytes;
  v1::SeedRequest piece;
  while (reader->Read(&piece)) {
    DILOCO_CHECK(piece.offset() == bytes.size() && ComputeCrc32c(piece.payload()).value == piece.crc32c());
    bytes += piece.payload();
  }
  MutexLock lock(&mutex_);
  DILOCO_CHECK(bytes.size() == static_cast<size_t>(layout_->element_count()) * sizeof(float) &&
               piece.total_bytes() == bytes.size());
  for (int f = 0; f < layout_->fragment_count(); ++f) {
    const FragmentRange& range = layout_->fragments()[static_cast<size_t>(f)];
    std::vector<float> parameters(static_cast<size_t>(range.count));
    std::memcpy(parameters.data(), bytes.data() + static_cast<size_t>(range.offset) * sizeof(float),
                parameters.size() * sizeof(float));
    consensus_.emplace_back(FindOuterOptimizer(config_.outer.optimizer), std::move(parameters),
                            layout_->DecayedRanges(f));
    response->add_consensus_digests()->set_value(consensus_.back().ComputeDigest().Bytes());
  }
  response->set_run_id(config_.run.id);
  changed_.NotifyAll();
  return grpc::Status::OK;
}

}  // namespace diloco
