#include "coordinator/ctl/link_probe.h"

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status.h"

namespace diloco {
namespace {

constexpr int kRoundTrips = 11;
constexpr size_t kPieceBytes = size_t{256} << 10;
// Exchanges that are on their way at once, at most: 64 MiB, enough for 5 Gbit/s over 100 ms there and back. The first
// goes alone and each answer lets one more follow, so that what is under way on a slow link is soon through.
constexpr int64_t kWindow = 256;
// Of one direction: a half for each, less what round trips take.
constexpr uint64_t kMaxBytesOneWay = kMaxProbeBytes / 2 - kMaxChunkBytes;

}  // namespace

// The call, with a thread that reads the answers. All else is called from one thread.
class LinkProbe::Exchanges {
 public:
  Exchanges(v1::WorkerService::StubInterface* stub, absl::Duration limit) {
    context_.set_deadline(DeadlineAfter(limit));
    stream_ = stub->Probe(&context_);
    reader_ = std::thread([this] { Read(); });
  }
  ~Exchanges() {
    if (WaitingFor() > 0) context_.TryCancel();
    stream_->WritesDone();
    reader_.join();
    if (!status_.has_value()) static_cast<void>(stream_->Finish());
  }

  // As soon as the window has room. `since`: answers from before, which do not widen it. False: the call has ended.
  bool Ask(const v1::ProbeRequest& request, int64_t since) {
    {
      MutexLock lock(&mutex_);
      while (!ended_ && asked_ - answered_ >= std::min(kWindow, 1 + answered_ - since)) changed_.Wait(&mutex_);
      if (ended_) return false;
      ++asked_;
    }
    return stream_->Write(request);
  }
  // Until all is answered. Errors: the call's end.
  absl::Status WaitForAnswers() {
    {
      MutexLock lock(&mutex_);
      while (!ended_ && answered_ < asked_) changed_.Wait(&mutex_);
      if (answered_ == asked_) return absl::OkStatus();
    }
    if (!status_.has_value()) status_ = FromGrpcStatus(stream_->Finish());
    return status_->ok() ? absl::UnavailableError("the coordinator ended the probe") : *status_;
  }
  int64_t answered() {
    MutexLock lock(&mutex_);
    return answered_;
  }
  std::string identity() {
    MutexLock lock(&mutex_);
    return identity_;
  }

 private:
  int64_t WaitingFor() {
    MutexLock lock(&mutex_);
    return asked_ - answered_;
  }
  // The deadline of the call ends it, so that no wait is for ever.
  void Read() {
    v1::ProbeResponse response;
    while (stream_->Read(&response)) {
      MutexLock lock(&mutex_);
      ++answered_;
      identity_ = response.identity();
      changed_.NotifyAll();
    }
    MutexLock lock(&mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriterInterface<v1::ProbeRequest, v1::ProbeResponse>> stream_;
  std::optional<absl::Status> status_;  // Of the call, once it was asked for.
  Mutex mutex_;
  CondVar changed_;
  int64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // No more answers come.
  std::string identity_ ABSL_GUARDED_BY(mutex_);
  std::thread reader_;
};

LinkProbe::LinkProbe(v1::WorkerService::StubInterface* stub, std::string run_id, absl::Duration limit)
    : run_id_(std::move(run_id)), exchanges_(std::make_unique<Exchanges>(stub, limit)) {}

LinkProbe::~LinkProbe() = default;

absl::StatusOr<absl::Duration> LinkProbe::RoundTrip() {
  const SteadyClock clock;
  v1::ProbeRequest request;
  request.set_run_id(run_id_);
  std::vector<absl::Duration> times;
  for (int i = 0; i < kRoundTrips; ++i) {
    const MonotonicTime sent = clock.Now();
    exchanges_->Ask(request, exchanges_->answered());
    DILOCO_RETURN_IF_ERROR(exchanges_->WaitForAnswers());
    times.push_back(clock.Now() - sent);
  }
  identity_ = exchanges_->identity();
  std::nth_element(times.begin(), times.begin() + kRoundTrips / 2, times.end());
  return times[kRoundTrips / 2];
}

absl::StatusOr<double> LinkProbe::Rate(const v1::ProbeRequest& request, absl::Duration time) {
  const SteadyClock clock;
  const MonotonicTime start = clock.Now();
  const int64_t before = exchanges_->answered();
  const auto most = static_cast<int64_t>(kMaxBytesOneWay / kPieceBytes);
  std::optional<std::pair<MonotonicTime, int64_t>> counted_from;
  for (int64_t asked = 0; asked < most && clock.Now() - start < time && exchanges_->Ask(request, before); ++asked) {
    const int64_t answered = exchanges_->answered() - before;
    if (!counted_from.has_value() && answered > 0 && clock.Now() - start >= time / 4) {
      counted_from = {clock.Now(), answered};
    }
  }
  DILOCO_RETURN_IF_ERROR(exchanges_->WaitForAnswers());
  // A link so slow that nothing came back meanwhile counts from the start.
  const auto [from, first] = counted_from.value_or(std::pair(start, int64_t{0}));
  const double seconds = absl::ToDoubleSeconds(clock.Now() - from);
  return static_cast<double>(exchanges_->answered() - before - first) * static_cast<double>(kPieceBytes) /
         std::max(seconds, 1e-9);
}

absl::StatusOr<double> LinkProbe::Up(absl::Duration time) {
  v1::ProbeRequest request;
  request.set_run_id(run_id_);
  request.set_payload(std::string(kPieceBytes, '\0'));
  return Rate(request, time);
}

absl::StatusOr<double> LinkProbe::Down(absl::Duration time) {
  v1::ProbeRequest request;
  request.set_run_id(run_id_);
  request.set_answer_bytes(kPieceBytes);
  return Rate(request, time);
}

}  // namespace diloco
