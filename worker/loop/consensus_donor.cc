#include "worker/loop/consensus_donor.h"

#include <utility>

#include "common/log/log.h"
#include "worker/loop/seed.h"

namespace diloco {

ConsensusDonor::ConsensusDonor(v1::SeedRequest identity, std::shared_ptr<grpc::Channel> channel,
                               const Backoff::Options& backoff, const Clock* clock)
    : identity_(std::move(identity)),
      stub_(v1::WorkerService::NewStub(std::move(channel))),
      clock_(clock),
      backoff_(backoff),
      thread_([this] { Run(); }) {}

ConsensusDonor::~ConsensusDonor() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    if (call_ != nullptr) call_->TryCancel();
    changed_.NotifyAll();
  }
  thread_.join();
}

void ConsensusDonor::SetSource(std::function<void()> ask) {
  MutexLock lock(&mutex_);
  ask_ = std::move(ask);
}

void ConsensusDonor::Want() {
  MutexLock lock(&mutex_);
  if (busy_ || !ask_ || clock_->Now() < retry_at_) return;
  busy_ = true;
  ask_();
}

void ConsensusDonor::Give(FullConsensus consensus) {
  MutexLock lock(&mutex_);
  given_ = std::move(consensus);
  changed_.NotifyAll();
}

void ConsensusDonor::Run() {
  MutexLock lock(&mutex_);
  while (true) {
    while (!given_ && !ending_) changed_.Wait(&mutex_);
    if (ending_) return;
    const FullConsensus consensus = *std::exchange(given_, std::nullopt);
    grpc::ClientContext context;
    call_ = &context;
    mutex_.Unlock();
    const absl::Status status = SendConsensus(stub_.get(), &context, identity_, consensus);
    mutex_.Lock();
    call_ = nullptr;
    busy_ = status.ok();
    retry_at_ = clock_->Now() + backoff_.Next();
    if (status.ok()) {
      LogInfo("consensus_given", {{"version", consensus.version}});
    } else {
      LogWarning("consensus_not_taken", {{"version", consensus.version}, {"reason", status.ToString()}});
    }
  }
}

}  // namespace diloco
