#include "tests/coordinator/driver/sim_worker.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/base/limits.h"
#include "common/config/run_settings_proto.h"
#include "common/layout/layout_proto.h"
#include "common/outer/step_scalars_proto.h"

namespace diloco {
namespace {

// Chunks so small that contributions of a few bytes take several.
constexpr uint32_t kChunkBytes = 8;

template <typename T>
T Value(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  DILOCO_CHECK(value.ok());
  return *std::move(value);
}

std::vector<float> ReadFloats(const std::string& path, uint64_t offset, uint64_t bytes) {
  std::vector<float> values(bytes / sizeof(float));
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(bytes));
  EXPECT_EQ(file.gcount(), static_cast<std::streamsize>(bytes));
  return values;
}

}  // namespace

void SimWorker::Inbox::Add(std::function<void()> event) {
  MutexLock lock(&mutex);
  events.push_back(std::move(event));
  arrived.NotifyAll();
}

SimWorker::SimWorker(const RunConfig& config, std::string id, uint64_t incarnation, std::vector<TensorSpec> tensors)
    : config_(config),
      id_(std::move(id)),
      incarnation_(incarnation),
      tensors_(tensors),
      layout_(Value(Layout::Cut(std::move(tensors), config.fragments.cut))),
      uplink_(FindCodec(config.wire.uplink)),
      downlink_(FindCodec(config.wire.downlink)),
      digests_(static_cast<size_t>(layout_.fragment_count())),
      rounds_(config.run.rounds) {}

template <typename Response>
Reply<Response> SimWorker::Later(std::function<void(absl::StatusOr<Response>)> handle) {
  return [inbox = inbox_, this, connection = connection_, handle](absl::StatusOr<Response> response) {
    inbox->Add([this, connection, handle, response = std::move(response)] {
      // A coordinator that is not there now is asked again by the next connection.
      if (connection == connection_ && !absl::IsUnavailable(response.status())) {
        handle(response);
      }
    });
  };
}

void SimWorker::Connect(Driver* driver) {
  ++connection_;
  driver_ = driver;
  joining_ = joined_ = seeding_ = fetching_ = leaving_sent_ = false;
  session_.reset();
  queue_.reset();
  partial_.clear();
  settled_.clear();
  directive_.Clear();
  for (auto& [key, contribution] : unsettled_) {
    contribution.sent = false;
  }
}

void SimWorker::Disconnect() {
  ++connection_;
  driver_ = nullptr;
}

void SimWorker::Wait() {
  MutexLock lock(&inbox_->mutex);
  if (inbox_->events.empty()) {
    inbox_->arrived.WaitUntil(&inbox_->mutex, std::chrono::steady_clock::now() + std::chrono::seconds(1));
  }
}

bool SimWorker::Act() {
  std::vector<std::function<void()>> events;
  {
    MutexLock lock(&inbox_->mutex);
    events.swap(inbox_->events);
  }
  for (const auto& event : events) {
    event();
  }
  if (driver_ == nullptr || done_) {
    return !events.empty();
  }
  if (!joined_) {
    if (joining_) {
      return !events.empty();
    }
    Join();
    return true;
  }
  if (!session_) {
    OpenSession();
    return true;
  }
  if (directive_.seed() && !seeding_) {
    Seed();
    return true;
  }
  const bool trains = directive_.state() == v1::RUN_STATE_TRAINING || directive_.state() == v1::RUN_STATE_ENDED ||
                      (directive_.state() == v1::RUN_STATE_PAUSED && !consensus_.empty());
  if (!trains) {
    return !events.empty();
  }
  if (consensus_.empty()) {
    if (!fetching_) {
      FetchSnapshot();
      return true;
    }
    return !events.empty();
  }
  if (queue_ == nullptr) {
    Subscribe();
    return true;
  }
  Receive();
  Contribute();
  if (end_ && !leaving_sent_) {
    leaving_sent_ = true;
    Heartbeat(/*leaving=*/true);
    return true;
  }
  return !events.empty();
}

void SimWorker::Join() {
  joining_ = true;
  v1::JoinRequest request;
  request.set_run_id(config_.run.id);
  request.set_worker_id(id_);
  request.set_incarnation(incarnation_);
  request.set_protocol_version(kProtocolVersion);
  *request.mutable_tensors() = TensorSpecsToProto(tensors_);
  driver_->Join(request, Later<v1::JoinResponse>([this](absl::StatusOr<v1::JoinResponse> response) {
                  ASSERT_TRUE(response.ok()) << response.status();
                  EXPECT_EQ(response->layout_digest().value(), layout_.digest().Bytes());
                  joined_ = true;
                  directive_ = response->directive();
                  next_contribution_ = std::max(next_contribution_, response->first_round());
                }));
}

void SimWorker::OpenSession() {
  Driver::SessionSink sink;
  sink.send = [inbox = inbox_, this, connection = connection_](v1::SessionResponse response) {
    inbox->Add([this, connection, response] {
      if (connection == connection_) {
        directive_ = response.directive();
        done_ |= directive_.leave();
      }
    });
  };
  sink.close = [](absl::Status) {};
  session_ = driver_->OpenSession(std::move(sink));
  Heartbeat(/*leaving=*/false);
}

void SimWorker::Heartbeat(bool leaving) {
  v1::SessionRequest request;
  request.set_run_id(config_.run.id);
  request.set_worker_id(id_);
  request.set_incarnation(incarnation_);
  request.mutable_progress()->set_version(consensus_.empty() ? 0 : version());
  if (leaving && directive_.evaluate() && directive_.evaluated_version() < version()) {
    v1::Evaluation* evaluation = request.add_evaluations();
    evaluation->set_version(version());
    evaluation->set_loss(2.5);
    evaluation->set_tokens(100);
  }
  request.set_leaving(leaving);
  driver_->SessionMessage(*session_, request);
}

std::vector<float> SimWorker::InitialParameters(int64_t elements) {
  std::vector<float> parameters(static_cast<size_t>(elements));
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i] = 0.25F * static_cast<float>(static_cast<int>(i % 7) - 3);
  }
  return parameters;
}

void SimWorker::Seed() {
  seeding_ = true;
  const std::vector<float> parameters = InitialParameters(layout_.element_count());
  std::string bytes(parameters.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), parameters.data(), bytes.size());
  v1::SeedRequest request;
  request.set_run_id(config_.run.id);
  request.set_worker_id(id_);
  request.set_incarnation(incarnation_);
  request.mutable_layout_digest()->set_value(layout_.digest().Bytes());
  request.set_total_bytes(bytes.size());
  driver_->Seed(request, std::move(bytes), Later<v1::SeedResponse>([](absl::StatusOr<v1::SeedResponse> response) {
                  ASSERT_TRUE(response.ok()) << response.status();
                }));
}

void SimWorker::FetchSnapshot() {
  fetching_ = true;
  v1::FetchSnapshotRequest request;
  request.set_run_id(config_.run.id);
  request.set_worker_id(id_);
  request.set_incarnation(incarnation_);
  driver_->OpenSnapshot(request, Later<Driver::SnapshotSource>([this](absl::StatusOr<Driver::SnapshotSource> source) {
                          ASSERT_TRUE(source.ok()) << source.status();
                          const std::vector<float> raw =
                              ReadFloats(source->path, source->consensus_offset, source->header.total_bytes());
                          const OuterOptimizer* optimizer = FindOuterOptimizer(config_.outer.optimizer);
                          size_t offset = 0;
                          const auto take = [&](size_t count) {
                            const auto first = raw.begin() + static_cast<std::ptrdiff_t>(offset);
                            offset += count;
                            return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(count));
                          };
                          for (const FragmentRange& range : layout_.fragments()) {
                            const auto count = static_cast<size_t>(range.count);
                            std::vector<float> parameters = take(count);
                            std::vector<std::vector<float>> state;
                            for (int i = 0; i < optimizer->state_arrays; ++i) {
                              state.push_back(take(count));
                            }
                            const auto fragment = static_cast<int>(consensus_.size());
                            consensus_.emplace_back(optimizer, source->header.version(), std::move(parameters),
                                                    std::move(state), layout_.DecayedRanges(fragment));
                            const Digest digest = consensus_.back().ComputeDigest();
                            EXPECT_EQ(source->header.consensus_digests(fragment).value(), digest.Bytes());
                            digests_[static_cast<size_t>(fragment)][source->header.version()] = digest;
                          }
                          EXPECT_EQ(offset, raw.size());
                        }));
}

void SimWorker::Subscribe() {
  queue_ = std::make_shared<DeltaQueue>(kMaxSubscriberQueueBytes, "resync", [inbox = inbox_] { inbox->Add([] {}); });
  v1::SubscribeRequest request;
  request.set_run_id(config_.run.id);
  request.set_worker_id(id_);
  request.set_incarnation(incarnation_);
  for (const Consensus& fragment : consensus_) {
    request.add_next_rounds(fragment.version());
  }
  driver_->Subscribe(request, queue_, Later<std::monostate>([](absl::StatusOr<std::monostate> response) {
                       ASSERT_TRUE(response.ok()) << response.status();
                     }));
}

int64_t SimWorker::version() const {
  int64_t version = consensus_.empty() ? 0 : consensus_.front().version();
  for (const Consensus& fragment : consensus_) {
    version = std::min(version, fragment.version());
  }
  return version;
}

// A pull to zero and a bounded disturbance of the worker's own.
std::vector<float> SimWorker::OuterGradient(int fragment, int64_t round) const {
  const Consensus& consensus = consensus_[static_cast<size_t>(fragment)];
  std::vector<float> gradient(consensus.parameters().begin(), consensus.parameters().end());
  for (size_t i = 0; i < gradient.size(); ++i) {
    const auto noise = (static_cast<int64_t>(i) * 31 + round * 17 + static_cast<int64_t>(id_.back()) * 7) % 11 - 5;
    gradient[i] = 0.25F * gradient[i] + 0.0625F * static_cast<float>(noise);
  }
  return gradient;
}

void SimWorker::Contribute() {
  for (const auto& [key, contribution] : unsettled_) {
    if (!contribution.sent) {
      Send(key.first, key.second);
    }
  }
  if (end_ || version() >= rounds_ || next_contribution_ > version()) {
    return;
  }
  const int64_t round = version();
  next_contribution_ = round + 1;
  for (int fragment = 0; fragment < layout_.fragment_count(); ++fragment) {
    const std::vector<float> gradient = OuterGradient(fragment, round);
    Contribution contribution;
    contribution.encoded.resize(uplink_->encoded_bytes(gradient.size()));
    uplink_->encode(gradient, kNearest, absl::MakeSpan(contribution.encoded));
    contribution.digest = DigestOf(contribution.encoded);
    unsettled_[{fragment, round}] = std::move(contribution);
    Send(fragment, round);
  }
  Heartbeat(/*leaving=*/false);
}

void SimWorker::Send(int fragment, int64_t round) {
  Contribution& contribution = unsettled_.at({fragment, round});
  contribution.sent = true;
  v1::UploadRequest request;
  request.set_run_id(config_.run.id);
  request.set_worker_id(id_);
  request.set_incarnation(incarnation_);
  request.set_fragment(static_cast<uint32_t>(fragment));
  request.set_round(round);
  request.mutable_layout_digest()->set_value(layout_.digest().Bytes());
  request.set_codec(std::string(uplink_->name));
  request.set_element_count(static_cast<uint64_t>(layout_.fragments()[static_cast<size_t>(fragment)].count));
  request.set_contribution_bytes(contribution.encoded.size());
  request.set_chunk_bytes(kChunkBytes);
  request.mutable_contribution_digest()->set_value(contribution.digest.Bytes());
  request.set_weight(weight_);
  for (uint32_t index = 0; index * kChunkBytes < contribution.encoded.size(); ++index) {
    request.set_chunk_index(index);
    request.set_payload(contribution.encoded.substr(index * kChunkBytes, kChunkBytes));
    request.set_crc32c(ComputeCrc32c(request.payload()).value);
    driver_->Upload(request, Later<v1::UploadResponse>([](absl::StatusOr<v1::UploadResponse> response) {
                      ASSERT_TRUE(response.ok()) << response.status();
                      EXPECT_NE(response->verdict(), v1::CONTRIBUTION_VERDICT_REFUSED) << response->reason();
                    }));
  }
}

void SimWorker::Receive() {
  bool ended = false;
  while (const std::shared_ptr<const std::string> message = queue_->Pop(&ended)) {
    OnMessage(*message);
  }
}

void SimWorker::OnMessage(const std::string& bytes) {
  v1::SubscribeResponse message;
  ASSERT_TRUE(message.ParseFromString(bytes));
  if (message.has_chunk()) {
    const v1::GlobalDeltaChunk& chunk = message.chunk();
    EXPECT_EQ(ComputeCrc32c(chunk.payload()).value, chunk.crc32c());
    partial_[static_cast<int>(chunk.fragment())] += chunk.payload();
  } else if (message.has_settled()) {
    settled_[static_cast<int>(message.settled().fragment())] = message.settled();
  } else if (message.has_commit()) {
    OnCommit(message.commit());
  } else if (message.has_run_settings()) {
    const absl::StatusOr<RunSettings> settings = RunSettingsFromProto(config_, message.run_settings().changes());
    ASSERT_TRUE(settings.ok()) << settings.status();
    rounds_ = settings->newest().run.rounds;
  } else if (message.has_end()) {
    end_ = message.end();
    EXPECT_EQ(end_->rounds(), version());
    for (size_t fragment = 0; fragment < consensus_.size(); ++fragment) {
      EXPECT_EQ(end_->consensus_digests(static_cast<int>(fragment)).value(),
                consensus_[fragment].ComputeDigest().Bytes());
    }
  } else {
    ADD_FAILURE() << "unexpected message " << message.ShortDebugString();
  }
}

void SimWorker::OnCommit(const v1::GlobalDeltaCommit& commit) {
  const auto fragment = static_cast<int>(commit.fragment());
  Consensus& consensus = consensus_[commit.fragment()];
  ASSERT_EQ(commit.round(), consensus.version());
  const std::string encoded = std::exchange(partial_[fragment], "");
  ASSERT_EQ(encoded.size(), commit.payload_bytes());
  EXPECT_EQ(DigestOf(encoded).Bytes(), commit.payload_digest().value());
  const v1::SettledList& settled = settled_[fragment];
  EXPECT_EQ(DigestOf(settled.SerializeAsString()).Bytes(), commit.settled_digest().value());
  EXPECT_EQ(settled.round(), commit.round());
  EXPECT_LE(commit.consensus_version(), commit.round());
  const auto known = digests_[commit.fragment()].find(commit.consensus_version());
  if (known != digests_[commit.fragment()].end()) {
    EXPECT_EQ(known->second.Bytes(), commit.consensus_digest().value());
  }
  for (const v1::SettledContribution& line : settled.settled()) {
    if (line.id().worker_id() != id_) {
      continue;
    }
    const std::pair<int, int64_t> key{fragment, line.id().round()};
    unsettled_.erase(key);
    if (line.settlement() == v1::SETTLEMENT_MERGED) {
      ++merged_[key];
    }
  }
  std::vector<float> average(consensus.parameters().size());
  downlink_->decode(encoded, absl::MakeSpan(average));
  consensus.Apply(StepScalarsFromProto(commit.scalars()), average);
  digests_[commit.fragment()][consensus.version()] = consensus.ComputeDigest();
  commits_.push_back(commit);
}

}  // namespace diloco
