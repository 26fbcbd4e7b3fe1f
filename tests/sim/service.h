// The coordinator's service without gRPC: the wire's own messages between a stream and the driver, with the same rules
// of who reads when. Its functions run in the coordinator's process.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "coordinator/driver/driver.h"
#include "tests/sim/coordinator_node.h"
#include "tests/sim/network.h"
#include "tests/sim/shims.h"

namespace diloco::sim {

class Service {
 public:
  struct Options {
    uint64_t subscriber_queue_bytes = 1 << 20;
    size_t snapshot_chunk_bytes = 256;
    double duplicate_chance = 0;  // Of an uploaded chunk: it comes again, later, whatever happened meanwhile.
    absl::Duration duplicate_delay = absl::Seconds(20);  // At most.
    double corrupt_chance = 0;                           // Of an uploaded chunk.
  };
  Service(Options options, Shim shim, CoordinatorNode* node, Random* random)
      : options_(options), shim_(shim), node_(*node), random_(*random) {}

  // No more duplicates and damage.
  void Heal() { options_.duplicate_chance = options_.corrupt_chance = 0; }

  // The coordinator's folder is another one from now on.
  void OnFolderLost() { forgets_held_ = shim_ == Shim::kForgetHeld; }

  // One request, one answer: `answered` runs in the worker's process.
  template <typename Request, typename Response>
  void Unary(const std::shared_ptr<Stream>& stream, void (Driver::*method)(Request, Reply<Response>), Request request,
             std::function<void(const Response&)> answered) {
    if constexpr (std::is_same_v<Request, v1::JoinRequest>) {
      if (forgets_held_) request.clear_held();
    }
    (node_.driver()->*method)(std::move(request), AnswerOn<Response>(stream, std::move(answered)));
    node_.ScheduleTurn();
  }
  void Seed(const std::shared_ptr<Stream>& stream, v1::SeedRequest request, std::string parameters,
            std::function<void(const v1::SeedResponse&)> answered) {
    node_.driver()->Seed(std::move(request), std::move(parameters), AnswerOn(stream, std::move(answered)));
    node_.ScheduleTurn();
  }

  // Returns what takes a message of the worker's.
  std::function<void(v1::SessionRequest)> OpenSession(const std::shared_ptr<Stream>& stream,
                                                      std::function<void(const v1::SessionResponse&)> heard);
  void Upload(const std::shared_ptr<Stream>& stream, v1::UploadRequest request,
              const std::function<void(const v1::UploadResponse&)>& answered);
  // `arrived` takes a message in the worker's process, and calls `taken` there when it has been dealt with.
  template <typename Item>
  using Arrived = std::function<void(const Item&, Task taken)>;
  void Subscribe(const std::shared_ptr<Stream>& stream, v1::SubscribeRequest request,
                 Arrived<v1::SubscribeResponse> arrived);
  void FetchSnapshot(const std::shared_ptr<Stream>& stream, v1::FetchSnapshotRequest request,
                     Arrived<v1::FetchSnapshotResponse> arrived);

  // A message that was appended to the journal; returns it as the shim lets others see it.
  std::string OnJournaled(std::string_view message);

 private:
  struct Subscription;
  struct SnapshotReader;

  template <typename Response>
  Reply<Response> AnswerOn(const std::shared_ptr<Stream>& stream, std::function<void(const Response&)> answered) {
    return [this, stream, answered = std::move(answered)](absl::StatusOr<Response> response) {
      if (node_.dying()) return;
      if (!response.ok()) return stream->Close(Stream::kCoordinator, response.status());
      stream->Send(Stream::kCoordinator, [answered, response = *std::move(response)] { answered(response); });
    };
  }
  void Take(v1::UploadRequest request, std::function<void(const absl::StatusOr<v1::UploadResponse>&)> reply);
  void PumpSubscription(const std::shared_ptr<Subscription>& subscription);
  void SendSnapshot(const std::shared_ptr<SnapshotReader>& reader);

  Options options_;
  const Shim shim_;
  CoordinatorNode& node_;
  Random& random_;
  std::map<std::string, uint64_t> newest_incarnation_;  // For Shim::kForgetIncarnation.
  std::vector<std::weak_ptr<Subscription>> subscriptions_;
  SettledLie journal_lie_;
  bool forgets_held_ = false;
  std::deque<v1::SubscribeResponse> kept_downloads_;  // For Shim::kKeepDownloads.
};

}  // namespace diloco::sim
