// What real programs say to each other's bad input: one sentence and the documented exit code, and nothing stays
// behind or is disturbed. What a program finds wrong alone is tested with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using testing::CoordinatorProcess;
using ::testing::EndsWith;
using testing::Finished;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::Process;
using testing::Program;
using testing::RunProcess;
using testing::TempFolder;

constexpr char kConfig[] =
    "run: {id: here, workers: 2, rounds: 3}\n"
    "method: diloco\n"
    "inner_steps: 2\n"
    "fragments: {count: 1}\nwire: {uplink: fp32, downlink: fp32}\n"
    "rounds: {heartbeat_interval: 100ms, lease: 60s}\n";
// Nothing listens there: whoever goes by it gets nowhere.
const std::vector<std::string> kBadProxy = {"http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9",
                                            "grpc_proxy=http://127.0.0.1:9"};

// Everything but log lines, which tell what had worked before.
std::vector<std::string> Sentences(const std::string& errors) {
  std::vector<std::string> sentences;
  for (std::string& line : std::vector<std::string>(absl::StrSplit(errors, '\n', absl::SkipEmpty()))) {
    if (line.rfind("time=", 0) != 0) sentences.push_back(std::move(line));
  }
  return sentences;
}

class BadInputTest : public ::testing::Test {
 protected:
  Finished Run(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}) const {
    absl::StatusOr<Finished> finished = RunProcess(arguments, kPatience, environment);
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.ok() ? *std::move(finished) : Finished{};
  }

  // One sentence, behind all else that was written.
  void ExpectRefusal(const Finished& finished, int exit_code, const std::string& part) const {
    EXPECT_EQ(finished.exit_code, exit_code);
    EXPECT_EQ(finished.output, "");
    const std::vector<std::string> sentences = Sentences(finished.errors);
    ASSERT_EQ(sentences.size(), 1u) << finished.errors;
    EXPECT_THAT(sentences.front(), HasSubstr(part));
    EXPECT_THAT(finished.errors, EndsWith(sentences.front() + "\n"));
  }

  std::vector<std::string> Synthetic(const std::string& id, int elements) const {
    return {DILOCO_SYNTHETIC_WORKER, "--coordinator", coordinator_.address(), "--id", id, "--elements",
            std::to_string(elements)};
  }

  std::vector<std::string> Members() const {
    const absl::StatusOr<json> list = coordinator_.Ctl({"worker", "list"});
    EXPECT_TRUE(list.ok()) << list.status();
    std::vector<std::string> members;
    if (!list.ok()) return members;
    for (const json& worker : list->value("workers", json::array())) members.push_back(worker.at("worker_id"));
    return members;
  }

  // A member that waits for the second one.
  Process StartMember() const {
    absl::StatusOr<Process> worker = Process::Start({.arguments = Synthetic("w0", 100), .output_path = log_});
    EXPECT_TRUE(worker.ok()) << worker.status();
    const absl::Time deadline = absl::Now() + kPatience;
    while (Members().empty() && absl::Now() < deadline) {
    }
    return *std::move(worker);
  }

  const TempFolder folder_;
  const std::string log_ = folder_.File("w0.log");
  CoordinatorProcess coordinator_{folder_.path(), kConfig};
};

TEST_F(BadInputTest, AWorkerThatDoesNotBelongHereIsRefusedAndTheRunGoesOn) {
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  Process member = StartMember();
  auto of_another_run = Synthetic("w1", 100);
  of_another_run.insert(of_another_run.end(), {"--run", "elsewhere"});
  ExpectRefusal(Run(of_another_run), 4, "run \"elsewhere\" is not here: this coordinator has run \"here\"");
  ExpectRefusal(Run(Synthetic("w1", 101)), 5, "worker \"w1\" has another model than the run: tensor 0, \"drift0\"");
  ExpectRefusal(Run(Synthetic("w0", 100)), 5, "worker id \"w0\" is in use");
  EXPECT_EQ(Members(), std::vector<std::string>{"w0"});
  EXPECT_TRUE(member.running());

  // With the right one all ends well.
  EXPECT_EQ(Run(Synthetic("w1", 100)).exit_code, 0);
  const absl::StatusOr<int> exit_code = member.Wait(kPatience);
  ASSERT_TRUE(exit_code.ok()) << testing::ReadFile(log_);
  EXPECT_EQ(*exit_code, 0) << testing::ReadFile(log_);
}

TEST_F(BadInputTest, ADilococtlOfAnotherRunOrRoundIsRefused) {
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  const std::string ctl = Program("dilococtl");
  ExpectRefusal(Run({ctl, "--coordinator", coordinator_.address(), "--run", "elsewhere", "status"}), 4,
                "run \"elsewhere\" is not here");
  ExpectRefusal(Run({ctl, "--coordinator", coordinator_.address(), "round", "describe", "99"}), 4, "round 99");
  ExpectRefusal(Run({ctl, "--coordinator", coordinator_.address(), "checkpoint", "save"}), 5, "");
}

TEST_F(BadInputTest, AProxyInTheEnvironmentIsNotUsed) {
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  Process member = StartMember();
  const Finished status = Run({Program("dilococtl"), "--coordinator", coordinator_.address(), "status"}, kBadProxy);
  EXPECT_EQ(status.exit_code, 0) << status.errors;
  const Finished worker = Run(Synthetic("w1", 100), kBadProxy);
  EXPECT_EQ(worker.exit_code, 0) << worker.errors;
}

class SecondCoordinatorTest : public BadInputTest {
 protected:
  // Another coordinator with the first one's files, but for `flags`.
  Finished RunSecond(const std::vector<std::string>& flags) const {
    std::vector<std::string> arguments = {Program("diloco-coordinator"), "--config", folder_.File("run.yaml"),
                                          "--port-file", ports_};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Run(arguments);
  }

  const std::string ports_ = folder_.File("ports.json");
};

TEST_F(SecondCoordinatorTest, LeavesTheFirstAlone) {
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  const std::string ports = testing::ReadFile(ports_);
  const std::string http = absl::StrFormat("127.0.0.1:%d", coordinator_.http_port());
  const std::string data = coordinator_.data_folder();
  const std::string other = folder_.File("other");
  ExpectRefusal(RunSecond({"--data-dir", other, "--listen", coordinator_.address(), "--http", "none"}), 5,
                "--listen " + coordinator_.address() + ": the port is in use");
  ExpectRefusal(RunSecond({"--data-dir", other, "--listen", "127.0.0.1:0", "--http", http}), 5,
                "--http " + http + ": the port is in use");
  EXPECT_FALSE(fs::exists(other));
  ExpectRefusal(RunSecond({"--data-dir", data, "--listen", "127.0.0.1:0", "--http", "none"}), 5,
                absl::StrFormat("is held by \"diloco-coordinator pid %d", coordinator_.process().pid()));
  EXPECT_EQ(testing::ReadFile(ports_), ports);
  EXPECT_TRUE(coordinator_.Ctl({"status"}).ok());
}

TEST_F(SecondCoordinatorTest, TheFolderOfAnotherRunIsRefusedAndKept) {
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  {
    const Process member = StartMember();  // With the first one the run is made.
  }
  EXPECT_EQ(*coordinator_.Stop(), 0);
  std::string config = kConfig;
  config.replace(config.find("id: here"), 8, "id: else");
  const std::string changed = folder_.Write("changed.yaml", config);
  ExpectRefusal(Run({Program("diloco-coordinator"), "--config", changed, "--data-dir", coordinator_.data_folder(),
                     "--listen", "127.0.0.1:0", "--http", "none", "--port-file", ports_}),
                5, "the data folder holds a run with run.id here, the configuration says else");
  EXPECT_FALSE(fs::exists(ports_));
  EXPECT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
}

TEST_F(BadInputTest, ACoordinatorThatCannotStartMakesNothing) {
  const std::string data = folder_.File("deep/data");
  const auto run = [&](const std::string& config, const std::string& data_folder, const std::string& port_file) {
    return Run({Program("diloco-coordinator"), "--config", config, "--data-dir", data_folder, "--listen", "127.0.0.1:0",
                "--http", "none", "--port-file", port_file});
  };
  const std::string good = folder_.File("run.yaml");
  const std::string ports = folder_.File("ports.json");
  const std::string nowhere = folder_.File("nowhere/ports.json");
  ExpectRefusal(run(good, data, nowhere), 2, "--port-file " + nowhere);
  ExpectRefusal(run(folder_.Write("unknown.yaml", std::string(kConfig) + "methud: eager\n"), data, ports), 2,
                "unknown.yaml:7:1: unknown key \"methud\"");
  ExpectRefusal(run(folder_.Write("contradiction.yaml", std::string(kConfig) + "max_late: 1\n"), data, ports), 2,
                "contradiction.yaml:7:11: max_late: method diloco allows only 0");
  ExpectRefusal(run(good, folder_.Write("file", "x"), ports), 2, "--data-dir");
  EXPECT_FALSE(fs::exists(folder_.File("deep")));
  EXPECT_FALSE(fs::exists(ports));
  EXPECT_FALSE(fs::exists(folder_.File("nowhere")));
}

#ifdef DILOCO_TRAINER
constexpr char kModelConfig[] =
    "run: {id: here, workers: 1, rounds: 2}\n"
    "method: eager\n"
    "inner_steps: 2\n"
    "model: {layers: 1, width: 32, heads: 1, sequence: 16}\n";

class BadWorkerInputTest : public BadInputTest {
 protected:
  Finished RunWorker(const CoordinatorProcess& coordinator, const std::vector<std::string>& flags,
                     const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> arguments = {Program("diloco-worker"),
                                          "--coordinator",
                                          coordinator.address(),
                                          "--id",
                                          "east",
                                          "--http",
                                          "127.0.0.1:0",
                                          "--port-file",
                                          ports_,
                                          "--threads",
                                          "1",
                                          "--progress",
                                          "none"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return Run(arguments, environment);
  }

  const std::string ports_ = folder_.File("worker.json");
  const TempFolder model_folder_;
  CoordinatorProcess model_run_{model_folder_.path(), kModelConfig};
};

TEST_F(BadWorkerInputTest, IsRefusedAndThenItsRunEndsWell) {
  ASSERT_TRUE(model_run_.Start().ok()) << model_run_.Log();
  const std::string enough = folder_.Write("enough", std::string(2000, 'x'));
  const std::string little = folder_.Write("little", std::string(16, 'x'));
  ExpectRefusal(RunWorker(model_run_, {"--data", little}), 2, "data `" + little + "` has 16 tokens to train on");
  ExpectRefusal(RunWorker(model_run_, {"--data", enough, "--held-out", little}), 2, "held-out data `" + little + "`");
  ExpectRefusal(RunWorker(model_run_, {"--data", enough, "--run", "elsewhere"}), 4, "run \"elsewhere\" is not here");
  EXPECT_FALSE(fs::exists(ports_));
  // None of them became a member; and a proxy that the environment names is not asked.
  const Finished good = RunWorker(model_run_, {"--data", enough, "--run", "here"}, kBadProxy);
  EXPECT_EQ(good.exit_code, 0) << good.errors;
  EXPECT_FALSE(fs::exists(ports_));
}

TEST_F(BadWorkerInputTest, ARunWithoutAModelIsForOthers) {
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  const std::string data = folder_.Write("enough", std::string(2000, 'x'));
  ExpectRefusal(RunWorker(coordinator_, {"--data", data}), 5, "run here has no `model`");
}
#endif

}  // namespace
}  // namespace diloco
