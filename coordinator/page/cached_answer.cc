#include "coordinator/page/cached_answer.h"

#include <string>
#include <utility>

#include "nlohmann/json.hpp"

namespace diloco {
namespace {

HttpAnswer Refusal(const absl::Status& status) {
  const nlohmann::json body = {{"error", std::string(status.message())}};
  return {.status = 503,
          .type = kHttpJsonType,
          .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

}  // namespace

HttpAnswer CachedAnswer::Get() {
  {
    MutexLock lock(&mutex_);
    const absl::Duration age = clock_.Now() - made_;
    if (!json_.empty() && age < (making_ ? kAnswerOldest : kAnswerKept)) {
      return {.type = kHttpJsonType, .body = json_};
    }
    if (making_) return Refusal(absl::UnavailableError("the coordinator is busy; ask again"));
    making_ = true;
  }
  absl::StatusOr<std::string> json = make_();
  MutexLock lock(&mutex_);
  making_ = false;
  if (!json.ok()) return Refusal(json.status());
  json_ = *std::move(json);
  made_ = clock_.Now();
  return {.type = kHttpJsonType, .body = json_};
}

}  // namespace diloco
