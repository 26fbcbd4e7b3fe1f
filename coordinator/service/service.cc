#include "coordinator/service/service.h"

#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/base/status_macros.h"
#include "common/rpc/server.h"
#include "coordinator/driver/thread_pool.h"
#include "coordinator/service/admin_service.h"
#include "coordinator/service/service_world.h"
#include "coordinator/service/worker_service.h"

namespace diloco {
namespace {

constexpr absl::Duration kLastCallsDeadline = absl::Milliseconds(500);

}  // namespace

class Service::Impl {
 public:
  Impl(ServiceOptions options, Driver* driver, CoordinatorMetrics* metrics, FileSystem* files)
      : options_(std::move(options)),
        readers_(kSnapshotReaders),
        gate_({.run_id = options_.run_id, .tls = options_.tls.given(), .limits = options_.limits}, metrics),
        world_{.run_id = options_.run_id,
               .progress_deadline = options_.progress_deadline,
               .probe_time = options_.probe_time,
               .tracer = options_.tracer,
               .driver = driver,
               .events = options_.events,
               .metrics = metrics,
               .files = files,
               .readers = &readers_,
               .watchdog = &watchdog_,
               .streams = &streams_,
               .gate = &gate_,
               .seed_open = &seed_open_,
               .probe_open = &probe_open_},
        worker_service_(&world_),
        admin_service_(&world_) {}

  ~Impl() {
    Stop(kDrainDeadline);
    OnHandshakeFailure(nullptr);
  }

  absl::Status Listen(std::string_view what) {
    OnHandshakeFailure([this](std::string_view text) { gate_.HandshakeFailed(text); });
    DILOCO_ASSIGN_OR_RETURN(
        server_,
        StartRpcServer(what, {.address = options_.address, .tls = options_.tls, .reflection = options_.reflection},
                       {{v1::WorkerService::service_full_name(), &worker_service_},
                        {v1::AdminService::service_full_name(), &admin_service_}}));
    return absl::OkStatus();
  }

  void Stop(absl::Duration drain_deadline) {
    if (server_.server == nullptr) return;
    server_.server->GetHealthCheckService()->SetServingStatus(false);
    streams_.Drain();
    streams_.WaitUntilEmpty(SteadyClock().Now() + drain_deadline);
    // What is open now is unary and short. The server would also wait for connections whose peer is idle and does not
    // look at them.
    StopRpcServer(server_.server.get(), std::min(drain_deadline, kLastCallsDeadline));
    server_.server.reset();
  }

  const HostPort& address() const { return server_.address; }

 private:
  const ServiceOptions options_;
  ThreadPool readers_;
  Watchdog watchdog_;
  StreamSet streams_;
  Gatekeeper gate_;
  std::atomic<bool> seed_open_ = false;
  std::atomic<bool> probe_open_ = false;
  const ServiceWorld world_;
  WorkerServiceImpl worker_service_;
  AdminServiceImpl admin_service_;
  RpcServer server_;
};

absl::StatusOr<std::unique_ptr<Service>> Service::Start(std::string_view what, ServiceOptions options, Driver* driver,
                                                        CoordinatorMetrics* metrics, FileSystem* files) {
  auto impl = std::make_unique<Impl>(std::move(options), driver, metrics, files);
  DILOCO_RETURN_IF_ERROR(impl->Listen(what));
  return std::unique_ptr<Service>(new Service(std::move(impl)));
}

Service::Service(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Service::~Service() = default;

const HostPort& Service::address() const { return impl_->address(); }

void Service::Stop(absl::Duration drain_deadline) { impl_->Stop(drain_deadline); }

}  // namespace diloco
