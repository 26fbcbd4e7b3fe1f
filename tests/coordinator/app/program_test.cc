// The real program: how it starts, what it refuses, how it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/coordinator/service/wire_worker.h"
#include "tests/support/coordinator_process.h"

namespace diloco {
namespace {

namespace fs = std::filesystem;

using ::diloco::testing::CoordinatorProcess;
using ::diloco::testing::Finished;
using ::diloco::testing::kPatience;
using ::diloco::testing::Process;
using ::diloco::testing::Program;
using ::diloco::testing::ReadFile;
using ::diloco::testing::RunProcess;
using ::diloco::testing::TempFolder;
using ::diloco::testing::WriteFile;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kConfig[] = R"(
run: {id: r1, workers: 1, rounds: 1}
method: diloco
inner_steps: 5
outer: {optimizer: sgd, rate: 1}
fragments: {count: 1}
wire: {uplink: fp32, downlink: fp32}
)";
constexpr int64_t kElements = 100;

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() { WriteFile(folder_.File("run.yaml"), kConfig); }

  // Runs it to its end. What every refusal has in common: one line on stderr, nothing on stdout.
  Finished Run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), Program("diloco-coordinator"));
    absl::StatusOr<Finished> finished = RunProcess(arguments, kPatience);
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.ok() ? *finished : Finished();
  }
  Finished RunOn(const std::string& config, const std::string& listen, const std::string& data = "data") const {
    return Run({"--config", config, "--data-dir", folder_.File(data), "--listen", listen, "--http", "none",
                "--log-level", "error"});
  }
  void ExpectRefusal(const Finished& finished, int exit_code, const std::string& part) const {
    EXPECT_EQ(finished.exit_code, exit_code) << finished.errors;
    EXPECT_THAT(finished.errors, StartsWith("diloco-coordinator: "));
    EXPECT_THAT(finished.errors, HasSubstr(part));
    EXPECT_EQ(std::count(finished.errors.begin(), finished.errors.end(), '\n'), 1) << finished.errors;
    EXPECT_EQ(finished.output, "");
  }

  const TempFolder folder_;
};

TEST_F(ProgramTest, SaysItsVersion) {
  const Finished finished = Run({"--version"});
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(finished.output, "diloco-coordinator " DILOCO_VERSION "\n");
}

TEST_F(ProgramTest, RefusesAWrongFlag) {
  ExpectRefusal(Run({"--config", "run.yaml", "--data-dir", "data", "--lisen", "x"}), 2, "--lisen");
  ExpectRefusal(Run({"--config", folder_.File("run.yaml"), "--data-dir", folder_.File("data"), "--log-level", "loud"}),
                2, "loud");
}

TEST_F(ProgramTest, RefusesAConfigurationAndLeavesNothingBehind) {
  ExpectRefusal(RunOn(folder_.File("none.yaml"), "127.0.0.1:0"), 2, "none.yaml");
  WriteFile(folder_.File("bad.yaml"), std::string(kConfig) + "inner_stepz: 5\n");
  ExpectRefusal(RunOn(folder_.File("bad.yaml"), "127.0.0.1:0"), 2, "bad.yaml:8:1");
  EXPECT_FALSE(fs::exists(folder_.File("data")));
}

TEST_F(ProgramTest, RefusesPlaintextBeyondLoopback) {
  ExpectRefusal(RunOn(folder_.File("run.yaml"), "0.0.0.0:0"), 2, "--allow-plaintext");
}

TEST_F(ProgramTest, APortInUseIsNamedAndLeavesNothingBehind) {
  CoordinatorProcess first(folder_.path(), kConfig);
  ASSERT_TRUE(first.Start().ok()) << first.Log();
  ExpectRefusal(RunOn(folder_.File("run.yaml"), first.address(), "other"), 5, "--listen " + first.address());
  const std::string http = "127.0.0.1:" + std::to_string(first.http_port());
  ExpectRefusal(Run({"--config", folder_.File("run.yaml"), "--data-dir", folder_.File("other"), "--listen",
                     "127.0.0.1:0", "--http", http, "--log-level", "error"}),
                5, "--http " + http);
  EXPECT_FALSE(fs::exists(folder_.File("other")));
}

TEST_F(ProgramTest, ASecondProcessOnTheFolderNamesTheFirst) {
  CoordinatorProcess first(folder_.path(), kConfig);
  ASSERT_TRUE(first.Start().ok()) << first.Log();
  ExpectRefusal(RunOn(folder_.File("run.yaml"), "127.0.0.1:0"), 5, "pid " + std::to_string(first.process().pid()));
  EXPECT_TRUE(first.process().running());
  first.Kill();
  // The lock went with its holder.
  EXPECT_TRUE(first.Start().ok()) << first.Log();
}

TEST_F(ProgramTest, EndsWithZeroOnEitherSignalAndTakesItsPortFileAlong) {
  for (const int signal : {SIGTERM, SIGINT}) {
    CoordinatorProcess coordinator(folder_.path(), kConfig);
    ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
    coordinator.process().Signal(signal);
    const absl::StatusOr<int> exit_code = coordinator.process().Wait(kPatience);
    ASSERT_TRUE(exit_code.ok()) << coordinator.Log();
    EXPECT_EQ(*exit_code, 0);
    EXPECT_FALSE(fs::exists(folder_.File("ports.json")));
    EXPECT_THAT(coordinator.Log(), HasSubstr("event=ready listen=" + coordinator.address()));
    EXPECT_THAT(coordinator.Log(), HasSubstr("event=stopped"));
  }
}

TEST_F(ProgramTest, ServesProbesAndScrapes) {
  CoordinatorProcess coordinator(folder_.path(), kConfig);
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  httplib::Client client("127.0.0.1", coordinator.http_port());
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  EXPECT_EQ(client.Get("/readyz")->status, 200);
  EXPECT_THAT(client.Get("/metrics")->body, HasSubstr("diloco_workers_expected 1"));
}

TEST_F(ProgramTest, KilledAndStartedAgainItKnowsItsRun) {
  CoordinatorProcess coordinator(folder_.path(), kConfig);
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  WireWorker worker(coordinator.address(), "r1", "east", kElements);
  const std::vector<float> parameters(kElements, 0.5f);
  worker.JoinAndSeed(parameters);
  coordinator.Kill();
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  // The same port, the same member, and the parameters that were answered as durable.
  WireWorker again(coordinator.address(), "r1", "east", kElements);
  const absl::Status status = again.Join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(again.joined().directive().state(), v1::RUN_STATE_TRAINING);
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto reader = again.stub().FetchSnapshot(&context, again.Signed<v1::FetchSnapshotRequest>());
  v1::FetchSnapshotResponse response;
  ASSERT_TRUE(reader->Read(&response));
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.chunk().payload(), FloatBytes(parameters));
}

TEST_F(ProgramTest, ADamagedJournalEndsItWithOneAndNamesTheFile) {
  CoordinatorProcess coordinator(folder_.path(), kConfig);
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  WireWorker worker(coordinator.address(), "r1", "east", kElements);
  worker.JoinAndSeed(std::vector<float>(kElements, 0.5f));
  worker.Contribute(0, std::vector<float>(kElements, 0.25f));
  // The global delta is published, so it is committed.
  auto request = worker.Signed<v1::SubscribeRequest>();
  request.add_next_rounds(0);
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto reader = worker.stub().Subscribe(&context, request);
  v1::SubscribeResponse message;
  ASSERT_TRUE(reader->Read(&message));
  coordinator.Kill();
  // Every journal, one bit in the first quarter: far from a tail that may be cut.
  int damaged = 0;
  for (const auto& entry : fs::directory_iterator(coordinator.data_folder())) {
    const std::string path = entry.path();
    if (path.find("journal") == std::string::npos) continue;
    std::string bytes = ReadFile(path);
    if (bytes.empty()) continue;
    bytes[bytes.size() / 4] ^= 1;
    WriteFile(path, bytes);
    ++damaged;
  }
  ASSERT_GT(damaged, 0);
  ExpectRefusal(RunOn(folder_.File("run.yaml"), "127.0.0.1:0"), 1, "journal");
}

TEST_F(ProgramTest, ExitsWhenTheRunHasFinishedIfToldSo) {
  const std::string port_file = folder_.File("ports.json");
  absl::StatusOr<Process> process =
      Process::Start({.arguments = {Program("diloco-coordinator"), "--config", folder_.File("run.yaml"), "--data-dir",
                                    folder_.File("data"), "--listen", "127.0.0.1:0", "--http", "none", "--port-file",
                                    port_file, "--exit-when-finished"},
                      .output_path = folder_.File("log")});
  ASSERT_TRUE(process.ok()) << process.status();
  ASSERT_TRUE(::diloco::testing::WaitForFile(port_file, kPatience).ok()) << ReadFile(folder_.File("log"));
  const std::string address = nlohmann::json::parse(ReadFile(port_file))["listen"];
  EXPECT_THAT(ReadFile(port_file), HasSubstr("\"http\":null"));
  WireWorker worker(address, "r1", "east", kElements);
  worker.JoinAndSeed(std::vector<float>(kElements, 1.0f));
  worker.Contribute(0, std::vector<float>(kElements, 0.25f));
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto session = worker.stub().Session(&context);
  auto request = worker.Signed<v1::SessionRequest>();
  request.set_leaving(true);
  session->Write(request);
  v1::SessionResponse directive;
  while (session->Read(&directive)) {
  }
  const absl::StatusOr<int> exit_code = process->Wait(kPatience);
  ASSERT_TRUE(exit_code.ok()) << ReadFile(folder_.File("log"));
  EXPECT_EQ(*exit_code, 0) << ReadFile(folder_.File("log"));
  // sgd with rate 1: 1 - 0.25 everywhere, in the final checkpoint.
  bool found = false;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.File("data/checkpoints"))) {
    if (entry.path().filename() != "model.safetensors") continue;
    found = true;
    EXPECT_THAT(ReadFile(entry.path()), ::testing::EndsWith(FloatBytes(std::vector<float>(kElements, 0.75f))));
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace diloco
