#include "coordinator/driver/session_table.h"

#include <utility>

#include "absl/strings/str_format.h"

namespace diloco {

void SessionTable::Open(Driver::SessionToken token, Driver::SessionSink sink) {
  sessions_[token].sink = std::move(sink);
}

void SessionTable::Forget(Driver::SessionToken token) {
  const auto it = sessions_.find(token);
  if (it == sessions_.end()) {
    return;
  }
  const auto bound = by_worker_.find(it->second.worker);
  if (bound != by_worker_.end() && bound->second == token) {
    by_worker_.erase(bound);
  }
  sessions_.erase(it);
}

void SessionTable::Close(Driver::SessionToken token, const absl::Status& status) {
  const auto it = sessions_.find(token);
  if (it == sessions_.end()) {
    return;
  }
  const Driver::SessionSink sink = std::move(it->second.sink);
  Forget(token);
  sink.close(status);
}

void SessionTable::CloseOf(const std::string& worker, const absl::Status& status) {
  if (const auto bound = by_worker_.find(worker); bound != by_worker_.end()) {
    Close(bound->second, status);
  }
}

void SessionTable::CloseAll(const absl::Status& status) {
  while (!sessions_.empty()) {
    Close(sessions_.begin()->first, status);
  }
}

bool SessionTable::Bind(Driver::SessionToken token, const std::string& worker) {
  const auto it = sessions_.find(token);
  if (it == sessions_.end()) {
    return false;
  }
  if (!it->second.worker.empty() && it->second.worker != worker) {
    Close(token, absl::InvalidArgumentError(absl::StrFormat("the session of worker \"%s\" cannot speak for \"%s\"",
                                                            it->second.worker, worker)));
    return false;
  }
  it->second.worker = worker;
  const auto [bound, inserted] = by_worker_.emplace(worker, token);
  if (inserted || bound->second == token) {
    return true;
  }
  const absl::Status replaced =
      absl::AbortedError(absl::StrFormat("a newer session of worker \"%s\" took over", worker));
  if (bound->second > token) {
    Close(token, replaced);
    return false;
  }
  const Driver::SessionToken older = std::exchange(bound->second, token);
  Close(older, replaced);
  return true;
}

void SessionTable::Send(Driver::SessionToken token, const v1::Directive& directive) {
  const auto it = sessions_.find(token);
  if (it == sessions_.end()) {
    return;
  }
  it->second.sent = directive.SerializeAsString();
  v1::SessionResponse response;
  response.set_run_id(run_id_);
  *response.mutable_directive() = directive;
  it->second.sink.send(std::move(response));
}

void SessionTable::SendIfChanged(const std::function<v1::Directive(const std::string& worker)>& directive_for) {
  for (const auto& [worker, token] : by_worker_) {
    const v1::Directive directive = directive_for(worker);
    const auto it = sessions_.find(token);
    if (it != sessions_.end() && directive.SerializeAsString() != it->second.sent) {
      Send(token, directive);
    }
  }
}

}  // namespace diloco
