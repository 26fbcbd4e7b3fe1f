// A TCP proxy on loopback that counts bytes and lets them through by grant, rate, or not at all.
//
// The first connection is a worker's control connection; it is counted apart and never held back. All others are bulk.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace diloco::testing {

class TcpProxy {
 public:
  // Forwards to 127.0.0.1:`target_port`. Bulk bytes flow freely until Hold().
  explicit TcpProxy(int target_port);
  ~TcpProxy();

  int port() const { return port_; }
  std::string address() const;

  // Payload bytes of TCP, as read from the sender, on bulk connections.
  uint64_t upstream_bytes() const { return upstream_; }      // Client to server.
  uint64_t downstream_bytes() const { return downstream_; }  // Server to client.
  uint64_t connections() const { return connections_; }

  // From now on bulk bytes, both directions together, need grants.
  void Hold();
  void Grant(uint64_t bytes);
  // Bytes granted and not used.
  uint64_t granted() const;
  // No grants needed any more.
  void Open();
  // Bulk bytes a second, both directions apart. 0: no limit. Up to a tenth of a second of a busy link is made up for
  // when this program's thread runs late; an idle link saves nothing.
  void SetRate(uint64_t bytes_per_second);
  // From now on nothing passes, control neither, and no connection ends: a peer that closes or connects is not told
  // anything. Until Speak(): then what waited passes.
  void Silence();
  void Speak();
  // Closes every connection; new ones are accepted.
  void Reset();
  // Called from the proxy's thread after bulk bytes were taken in. Set it before the first connection.
  void OnForwarded(std::function<void()> observer) { on_forwarded_ = std::move(observer); }

 private:
  struct Connection;
  struct Pipe;
  void Loop();
  void Wake();
  void Accept();
  uint64_t Allowance(const Pipe& pipe) ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeGrant(const Pipe& pipe, uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Forward(Pipe& pipe);

  const int target_port_;
  int port_ = 0;
  int listener_ = -1;
  int wake_[2] = {-1, -1};
  std::atomic<uint64_t> upstream_{0};
  std::atomic<uint64_t> downstream_{0};
  std::atomic<uint64_t> connections_{0};
  mutable Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool reset_ ABSL_GUARDED_BY(mutex_) = false;
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t granted_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t rate_ ABSL_GUARDED_BY(mutex_) = 0;
  std::function<void()> on_forwarded_;
  std::vector<std::unique_ptr<Connection>> live_;  // Of the thread.
  std::thread thread_;
};

}  // namespace diloco::testing
