// Open sessions: which worker each belongs to, and the directive that it was sent last. A worker has one session; the
// newest wins. Not thread-safe: the driver's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"

#include "coordinator/driver/driver.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

class SessionTable {
 public:
  explicit SessionTable(std::string run_id) : run_id_(std::move(run_id)) {}

  void Open(Driver::SessionToken token, Driver::SessionSink sink);
  // The stream is gone.
  void Forget(Driver::SessionToken token);
  // Ends a session from this side.
  void Close(Driver::SessionToken token, const absl::Status& status);
  // The session that speaks for `worker`, if there is one.
  void CloseOf(const std::string& worker, const absl::Status& status);
  void CloseAll(const absl::Status& status);

  // A message of `worker` came on this session. Closes its older session, or this one when a newer one exists.
  // False: the session is closed or unknown.
  bool Bind(Driver::SessionToken token, const std::string& worker);

  // Whether a session of `worker` has spoken and is open.
  bool IsOpen(const std::string& worker) const { return by_worker_.contains(worker); }

  // Sends the directive. `Send` always, `SendIfChanged` when it differs from the last one sent there.
  void Send(Driver::SessionToken token, const v1::Directive& directive);
  void SendIfChanged(const std::function<v1::Directive(const std::string& worker)>& directive_for);

 private:
  struct Session {
    Driver::SessionSink sink;
    std::string worker;  // Empty before the first message.
    std::string sent;    // Serialised directive; empty: none yet.
  };

  const std::string run_id_;
  std::map<Driver::SessionToken, Session> sessions_;
  std::map<std::string, Driver::SessionToken> by_worker_;
};

}  // namespace diloco
