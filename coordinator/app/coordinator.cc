#include "coordinator/app/coordinator.h"

#include <prometheus/registry.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/config/config_file.h"
#include "common/config/run_config.h"
#include "common/http/http_server.h"
#include "common/log/log.h"
#include "common/metrics/process_metrics.h"
#include "common/net/listen_address.h"
#include "common/trace/trace.h"
#include "coordinator/app/files.h"
#include "coordinator/app/run_observer.h"
#include "coordinator/driver/driver.h"
#include "coordinator/driver/event_log.h"
#include "coordinator/driver/thread_pool.h"
#include "coordinator/page/run_history.h"
#include "coordinator/page/status_page.h"
#include "coordinator/service/service.h"
#include "coordinator/store/store.h"

namespace diloco {
namespace {

// Why the coordinator stops, or starts again; waited for by one thread. Thread-safe.
class StopLatch {
 public:
  enum class Ending { kStop, kStartAgain };

  void Stop(const absl::Status& fatal) {
    MutexLock lock(&mutex_);
    if (!stopping_ || fatal_.ok()) fatal_ = fatal;
    stopping_ = true;
    changed_.NotifyAll();
  }
  void StartAgain() {
    MutexLock lock(&mutex_);
    starting_again_ = true;
    changed_.NotifyAll();
  }
  // A stop is for good, and comes before a new start. Errors: the fatal one.
  absl::StatusOr<Ending> Wait() {
    MutexLock lock(&mutex_);
    while (!stopping_ && !starting_again_) changed_.Wait(&mutex_);
    const bool again = std::exchange(starting_again_, false);
    if (again && !stopping_) return Ending::kStartAgain;
    DILOCO_RETURN_IF_ERROR(fatal_);
    return Ending::kStop;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool starting_again_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status fatal_ ABSL_GUARDED_BY(mutex_);
};

uint64_t DrawLogId() {
  std::random_device device;
  return ((uint64_t{device()} << 32) | device()) | 1;  // Not 0.
}

std::string Holder() {
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  return absl::StrFormat("%s pid %d on %s", kCoordinatorProgram, getpid(), host);
}

}  // namespace

class Coordinator::Impl {
 public:
  // `tracer` may be null.
  Impl(const CoordinatorOptions& options, std::unique_ptr<Tracer> tracer)
      : options_(options),
        tracer_(std::move(tracer)),
        metrics_(registry_, kCoordinatorLabels),
        process_(registry_),
        events_(DrawLogId(), &clock_),
        observer_(&metrics_, &history_, &events_, tracer_.get(),
                  {.fatal = [this](const absl::Status& status) { latch_.Stop(status); },
                   .finished =
                       [this] {
                         if (options_.exit_when_finished) latch_.Stop(absl::OkStatus());
                       },
                   .start_again = [this] { latch_.StartAgain(); }}) {}

  ~Impl() {
    Stop(kDrainDeadline);
    http_.reset();
  }

  absl::Status Start() {
    DILOCO_ASSIGN_OR_RETURN(config_yaml_, ReadConfigFile(options_.config_path));
    DILOCO_ASSIGN_OR_RETURN(config_, ParseRunConfig(config_yaml_, options_.config_path));
    DILOCO_RETURN_IF_ERROR(CheckPortFile(options_.port_file));
    DILOCO_RETURN_IF_ERROR(CheckCertificate());
    // A port in use is said now, before the data folder is touched; it opens when everything is restored.
    DILOCO_ASSIGN_OR_RETURN(const HostPort address, ResolveListenAddress("--listen", options_.listen));
    DILOCO_RETURN_IF_ERROR(ProbeListenAddress("--listen", address));
    DILOCO_RETURN_IF_ERROR(StartHttp());
    SetLogContext({{"run", config_.run.id}});
    LogInfo("start", {{"software", DILOCO_VERSION},
                      {"method", config_.method},
                      {"data_dir", options_.data_folder},
                      {"merge_threads", options_.merge_threads}});
    ShowSettings(config_, &metrics_);
    if (!IsLoopback(address.host) && !options_.tls.given()) {
      LogWarning("plaintext", {{"listen", address.ToString()},
                               {"reason", "traffic beyond loopback is neither encrypted nor authenticated"}});
    }
    DILOCO_RETURN_IF_ERROR(StartService(options_.listen));
    return absl::OkStatus();
  }

  absl::Status Wait() {
    while (true) {
      const absl::StatusOr<StopLatch::Ending> ending = latch_.Wait();
      const bool again = ending.ok() && *ending == StopLatch::Ending::kStartAgain;
      const HostPort address = service_->address();
      // After a fatal error nothing that is under way can become durable.
      Stop(ending.ok() ? kDrainDeadline : absl::ZeroDuration());
      if (!again) {
        http_.reset();
        return ending.status();
      }
      phase_ = Phase::kStarting;
      DILOCO_RETURN_IF_ERROR(StartService(address));
    }
  }

  void RequestStop() { latch_.Stop(absl::OkStatus()); }

  const HostPort& listen_address() const { return service_->address(); }

 private:
  enum class Phase { kStarting, kReady, kStopping };

  absl::Status CheckCertificate() const {
    if (!options_.tls.given()) return absl::OkStatus();
    DILOCO_ASSIGN_OR_RETURN(
        const OwnCertificate own,
        CheckTlsFilesFor(options_.tls, {.run = config_.run.id, .role = Role::kCoordinator, .name = ""}));
    LogInfo("certificate", {{"identity", own.identity.Uri()},
                            {"expires", absl::FormatTime(absl::RFC3339_sec, own.expires, absl::UTCTimeZone())}});
    return absl::OkStatus();
  }

  absl::Status StartHttp() {
    if (!options_.http.has_value()) return absl::OkStatus();
    page_.emplace(StatusPage::Options{
        .clock = &clock_, .history = &history_, .inner_steps = config_.inner_steps, .ready = [this] {
          return Readiness();
        }});
    DILOCO_ASSIGN_OR_RETURN(http_, HttpServer::Start("--http", {.address = *options_.http,
                                                                .registry = &registry_,
                                                                .ready = [this] { return Readiness(); },
                                                                .amiss = [this] { return observer_.amiss(); },
                                                                .before_scrape = [this] { RefreshMetrics(); },
                                                                .routes = page_->Routes()}));
    return absl::OkStatus();
  }

  void RefreshMetrics() {
    process_.Refresh();
    const absl::StatusOr<uint64_t> free = PosixFileSystem()->FreeBytes(options_.data_folder);
    if (free.ok()) metrics_.disk_free_bytes.Set(static_cast<double>(*free));
  }

  absl::Status Readiness() const {
    switch (phase_.load()) {
      case Phase::kStarting:
        return absl::UnavailableError("recovering the data folder");
      case Phase::kStopping:
        return absl::UnavailableError("shutting down");
      case Phase::kReady:
        break;
    }
    return absl::OkStatus();
  }

  // Recovers the data folder, then opens the port.
  absl::Status StartService(const HostPort& address) {
    DILOCO_RETURN_IF_ERROR(StartDriver());
    DILOCO_ASSIGN_OR_RETURN(service_, Service::Start("--listen",
                                                     {.run_id = config_.run.id,
                                                      .address = address,
                                                      .events = &events_,
                                                      .tls = options_.tls,
                                                      .reflection = options_.reflection,
                                                      .tracer = tracer_.get()},
                                                     driver_.get(), &metrics_, PosixFileSystem()));
    const std::string http = http_ == nullptr ? "none" : http_->address().ToString();
    DILOCO_RETURN_IF_ERROR(WritePortFile(options_.port_file, service_->address().ToString(), http));
    phase_ = Phase::kReady;
    LogInfo("ready", {{"listen", service_->address().ToString()}, {"http", http}});
    return absl::OkStatus();
  }

  absl::Status StartDriver() {
    RecoveredState recovered;
    DILOCO_ASSIGN_OR_RETURN(
        store_, Store::Open(PosixFileSystem(), {.folder = options_.data_folder, .holder = Holder()}, &recovered));
    RemovePortFile(options_.port_file);  // Whoever wrote it held the folder, and is gone.
    for (const std::string& warning : recovered.warnings) LogWarning("recovery", {{"reason", warning}});
    disk_ = std::make_unique<ThreadPool>(1);
    pool_ = std::make_unique<ThreadPool>(options_.merge_threads);
    DILOCO_ASSIGN_OR_RETURN(driver_, Driver::Create({.config = config_,
                                                     .config_yaml = config_yaml_,
                                                     .checkpoint_folder = options_.data_folder + "/checkpoints"},
                                                    {.clock = &clock_,
                                                     .files = PosixFileSystem(),
                                                     .store = store_.get(),
                                                     .disk = disk_.get(),
                                                     .pool = pool_.get(),
                                                     .observer = &observer_},
                                                    std::move(recovered)));
    driver_thread_ = std::thread([this] { driver_->Run(); });
    if (page_.has_value()) page_->Attach(driver_.get());
    return absl::OkStatus();
  }

  // What was started last ends first; whatever is absent was never started, or has ended.
  void Stop(absl::Duration drain_deadline) {
    phase_ = Phase::kStopping;
    if (page_.has_value()) page_->Detach();
    if (service_ != nullptr) {
      LogInfo("stopping");
      service_->Stop(drain_deadline);
      RemovePortFile(options_.port_file);
    }
    if (driver_thread_.joinable()) {
      driver_->Shutdown();
      driver_thread_.join();
    }
    // After the driver: its thread may still tell a stream something.
    const bool was_ready = std::exchange(service_, nullptr) != nullptr;
    driver_.reset();
    pool_.reset();
    disk_.reset();
    store_.reset();
    if (was_ready) LogInfo("stopped");
  }

  const CoordinatorOptions options_;
  const SteadyClock clock_;
  const std::unique_ptr<Tracer> tracer_;
  std::atomic<Phase> phase_ = Phase::kStarting;
  StopLatch latch_;
  prometheus::Registry registry_;
  CoordinatorMetrics metrics_;
  RunHistory history_;
  ProcessMetrics process_;
  EventLog events_;
  RunObserver observer_;
  std::string config_yaml_;
  RunConfig config_;
  std::optional<StatusPage> page_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<ThreadPool> disk_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Driver> driver_;
  std::thread driver_thread_;
  std::unique_ptr<Service> service_;
};

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(const CoordinatorOptions& options) {
  std::unique_ptr<Tracer> tracer;
  if (!options.trace_file.empty()) {
    DILOCO_ASSIGN_OR_RETURN(tracer, Tracer::Open({.path = options.trace_file, .process_name = "coordinator"}));
  }
  auto impl = std::make_unique<Impl>(options, std::move(tracer));
  DILOCO_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

Coordinator::Coordinator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Coordinator::~Coordinator() = default;

const HostPort& Coordinator::listen_address() const { return impl_->listen_address(); }

absl::Status Coordinator::Wait() { return impl_->Wait(); }

void Coordinator::RequestStop() { impl_->RequestStop(); }

}  // namespace diloco
