#include "coordinator/driver/driver.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "coordinator/driver/driver_impl.h"

namespace diloco {
namespace {

// Offers `handle(request, reply)` as a task; a request that is turned away is answered at once, and one whose turn
// comes when the driver has halted answers itself.
template <typename Impl, typename Request, typename Response, typename Handle>
void Offer(Impl* impl, Request request, Reply<Response> reply, Handle handle) {
  PendingReply<Response> pending(std::move(reply));
  auto held = std::make_shared<Request>(std::move(request));
  const absl::Status status = impl->mailbox().Offer([impl, held, pending, handle] {
    if (!impl->halted()) {
      handle(*held, pending);
    }
  });
  if (!status.ok()) {
    pending(status);
  }
}

}  // namespace

Driver::Driver(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Driver::~Driver() = default;

absl::StatusOr<std::unique_ptr<Driver>> Driver::Create(DriverOptions options, DriverWorld world,
                                                       RecoveredState recovered) {
  DILOCO_CHECK(world.clock != nullptr && world.files != nullptr && world.store != nullptr);
  DILOCO_CHECK(world.disk != nullptr && world.pool != nullptr && world.observer != nullptr);
  auto impl = std::make_unique<Impl>(std::move(options), world);
  DILOCO_RETURN_IF_ERROR(impl->Recover(std::move(recovered)));
  return std::unique_ptr<Driver>(new Driver(std::move(impl)));
}

void Driver::Run() { impl_->Run(); }
void Driver::Shutdown() { impl_->Shutdown(); }
void Driver::RunUntilIdle(std::optional<MonotonicTime> due) { impl_->RunUntilIdle(due); }
MonotonicTime Driver::NextWakeUp() const { return impl_->NextWakeUp(); }

void Driver::DescribeRun(v1::DescribeRunRequest request, Reply<v1::DescribeRunResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->DescribeRun(r, pending); });
}

void Driver::Join(v1::JoinRequest request, Reply<v1::JoinResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->Join(r, pending); });
}

Driver::SessionToken Driver::OpenSession(SessionSink sink) {
  const SessionToken token = impl_->NextToken();
  const absl::Status status =
      impl_->mailbox().Offer([impl = impl_.get(), token, sink] { impl->OpenSession(token, sink); });
  if (!status.ok()) {
    sink.close(status);
  }
  return token;
}

void Driver::SessionMessage(SessionToken token, v1::SessionRequest request) {
  auto held = std::make_shared<v1::SessionRequest>(std::move(request));
  // Refused only when there is no room; the worker's next heartbeat says the same again.
  static_cast<void>(
      impl_->mailbox().Offer([impl = impl_.get(), token, held] { impl->SessionMessage(token, *held); }).ok());
}

void Driver::CloseSession(SessionToken token) {
  impl_->mailbox().Post([impl = impl_.get(), token] { impl->CloseSession(token); });
}

void Driver::Upload(v1::UploadRequest request, Reply<v1::UploadResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->Upload(r, pending); });
}

void Driver::Subscribe(v1::SubscribeRequest request, std::shared_ptr<DeltaQueue> queue, Reply<std::monostate> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get(), queue](const auto& r, const auto& pending) { impl->Subscribe(r, queue, pending); });
}

void Driver::Unsubscribe(std::shared_ptr<DeltaQueue> queue) {
  impl_->mailbox().Post([impl = impl_.get(), queue] { impl->Unsubscribe(queue); });
}

void Driver::OpenSnapshot(v1::FetchSnapshotRequest request, Reply<SnapshotSource> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->OpenSnapshot(r, pending); });
}

void Driver::Seed(v1::SeedRequest first, std::string parameters, Reply<v1::SeedResponse> reply) {
  auto held = std::make_shared<std::string>(std::move(parameters));
  Offer(impl_.get(), std::move(first), std::move(reply),
        [impl = impl_.get(), held](const auto& r, const auto& pending) { impl->Seed(r, std::move(*held), pending); });
}

void Driver::GetStatus(v1::GetStatusRequest request, Reply<v1::GetStatusResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->GetStatus(r, pending); });
}

void Driver::ListRounds(v1::ListRoundsRequest request, Reply<v1::ListRoundsResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->ListRounds(r, pending); });
}

void Driver::DescribeRound(v1::DescribeRoundRequest request, Reply<v1::DescribeRoundResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->DescribeRound(r, pending); });
}

void Driver::ListWorkers(v1::ListWorkersRequest request, Reply<v1::ListWorkersResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->ListWorkers(r, pending); });
}

void Driver::RecoverConsensus(v1::RecoverConsensusRequest request, Reply<v1::RecoverConsensusResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->RecoverConsensus(r, pending); });
}

void Driver::DescribeWorker(v1::DescribeWorkerRequest request, Reply<v1::DescribeWorkerResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->DescribeWorker(r, pending); });
}

void Driver::SaveCheckpoint(v1::SaveCheckpointRequest request, Reply<v1::SaveCheckpointResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->SaveCheckpoint(r, pending); });
}

void Driver::ListCheckpoints(v1::ListCheckpointsRequest request, Reply<v1::ListCheckpointsResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->ListCheckpoints(r, pending); });
}

void Driver::DrainWorker(v1::DrainWorkerRequest request, Reply<v1::DrainWorkerResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->DrainWorker(r, pending); });
}

void Driver::EvictWorker(v1::EvictWorkerRequest request, Reply<v1::EvictWorkerResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->EvictWorker(r, pending); });
}

void Driver::AdmitWorker(v1::AdmitWorkerRequest request, Reply<v1::AdmitWorkerResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->AdmitWorker(r, pending); });
}

void Driver::PauseRun(v1::PauseRunRequest request, Reply<v1::PauseRunResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->PauseRun(r, pending); });
}

void Driver::ResumeRun(v1::ResumeRunRequest request, Reply<v1::ResumeRunResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->ResumeRun(r, pending); });
}

void Driver::StopRun(v1::StopRunRequest request, Reply<v1::StopRunResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->StopRun(r, pending); });
}

void Driver::ExtendRun(v1::ExtendRunRequest request, Reply<v1::ExtendRunResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->ExtendRun(r, pending); });
}

void Driver::SetConfig(v1::SetConfigRequest request, Reply<v1::SetConfigResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->SetConfig(r, pending); });
}

void Driver::GetConfig(v1::GetConfigRequest request, Reply<v1::GetConfigResponse> reply) {
  Offer(impl_.get(), std::move(request), std::move(reply),
        [impl = impl_.get()](const auto& r, const auto& pending) { impl->GetConfig(r, pending); });
}

}  // namespace diloco
