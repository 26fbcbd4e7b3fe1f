// An AdminService that answers what a test tells it to, and dilococtl run against it in this process.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/rpc/server.h"
#include "coordinator/ctl/ctl.h"
#include "diloco/v1/admin.grpc.pb.h"

namespace diloco {

// Set the fields before the calls that they answer; the calls come one at a time.
class FakeAdmin final : public v1::AdminService::Service {
 public:
  grpc::Status error;  // Answers every call unless OK.
  v1::GetStatusResponse status;
  v1::ListRoundsResponse rounds;
  v1::DescribeRoundResponse round;
  v1::ListWorkersResponse workers;
  v1::DescribeWorkerResponse worker;
  v1::ListCheckpointsResponse checkpoints;
  v1::GetConfigResponse config;
  v1::SaveCheckpointResponse saved;
  v1::EvictWorkerResponse evicted;
  std::vector<v1::RecoverConsensusRequest> recover_requests;
  v1::RecoverConsensusResponse recovered;
  std::string run_id;               // Of the newest request.
  std::vector<std::string> orders;  // "drain west", in the order in which they came.
  uint32_t limit = 0;
  int64_t described = -1;
  std::function<void()> on_status;  // Before each GetStatus is answered.

  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override {
    if (on_status) on_status();
    return Answer(*request, status, response);
  }
  grpc::Status ListRounds(grpc::ServerContext*, const v1::ListRoundsRequest* request,
                          v1::ListRoundsResponse* response) override {
    limit = request->limit();
    return Answer(*request, rounds, response);
  }
  grpc::Status DescribeRound(grpc::ServerContext*, const v1::DescribeRoundRequest* request,
                             v1::DescribeRoundResponse* response) override {
    described = request->round();
    return Answer(*request, round, response);
  }
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest* request,
                           v1::ListWorkersResponse* response) override {
    return Answer(*request, workers, response);
  }
  grpc::Status DescribeWorker(grpc::ServerContext*, const v1::DescribeWorkerRequest* request,
                              v1::DescribeWorkerResponse* response) override {
    orders.push_back("describe " + request->worker_id());
    return Answer(*request, worker, response);
  }
  grpc::Status ListCheckpoints(grpc::ServerContext*, const v1::ListCheckpointsRequest* request,
                               v1::ListCheckpointsResponse* response) override {
    return Answer(*request, checkpoints, response);
  }
  grpc::Status GetConfig(grpc::ServerContext*, const v1::GetConfigRequest* request,
                         v1::GetConfigResponse* response) override {
    return Answer(*request, config, response);
  }
  grpc::Status SaveCheckpoint(grpc::ServerContext*, const v1::SaveCheckpointRequest* request,
                              v1::SaveCheckpointResponse* response) override {
    return Answer(*request, saved, response);
  }
  grpc::Status DrainWorker(grpc::ServerContext*, const v1::DrainWorkerRequest* request,
                           v1::DrainWorkerResponse* response) override {
    orders.push_back("drain " + request->worker_id());
    response->set_worker_id(request->worker_id());
    return Answer(*request, *response, response);
  }
  grpc::Status EvictWorker(grpc::ServerContext*, const v1::EvictWorkerRequest* request,
                           v1::EvictWorkerResponse* response) override {
    orders.push_back("evict " + request->worker_id());
    return Answer(*request, evicted, response);
  }
  grpc::Status AdmitWorker(grpc::ServerContext*, const v1::AdmitWorkerRequest* request,
                           v1::AdmitWorkerResponse* response) override {
    orders.push_back("admit " + request->worker_id());
    response->set_worker_id(request->worker_id());
    return Answer(*request, *response, response);
  }
  grpc::Status RecoverConsensus(grpc::ServerContext*, const v1::RecoverConsensusRequest* request,
                                v1::RecoverConsensusResponse* response) override {
    recover_requests.push_back(*request);
    return Answer(*request, recovered, response);
  }
  grpc::Status PauseRun(grpc::ServerContext*, const v1::PauseRunRequest* request,
                        v1::PauseRunResponse* response) override {
    orders.push_back("pause");
    response->set_run_id("demo");
    return Answer(*request, *response, response);
  }
  grpc::Status ResumeRun(grpc::ServerContext*, const v1::ResumeRunRequest* request,
                         v1::ResumeRunResponse* response) override {
    orders.push_back("resume");
    return Answer(*request, resumed, response);
  }
  grpc::Status StopRun(grpc::ServerContext*, const v1::StopRunRequest* request,
                       v1::StopRunResponse* response) override {
    orders.push_back("stop");
    return Answer(*request, stopped, response);
  }
  grpc::Status ExtendRun(grpc::ServerContext*, const v1::ExtendRunRequest* request,
                         v1::ExtendRunResponse* response) override {
    orders.push_back("extend " + std::to_string(request->rounds()));
    return Answer(*request, extended, response);
  }
  grpc::Status SetConfig(grpc::ServerContext*, const v1::SetConfigRequest* request,
                         v1::SetConfigResponse* response) override {
    for (const v1::Setting& setting : request->settings()) {
      orders.push_back("set " + setting.key() + " to " + setting.value());
    }
    return Answer(*request, set, response);
  }
  // Each call gets the next of `event_streams`, and then its status.
  grpc::Status WatchEvents(grpc::ServerContext*, const v1::WatchEventsRequest* request,
                           grpc::ServerWriter<v1::WatchEventsResponse>* writer) override {
    run_id = request->run_id();
    watch_requests.push_back(*request);
    if (!error.ok() || event_streams.empty()) return error;
    const auto [events, end] = event_streams.front();
    event_streams.erase(event_streams.begin());
    for (const v1::WatchEventsResponse& event : events) writer->Write(event);
    return end;
  }
  v1::ResumeRunResponse resumed;
  v1::StopRunResponse stopped;
  v1::ExtendRunResponse extended;
  v1::SetConfigResponse set;
  std::vector<v1::WatchEventsRequest> watch_requests;
  std::vector<std::pair<std::vector<v1::WatchEventsResponse>, grpc::Status>> event_streams;

 private:
  template <typename Request, typename Response>
  grpc::Status Answer(const Request& request, const Response& prepared, Response* response) {
    run_id = request.run_id();
    *response = prepared;
    return error;
  }
};

class ManualClock final : public Clock {
 public:
  MonotonicTime Now() const override { return now; }
  MonotonicTime now;
};

class CtlTest : public testing::Test {
 protected:
  CtlTest() {
    absl::StatusOr<RpcServer> server =
        StartRpcServer("--listen", {.address = {"127.0.0.1", 0}}, {{v1::AdminService::service_full_name(), &admin_}});
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) server_ = *std::move(server);
  }
  ~CtlTest() override { StopServer(); }

  void StopServer() {
    if (server_.server != nullptr) StopRpcServer(server_.server.get(), absl::ZeroDuration());
    server_.server.reset();
  }

  // The exit code; what was printed is in out_ and err_.
  int Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"dilococtl", "--coordinator", server_.address.ToString()});
    return RunAsGiven(arguments);
  }
  int RunAsGiven(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv;
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    out_.clear();
    err_.clear();
    return RunCtl(static_cast<int>(argv.size()), argv.data(),
                  {.out =
                       [this](std::string_view text) {
                         out_ += text;
                         if (on_out_) on_out_();
                       },
                   .err = [this](std::string_view text) { err_ += text; },
                   .terminal = [this] { return terminal_; },
                   .no_color = no_color_,
                   .ask = [this](std::string_view question) -> std::optional<std::string> {
                     question_ = question;
                     return answer_;
                   },
                   .clock = &clock_,
                   .pause =
                       [this](absl::Duration time) {
                         clock_.now = clock_.now + time;
                         if (on_pause_) on_pause_();
                       }});
  }

  FakeAdmin admin_;
  RpcServer server_;
  ManualClock clock_;
  TerminalSize terminal_;
  bool no_color_ = false;
  std::string question_;
  std::optional<std::string> answer_;  // nullopt: no terminal.
  std::function<void()> on_pause_;     // The world goes on while --watch pauses,
  std::function<void()> on_out_;       // and after each thing that is printed.
  std::string out_;
  std::string err_;
};

}  // namespace diloco
