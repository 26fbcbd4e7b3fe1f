// What a test does with a FakeCoordinator and reads from it; the calls of the wire are in fake_coordinator.cc.
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "tests/worker/loop/fake_coordinator.h"

namespace diloco {

FakeCoordinator::FakeCoordinator(std::string yaml)
    : yaml_(std::move(yaml)),
      config_(ParseRunConfig(yaml_, "test").value()),
      uplink_(*FindCodec(config_.wire.uplink)),
      downlink_(*FindCodec(config_.wire.downlink)) {
  Start(false);
}

FakeCoordinator::~FakeCoordinator() { Stop(); }

std::string FakeCoordinator::address() const { return "127.0.0.1:" + std::to_string(port_); }

void FakeCoordinator::Start(bool lose_staged) {
  {
    MutexLock lock(&mutex_);
    stopping_ = false;
    if (lose_staged) {
      std::erase_if(staged_, [](const auto& item) { return !item.second.settled; });
      abstained_.clear();
    }
  }
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port_), grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(this);
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  server_ = builder.BuildAndStart();
  DILOCO_CHECK(server_ != nullptr && port_ != 0);
}

void FakeCoordinator::Stop() {
  if (server_ == nullptr) {
    return;
  }
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

void FakeCoordinator::SetFaults(const Faults& faults) {
  MutexLock lock(&mutex_);
  faults_ = faults;
}

void FakeCoordinator::Hold(bool hold) {
  MutexLock lock(&mutex_);
  hold_ = hold;
  MaybeCommit(false);
}

void FakeCoordinator::CommitNow() {
  MutexLock lock(&mutex_);
  MaybeCommit(true);
}

void FakeCoordinator::ForceResync() {
  MutexLock lock(&mutex_);
  ++resyncs_;
  changed_.NotifyAll();
}

int64_t FakeCoordinator::version() const {
  MutexLock lock(&mutex_);
  int64_t version = consensus_.empty() ? 0 : consensus_.front().version();
  for (const Consensus& consensus : consensus_) {
    version = std::min(version, consensus.version());
  }
  return version;
}

std::vector<Digest> FakeCoordinator::Digests() const {
  MutexLock lock(&mutex_);
  std::vector<Digest> digests;
  for (const Consensus& consensus : consensus_) {
    digests.push_back(consensus.ComputeDigest());
  }
  return digests;
}

std::vector<float> FakeCoordinator::ConsensusParameters() const {
  MutexLock lock(&mutex_);
  std::vector<float> all;
  for (const Consensus& consensus : consensus_) {
    all.insert(all.end(), consensus.parameters().begin(), consensus.parameters().end());
  }
  return all;
}

std::vector<v1::Evaluation> FakeCoordinator::evaluations() const {
  MutexLock lock(&mutex_);
  return evaluations_;
}

std::vector<v1::SessionRequest> FakeCoordinator::heartbeats() const {
  MutexLock lock(&mutex_);
  return heartbeats_;
}

int FakeCoordinator::stored(const std::string& worker, int64_t round) const {
  MutexLock lock(&mutex_);
  return static_cast<int>(std::count_if(staged_.begin(), staged_.end(), [&](const auto& item) {
    return std::get<0>(item.first) == worker && std::get<2>(item.first) == round && !item.second.encoded.empty();
  }));
}

double FakeCoordinator::weight(const std::string& worker, uint32_t fragment, int64_t round) const {
  MutexLock lock(&mutex_);
  const auto staged = staged_.find({worker, fragment, round});
  return staged == staged_.end() ? 0 : staged->second.weight;
}

int FakeCoordinator::repeated_chunks() const {
  MutexLock lock(&mutex_);
  return repeated_chunks_;
}

bool FakeCoordinator::Await(const std::function<bool(const FakeCoordinator&)>& condition) const {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition(*this)) {
    MutexLock lock(&mutex_);
    if (std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
    changed_.WaitUntil(&mutex_, std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace diloco
