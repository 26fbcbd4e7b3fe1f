#include "worker/app/worker_http.h"

#include <unistd.h>

#include "absl/strings/str_format.h"

#include "common/base/atomic_file.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace diloco {

void ShowStatus(const WorkerStatus& status, WorkerMetrics* metrics) {
  metrics->Report(ToProgress(status));
  RaiseTo(metrics->uploads, static_cast<double>(status.uploads));
  RaiseTo(metrics->upload_seconds, status.upload_seconds);
  RaiseTo(metrics->downloads, static_cast<double>(status.downloads));
  RaiseTo(metrics->download_seconds, status.download_seconds);
  metrics->upload_queue_contributions.Set(static_cast<double>(status.upload_queue));
  RaiseTo(metrics->resyncs, static_cast<double>(status.resyncs));
  metrics->connected.Set(status.connected ? 1 : 0);
  RaiseTo(metrics->reconnects, static_cast<double>(status.Reconnects()));
  metrics->evaluation_loss.Set(status.evaluation_loss);
  metrics->evaluation_version.Set(static_cast<double>(status.evaluation_version));
  RaiseTo(metrics->checkpoints_written, static_cast<double>(status.checkpoints_written));
  RaiseTo(metrics->checkpoints_failed, static_cast<double>(status.checkpoints_failed));
  RaiseTo(metrics->checkpoint_write_seconds, status.checkpoint_seconds);
  metrics->checkpoint_step.Set(static_cast<double>(status.checkpoint_step));
}

absl::StatusOr<std::unique_ptr<WorkerHttp>> WorkerHttp::Start(const HostPort& address, const StatusBoard* board) {
  std::unique_ptr<WorkerHttp> http(new WorkerHttp(board));
  const auto ready = [board] {
    return board->Get().wall_seconds > 0 ? absl::OkStatus() : absl::UnavailableError("not training yet");
  };
  DILOCO_ASSIGN_OR_RETURN(http->server_,
                          HttpServer::Start("--http", {.address = address,
                                                       .registry = &http->registry_,
                                                       .ready = ready,
                                                       .before_scrape = [http = http.get()] { http->Refresh(); }}));
  return http;
}

void WorkerHttp::Refresh() {
  ShowStatus(board_->Get().At(SteadyClock().Now()), &metrics_);
  process_.Refresh();
}

absl::Status WritePortFile(const std::string& path, const WorkerHttp* http) {
  const nlohmann::json ports = {
      {"http", http == nullptr ? nlohmann::json() : nlohmann::json(http->address().ToString())}, {"pid", getpid()}};
  const absl::Status status = [&] {
    DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
    DILOCO_RETURN_IF_ERROR(file->Write(ports.dump() + "\n"));
    return file->Commit();
  }();
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrFormat("--port-file: %s", std::string(status.message())));
  }
  return absl::OkStatus();
}

}  // namespace diloco
