#include "coordinator/page/status_page.h"

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/json/message_json.h"
#include "coordinator/page/web_files.h"
#include "diloco/v1/admin.pb.h"

namespace diloco {
namespace {

constexpr std::string_view kIndexFile = "index.html";

// The driver's answer to one question, which comes on its own thread, perhaps when nobody waits for it any more.
template <typename Response>
class Answer {
 public:
  void Set(absl::StatusOr<Response> response) {
    MutexLock lock(&mutex_);
    response_ = std::move(response);
    arrived_.NotifyAll();
  }
  absl::StatusOr<Response> Wait(MonotonicTime deadline) {
    MutexLock lock(&mutex_);
    while (!response_.has_value()) {
      if (arrived_.WaitUntil(&mutex_, ToSteady(deadline)) || response_.has_value()) continue;
      return absl::DeadlineExceededError(absl::StrFormat("the coordinator is busy: its driver did not answer within %s",
                                                         absl::FormatDuration(kOverviewDeadline)));
    }
    return *std::move(response_);
  }

 private:
  Mutex mutex_;
  CondVar arrived_;
  std::optional<absl::StatusOr<Response>> response_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

StatusPage::StatusPage(Options options)
    : options_(std::move(options)),
      overview_(options_.clock, [this] { return MakeOverview(); }),
      history_(options_.clock, [this]() -> absl::StatusOr<std::string> {
        return absl::StrFormat("{\"inner_steps\":%d,%s\n", options_.inner_steps,
                               std::string_view(options_.history->ToJson(options_.clock->Now())).substr(1));
      }) {}

void StatusPage::Attach(Driver* driver) {
  MutexLock lock(&mutex_);
  driver_ = driver;
}

void StatusPage::Detach() { Attach(nullptr); }

template <typename Request, typename Response>
absl::StatusOr<Response> StatusPage::Ask(void (Driver::*call)(Request, Reply<Response>), Request request,
                                         MonotonicTime deadline) {
  const auto answer = std::make_shared<Answer<Response>>();
  {
    MutexLock lock(&mutex_);
    if (driver_ == nullptr) return absl::UnavailableError("the coordinator is starting or shutting down");
    (driver_->*call)(std::move(request),
                     [answer](absl::StatusOr<Response> response) { answer->Set(std::move(response)); });
  }
  return answer->Wait(deadline);
}

absl::StatusOr<std::string> StatusPage::MakeOverview() {
  DILOCO_RETURN_IF_ERROR(options_.ready());
  const MonotonicTime deadline = options_.clock->Now() + kOverviewDeadline;
  DILOCO_ASSIGN_OR_RETURN(const v1::GetStatusResponse status,
                          Ask(&Driver::GetStatus, v1::GetStatusRequest(), deadline));
  DILOCO_ASSIGN_OR_RETURN(const v1::ListRoundsResponse rounds,
                          Ask(&Driver::ListRounds, v1::ListRoundsRequest(), deadline));
  DILOCO_ASSIGN_OR_RETURN(const v1::ListWorkersResponse workers,
                          Ask(&Driver::ListWorkers, v1::ListWorkersRequest(), deadline));
  std::string open_round = "null";
  if (status.rounds_committed() < status.rounds_total()) {
    v1::DescribeRoundRequest oldest;
    oldest.set_round(status.rounds_committed());
    const absl::StatusOr<v1::DescribeRoundResponse> round = Ask(&Driver::DescribeRound, oldest, deadline);
    if (!round.ok() && !absl::IsNotFound(round.status())) return round.status();
    if (round.ok()) open_round = ToJson(*round, JsonStyle::kOneLine);
  }
  return absl::StrCat("{\"status\":", ToJson(status, JsonStyle::kOneLine),
                      ",\"rounds\":", ToJson(rounds, JsonStyle::kOneLine), ",\"open_round\":", open_round,
                      ",\"workers\":", ToJson(workers, JsonStyle::kOneLine), "}\n");
}

std::vector<HttpRoute> StatusPage::Routes() {
  std::vector<HttpRoute> routes = {{"/api/overview", [this] { return overview_.Get(); }},
                                   {"/api/history", [this] { return history_.Get(); }}};
  for (const WebFile& file : WebFiles()) {
    const std::string path = file.name == kIndexFile ? "/" : "/page/" + std::string(file.name);
    routes.push_back(
        {path, [file] { return HttpAnswer{.type = std::string(file.type), .body = std::string(file.content)}; }});
  }
  return routes;
}

}  // namespace diloco
