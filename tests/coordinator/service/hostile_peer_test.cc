// Whatever a peer sends, the coordinator answers it, goes on, and another worker's run is what it would have been.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/stubs/logging.h"

#include "diloco/v1/admin.grpc.pb.h"
#include "tests/coordinator/service/raw_call.h"
#include "tests/coordinator/service/service_fixture.h"
#include "tests/support/hostile_message.h"

namespace diloco {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using testing::HostileMessage;
using testing::HostileMessages;

constexpr int64_t kElementCount = 64;
constexpr int64_t kRounds = 4;
constexpr char kRate[] = "1";  // Of the outer step.

// Full name of every method of both services, found in the contract itself.
std::vector<std::string> Methods() {
  std::vector<std::string> methods;
  for (const char* service : {v1::WorkerService::service_full_name(), v1::AdminService::service_full_name()}) {
    const auto* descriptor = DescriptorPool::generated_pool()->FindServiceByName(service);
    for (int i = 0; i < descriptor->method_count(); ++i) methods.push_back(descriptor->method(i)->full_name());
  }
  return methods;
}

const MethodDescriptor& FindMethod(const std::string& name) {
  return *DescriptorPool::generated_pool()->FindMethodByName(name);
}

std::string Path(const MethodDescriptor& method) {
  return absl::StrFormat("/%s/%s", method.service()->full_name(), method.name());
}

// Outer gradient of "east" in a round: exact in float32, and so is any sum of them.
std::vector<float> Gradient(int64_t round) {
  std::vector<float> values(kElementCount);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 4 + static_cast<float>(round);
  return values;
}

class HostilePeer : public ServiceTest {
 protected:
  HostilePeer() {
    limits_.calls = {.burst = 1e6, .per_second = 1e6};  // Many calls are what this is about.
    config_ = absl::StrFormat(R"(
run: {id: r1, workers: 1, rounds: %d}
method: diloco
inner_steps: 5
outer: {optimizer: sgd, rate: 1}
fragments: {count: 1}
wire: {uplink: fp32, downlink: fp32}
rounds: {quorum: 1, grace_window: 0s}
)",
                              kRounds);
    Start();
    channel_ = MakeChannel(address());
    east_ = std::make_unique<WireWorker>(address(), "r1", "east", kElementCount);
    peer_ = std::make_unique<WireWorker>(address(), "r1", "stranger", kElementCount);
  }

  // A request of `method` without a fault, but that no contribution and no seed becomes whole by it.
  std::unique_ptr<Message> Good(const MethodDescriptor& method, const WireWorker& sender) const {
    const Descriptor* type = method.input_type();
    auto* factory = google::protobuf::MessageFactory::generated_factory();
    std::unique_ptr<Message> message(factory->GetPrototype(type)->New());
    const auto signature = sender.Signed<v1::FetchSnapshotRequest>();
    const auto* reflection = message->GetReflection();
    if (const FieldDescriptor* f = type->FindFieldByName("run_id")) {
      reflection->SetString(message.get(), f, signature.run_id());
    }
    if (const FieldDescriptor* f = type->FindFieldByName("worker_id")) {
      reflection->SetString(message.get(), f, signature.worker_id());
    }
    if (const FieldDescriptor* f = type->FindFieldByName("incarnation")) {
      reflection->SetUInt64(message.get(), f, signature.incarnation());
    }
    if (auto* join = dynamic_cast<v1::JoinRequest*>(message.get())) {
      *join = sender.JoinMessage();
    } else if (auto* session = dynamic_cast<v1::SessionRequest*>(message.get())) {
      session->mutable_progress()->set_step(3);
      session->add_evaluations()->set_worker_id(signature.worker_id());
      session->mutable_evaluations(0)->set_tokens(1);
      session->add_abstentions();
    } else if (auto* upload = dynamic_cast<v1::UploadRequest*>(message.get())) {
      *upload = sender.Contribution(0, Gradient(0)).front();
      *upload->mutable_layout_digest() = east_->joined().layout_digest();
      upload->set_chunk_bytes(64);
      upload->mutable_payload()->resize(64);
    } else if (auto* subscribe = dynamic_cast<v1::SubscribeRequest*>(message.get())) {
      subscribe->add_next_rounds(0);
    } else if (auto* set = dynamic_cast<v1::SetConfigRequest*>(message.get())) {
      v1::Setting* setting = set->add_settings();  // As it is.
      setting->set_key("outer.rate");
      setting->set_value(kRate);
    } else if (auto* seed = dynamic_cast<v1::SeedRequest*>(message.get())) {
      *seed = sender.SeedMessages(FloatBytes(Gradient(0)), 64).front();
      *seed->mutable_layout_digest() = east_->joined().layout_digest();
    }
    FixChecksum(message.get());
    return message;
  }

  // What is wrong with a payload is to be found behind its checksum.
  static void FixChecksum(Message* message) {
    if (auto* upload = dynamic_cast<v1::UploadRequest*>(message)) {
      upload->set_crc32c(ComputeCrc32c(upload->payload()).value);
    } else if (auto* seed = dynamic_cast<v1::SeedRequest*>(message)) {
      seed->set_crc32c(ComputeCrc32c(seed->payload()).value);
    }
  }

  // A worker's word of holding a consensus. While the run is not seeded it is believed, and holds the run until an
  // operator decides: nobody could tell it from the truth (driver_lost_disk_test).
  static bool SaysThatItHoldsSomething(const MethodDescriptor& method, const std::string& bytes) {
    v1::JoinRequest join;
    v1::FetchSnapshotRequest fetch;
    v1::SubscribeRequest subscribe;
    if (method.name() == "Join") return join.ParseFromString(bytes) && join.held().versions_size() > 0;
    if (method.name() == "FetchSnapshot") return fetch.ParseFromString(bytes) && fetch.held().versions_size() > 0;
    return method.name() == "Subscribe" && subscribe.ParseFromString(bytes) &&
           (subscribe.generation() > 0 || std::any_of(subscribe.next_rounds().begin(), subscribe.next_rounds().end(),
                                                      [](int64_t round) { return round > 0; }));
  }

  // An operator's order to this run, which would be obeyed: the run would not be what it was to be.
  static bool IsAnOrder(const MethodDescriptor& method, const std::string& bytes) {
    v1::SetConfigRequest set;
    if (method.name() == "SetConfig" && set.ParseFromString(bytes)) {
      double number = 0;
      return std::any_of(set.settings().begin(), set.settings().end(), [&number](const v1::Setting& setting) {
        return absl::SimpleAtod(setting.value(), &number) && setting.value() != kRate;
      });
    }
    v1::PauseRunRequest order;  // The run's id has the same number in each.
    const bool steers = method.name() == "PauseRun" || method.name() == "StopRun" || method.name() == "ExtendRun";
    return steers && order.ParseFromString(bytes) && (order.run_id().empty() || order.run_id() == "r1");
  }

  void Send(const MethodDescriptor& method, const std::string& bytes, const std::string& what) {
    if (!seeded_ && SaysThatItHoldsSomething(method, bytes)) return;
    if (IsAnOrder(method, bytes)) return;
    SCOPED_TRACE(absl::StrFormat("%s: %s", method.name(), what));
    RawCall call(channel_, Path(method), bytes);
    const bool may_stay_open = method.name() == "Subscribe" || method.name() == "WatchEvents";
    if (may_stay_open) {
      ExpectAlive();
      call.Cancel();
    }
    const grpc::Status status = call.Result().first;
    const std::unique_ptr<Message> message(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.input_type())->New());
    const bool readable = message->ParseFromString(bytes);
    EXPECT_NE(status.error_code(), grpc::StatusCode::UNKNOWN) << status.error_message();
    EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_NE(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    if (readable) {
      EXPECT_NE(status.error_code(), grpc::StatusCode::INTERNAL) << status.error_message();
    }
    if (!may_stay_open) {
      EXPECT_NE(status.error_code(), grpc::StatusCode::CANCELLED);
    }
    EXPECT_LE(status.error_message().size(), kMaxReasonBytes);
  }

  // Every hostile form of a request of `method`, each from a member where that is possible. `fresh`: each from another.
  void SendAll(const MethodDescriptor& method, bool fresh, const std::function<void(size_t, size_t)>& between) {
    const size_t count = HostileMessages(*Good(method, *peer_)).size();
    for (size_t i = 0; i < count; ++i) {
      between(i, count);
      if (fresh) NextPeer();
      if (joining_ && !peer_->Join().ok() && !IsReadmitted()) NextPeer();
      const std::unique_ptr<Message> good = Good(method, *peer_);
      HostileMessage hostile = std::move(HostileMessages(*good)[i]);
      if (!absl::StartsWith(hostile.what, "crc32c")) FixChecksum(hostile.message.get());
      Send(method, hostile.message->SerializeAsString(), hostile.what);
    }
  }

  // One that its own requests had evicted is let in again.
  bool IsReadmitted() {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::AdmitWorkerRequest request;
    request.set_worker_id(peer_->Signed<v1::FetchSnapshotRequest>().worker_id());
    v1::AdmitWorkerResponse response;
    return v1::AdminService::NewStub(channel_)->AdmitWorker(&context, request, &response).ok() && peer_->Join().ok();
  }

  void NextPeer() {
    absl::Status status;
    do {
      ++peers_;
      ASSERT_LT(peers_, kMaxWorkers) << status;
      peer_ = std::make_unique<WireWorker>(address(), "r1", absl::StrFormat("peer%d", peers_), kElementCount);
      status = peer_->Join();
    } while (!status.ok());
  }

  // One round's work of "east", until it is published.
  void Contribute(int64_t round) {
    east_->Contribute(round, Gradient(round));
    auto request = east_->Signed<v1::SubscribeRequest>();
    request.add_next_rounds(round);
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto reader = east_->stub().Subscribe(&context, request);
    v1::SubscribeResponse message;
    do {
      ASSERT_TRUE(reader->Read(&message)) << "round " << round << " is not published";
    } while (!message.has_commit());
    context.TryCancel();
  }

  void ExpectAlive() {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::GetStatusResponse response;
    const grpc::Status status = v1::AdminService::NewStub(channel_)->GetStatus(&context, {}, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    state_ = response.state();
    for (const v1::Evaluation& evaluation : response.evaluations()) {
      EXPECT_LE(evaluation.version(), response.rounds_committed()) << "of what nobody has";
    }
  }

  // What all rounds published, and how the run ended: the work of "east", and nothing else.
  void ExpectTheRunOfEastAlone() {
    auto request = east_->Signed<v1::SubscribeRequest>();
    request.add_next_rounds(0);
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto reader = east_->stub().Subscribe(&context, request);
    std::vector<float> consensus(kElementCount, 1.0F);
    int64_t rounds = 0;
    std::string average;
    v1::SubscribeResponse message;
    v1::EndRecord end;
    while (reader->Read(&message)) {
      if (message.has_chunk()) average += message.chunk().payload();
      if (message.has_settled()) {
        for (const v1::SettledContribution& line : message.settled().settled()) {
          EXPECT_EQ(line.settlement() == v1::SETTLEMENT_MERGED, line.id().worker_id() == "east") << line.DebugString();
        }
      }
      if (message.has_commit()) {
        const std::vector<float> gradient = Gradient(rounds++);
        EXPECT_TRUE(average == FloatBytes(gradient)) << "round " << rounds - 1;
        for (size_t i = 0; i < consensus.size(); ++i) consensus[i] -= gradient[i];
        average.clear();
      }
      if (message.has_end()) end = message.end();
    }
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(rounds, kRounds);
    ASSERT_EQ(end.consensus_digests_size(), 1);
    EXPECT_EQ(end.consensus_digests(0).value(), DigestOf(FloatBytes(consensus)).Bytes());
  }

  const google::protobuf::LogSilencer silent_;  // It reports each text that is not UTF-8.
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<WireWorker> east_;
  std::unique_ptr<WireWorker> peer_;
  bool joining_ = false;  // The peer is to be a member.
  bool seeded_ = false;
  int peers_ = 0;
  v1::RunState state_ = v1::RUN_STATE_UNSPECIFIED;
};

class HostilePeerTest : public HostilePeer, public ::testing::WithParamInterface<std::string> {};

TEST_P(HostilePeerTest, EveryFieldOfEveryRequestMayHoldAnything) {
  const MethodDescriptor& method = FindMethod(GetParam());
  const auto nothing = [](size_t, size_t) {};
  // The first to join decides what the run's model is, which is no fault.
  if (method.name() != "Join") {
    SendAll(method, /*fresh=*/false, nothing);
    ExpectAlive();
  }

  ASSERT_TRUE(east_->Join().ok());
  joining_ = true;
  NextPeer();
  if (method.name() == "Seed") std::swap(peer_, east_);  // From the seeder itself.
  SendAll(method, /*fresh=*/false, nothing);
  if (method.name() == "Seed") std::swap(peer_, east_);
  ExpectAlive();
  EXPECT_EQ(state_, v1::RUN_STATE_SEEDING);

  const std::vector<float> parameters(kElementCount, 1.0F);
  const absl::Status seeded = east_->Seed(east_->SeedMessages(FloatBytes(parameters)));
  ASSERT_TRUE(seeded.ok()) << seeded;
  seeded_ = true;
  int64_t round = 0;
  SendAll(method, /*fresh=*/method.name() == "Upload", [&](size_t i, size_t count) {
    if (round < kRounds - 1 && i == static_cast<size_t>(round + 1) * count / kRounds) {
      Contribute(round++);
    }
  });
  ExpectAlive();
  EXPECT_EQ(state_, v1::RUN_STATE_TRAINING);
  while (round < kRounds) Contribute(round++);
  ExpectTheRunOfEastAlone();

  ASSERT_TRUE(peer_->Join().ok());
  SendAll(method, /*fresh=*/false, nothing);
  ExpectAlive();
  EXPECT_EQ(state_, v1::RUN_STATE_ENDED);
  ExpectTheRunOfEastAlone();
}

INSTANTIATE_TEST_SUITE_P(Methods, HostilePeerTest, ::testing::ValuesIn(Methods()),
                         [](const auto& param_info) { return FindMethod(param_info.param).name(); });

// A member of this run that calls in the name of another one.
TEST_P(HostilePeerTest, AnotherRunIsNotFound) {
  const MethodDescriptor& method = FindMethod(GetParam());
  ASSERT_TRUE(east_->Join().ok());
  const std::unique_ptr<Message> request = Good(method, *east_);
  const FieldDescriptor* run_id = request->GetDescriptor()->FindFieldByName("run_id");
  ASSERT_NE(run_id, nullptr);
  request->GetReflection()->SetString(request.get(), run_id, "r2");
  // A session is told before it ends; half of it closed at once, it would end without.
  if (method.name() == "Session") {
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto session = east_->stub().Session(&context);
    ASSERT_TRUE(session->Write(dynamic_cast<const v1::SessionRequest&>(*request)));
    v1::SessionResponse response;
    EXPECT_FALSE(session->Read(&response));
    EXPECT_EQ(session->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
    return;
  }
  // A seed is judged when it is whole.
  if (auto* seed = dynamic_cast<v1::SeedRequest*>(request.get())) {
    *seed = WireWorker(address(), "r2", "east", kElementCount).SeedMessages(FloatBytes(Gradient(0))).front();
  }
  const grpc::Status status = RawCall(channel_, Path(method), request->SerializeAsString()).Result().first;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND) << status.error_message();
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("run \"r2\" is not here"));
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

// DILOCO_FUZZ_SEED and DILOCO_FUZZ_MESSAGES run any others.
TEST_F(HostilePeer, BytesOfEveryRequestMayBeMangled) {
  const uint64_t seed = FromEnvironment("DILOCO_FUZZ_SEED", 1);
  const uint64_t messages = FromEnvironment("DILOCO_FUZZ_MESSAGES", 3000);
  SCOPED_TRACE(absl::StrFormat("DILOCO_FUZZ_SEED=%d DILOCO_FUZZ_MESSAGES=%d", seed, messages));
  std::mt19937_64 random(seed);
  east_->JoinAndSeed(std::vector<float>(kElementCount, 1.0F));
  seeded_ = true;
  NextPeer();
  const std::vector<std::string> methods = Methods();
  for (uint64_t i = 0; i < messages && !HasFailure(); ++i) {
    if (i * 200 / messages > static_cast<uint64_t>(peers_) || (!peer_->Join().ok() && !IsReadmitted())) NextPeer();
    const MethodDescriptor& method = FindMethod(methods[random() % methods.size()]);
    Send(method, testing::Mangled(Good(method, *peer_)->SerializeAsString(), &random),
         absl::StrFormat("message %d", i));
  }
  for (int64_t round = 0; round < kRounds; ++round) Contribute(round);
  ExpectTheRunOfEastAlone();
}

}  // namespace
}  // namespace diloco
