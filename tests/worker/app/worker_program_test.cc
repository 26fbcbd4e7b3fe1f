// The program itself, before it is a member of a run: what it says, what it leaves behind and how it exits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// A port of loopback that is taken, and refuses connections unless it listens.
class TakenPort {
 public:
  explicit TakenPort(bool listens) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    DILOCO_CHECK(bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    DILOCO_CHECK(!listens || listen(socket_, 1) == 0);
    DILOCO_CHECK(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~TakenPort() { close(socket_); }

  const std::string& address() const { return address_; }

 private:
  int socket_;
  std::string address_;
};

class WorkerProgramTest : public ::testing::Test {
 protected:
  testing::Finished Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), testing::Program("diloco-worker"));
    auto finished = testing::RunProcess(arguments, testing::kPatience);
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.ok() ? *std::move(finished) : testing::Finished{};
  }

  // With what is needed, but `flag` as given.
  testing::Finished RunWith(const std::string& flag, const std::string& value) {
    std::vector<std::string> arguments;
    for (const auto& [name, usual] : usual_) {
      if (name != flag) arguments.insert(arguments.end(), {name, usual});
    }
    arguments.insert(arguments.end(), {flag, value});
    return Run(arguments);
  }

  // A worker that has started and looks for its coordinator.
  testing::Process StartWaiting() {
    std::vector<std::string> arguments = {testing::Program("diloco-worker"), "--http", "127.0.0.1:0", "--port-file",
                                          port_file_};
    for (const auto& [name, usual] : usual_) {
      arguments.insert(arguments.end(), {name, usual});
    }
    auto process = testing::Process::Start({.arguments = arguments});
    EXPECT_TRUE(process.ok()) << process.status();
    EXPECT_TRUE(testing::WaitForFile(port_file_, testing::kPatience).ok());
    return *std::move(process);
  }

  const TakenPort nobody_{/*listens=*/false};
  const testing::TempFolder folder_;
  const std::string data_ = folder_.Write("text", "some text to train on");
  const std::string port_file_ = folder_.File("ports.json");
  const std::map<std::string, std::string> usual_ = {
      {"--coordinator", nobody_.address()}, {"--id", "east"}, {"--data", data_}, {"--log-level", "error"}};
};

// One sentence on stderr, nothing on stdout, and the code.
#define EXPECT_REFUSED(finished, code, sentence)                                          \
  do {                                                                                    \
    const testing::Finished result = (finished);                                          \
    EXPECT_EQ(result.exit_code, code);                                                    \
    EXPECT_EQ(result.output, "");                                                         \
    EXPECT_THAT(result.errors, AllOf(MatchesRegex("diloco-worker: [^\n]*\n"), sentence)); \
  } while (false)

TEST_F(WorkerProgramTest, WrongFlagsAreUsageErrors) {
  EXPECT_REFUSED(Run({}), 2, HasSubstr("--coordinator"));
  EXPECT_REFUSED(Run({"--colour", "red"}), 2, HasSubstr("--colour"));
  EXPECT_REFUSED(RunWith("--log-level", "loud"), 2, HasSubstr("loud"));
}

TEST_F(WorkerProgramTest, BadInputsAreFoundBeforeTheCoordinatorIsAsked) {
  EXPECT_REFUSED(RunWith("--data", "/nowhere/text"), 2, HasSubstr("/nowhere/text"));
  EXPECT_REFUSED(RunWith("--data", folder_.Write("void", "")), 2, AllOf(HasSubstr("void"), HasSubstr("empty")));
  EXPECT_REFUSED(RunWith("--held-out", "/nowhere/test"), 2, HasSubstr("/nowhere/test"));
  EXPECT_REFUSED(RunWith("--device", "cuda:99"), 2, HasSubstr("cuda:99"));
  EXPECT_REFUSED(RunWith("--device", "abacus"), 2, HasSubstr("abacus"));
  EXPECT_REFUSED(RunWith("--init", "/nowhere/init"), 2, HasSubstr("/nowhere/init"));
  EXPECT_REFUSED(RunWith("--init", data_), 2, HasSubstr(data_));
  EXPECT_REFUSED(RunWith("--port-file", "/nowhere/ports"), 2, HasSubstr("/nowhere/ports"));
  EXPECT_REFUSED(RunWith("--trace", "/nowhere/trace"), 2, HasSubstr("--trace /nowhere/trace: cannot be written"));
  EXPECT_REFUSED(RunWith("--log-format", "xml"), 2, HasSubstr("use one of text, json"));
}

TEST_F(WorkerProgramTest, TokensBeyondTheVocabularyKeepItOutOfTheRun) {
  testing::CoordinatorProcess coordinator(folder_.path(),
                                          testing::ReadFile(testing::SourcePath("deploy/presets/35m.yaml")));
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  std::string tokens(20'000, '\0');
  tokens += std::string("\x00\x7d", 2);  // 32,000.
  const std::string data = folder_.Write("tokens.bin", tokens);
  EXPECT_REFUSED(Run({"--coordinator", coordinator.address(), "--id", "east", "--data", data, "--log-level", "error"}),
                 2, AllOf(HasSubstr(data), HasSubstr("token 32000 at byte 20000"), HasSubstr("vocabulary of 32000")));
  const auto workers = coordinator.Ctl({"worker", "list"});
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_EQ(workers->dump().find("east"), std::string::npos) << *workers;
}

TEST_F(WorkerProgramTest, PortInUseIsRefused) {
  const TakenPort taken(/*listens=*/true);
  EXPECT_REFUSED(RunWith("--http", taken.address()), 5, AllOf(HasSubstr("--http"), HasSubstr(taken.address())));
}

TEST_F(WorkerProgramTest, AbsentCoordinatorIsUnreachable) {
  EXPECT_REFUSED(RunWith("--connect-timeout", "300ms"), 3, HasSubstr(nobody_.address()));
}

TEST_F(WorkerProgramTest, HelpAndVersionGoToStdout) {
  const testing::Finished help = Run({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.output, HasSubstr("Examples:"));
  const testing::Finished version = Run({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.output, "diloco-worker " DILOCO_VERSION "\n");
  EXPECT_EQ(version.errors, "");
}

TEST_F(WorkerProgramTest, UnigramPrintsTheLossToBeat) {
  const std::string training = folder_.Write("training", "aaab");
  const testing::Finished finished = Run({"unigram", "--data", training, "--held-out", folder_.Write("test", "a")});
  EXPECT_EQ(finished.exit_code, 0);
  // ln(260 / 4) = 4.17439.
  EXPECT_EQ(finished.output, "unigram loss 4.1744 nats a token on 1 held-out tokens\n");
  EXPECT_REFUSED(Run({"unigram", "--data", training, "--held-out", folder_.Write("void", "")}), 2, HasSubstr("void"));
}

TEST_F(WorkerProgramTest, SimulationsWithBadInputAreRefused) {
  const std::string two = folder_.Write("two.yaml",
                                        "run: {id: r, workers: 2, rounds: 1}\ninner_steps: 1\n"
                                        "model: {layers: 1, width: 8, heads: 1, sequence: 8}\n");
  const std::string text = folder_.Write("text", std::string(500, 'x'));
  const auto simulate = [&](const std::string& config, std::vector<std::string> more) {
    more.insert(more.begin(), {"simulate", "--config", config, "--threads", "1"});
    return Run(more);
  };
  const std::vector<std::string> both = {"--worker", "east=" + text, "--worker", "west=" + text};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), both.begin(), both.end());
    return more;
  };
  EXPECT_REFUSED(simulate(two, {}), 2, HasSubstr("--worker"));
  EXPECT_REFUSED(simulate(two, {"--worker", text}), 2, HasSubstr("NAME=DATA"));
  EXPECT_REFUSED(simulate(two, {"--worker", "east="}), 2, HasSubstr("NAME=DATA"));
  EXPECT_REFUSED(simulate(two, {"--worker", "no name=" + text}), 2, HasSubstr("worker id"));
  EXPECT_REFUSED(simulate(two, {"--worker", "east=" + text}), 2, HasSubstr("run.workers: 2, and there are 1 --worker"));
  EXPECT_REFUSED(simulate(two, with({"--worker", "north=" + text})), 2, HasSubstr("there are 3 --worker"));
  EXPECT_REFUSED(simulate(two, with({"--worker", "east=" + text})), 2, HasSubstr("east is named twice"));
  EXPECT_REFUSED(simulate(two, {"--worker", "east=" + text, "--worker", "west=/nowhere/text"}), 2,
                 HasSubstr("/nowhere/text"));
  EXPECT_REFUSED(simulate("/nowhere/run.yaml", both), 2, HasSubstr("--config /nowhere/run.yaml"));
  EXPECT_REFUSED(simulate(folder_.Write("bad.yaml", "run: {id: r, workers: 2, rounds: 1}\nmethud: eager\n"), both), 2,
                 HasSubstr("bad.yaml:2:1: unknown key \"methud\""));
  EXPECT_REFUSED(simulate(folder_.Write("no_model.yaml", "run: {id: r, workers: 2, rounds: 1}\n"), both), 5,
                 HasSubstr("run r has no `model`"));
  EXPECT_REFUSED(simulate(two, with({"--held-out", "/nowhere/test"})), 2, HasSubstr("/nowhere/test"));
  EXPECT_REFUSED(simulate(two, with({"--device", "abacus"})), 2, HasSubstr("abacus"));
  EXPECT_REFUSED(simulate(two, with({"--out", "/nowhere/lines"})), 2, HasSubstr("--out /nowhere/lines"));
}

TEST_F(WorkerProgramTest, SimulatesIntoAFile) {
  const std::string config = folder_.Write("one.yaml",
                                           "run: {id: r, workers: 1, rounds: 4}\ninner_steps: 2\neval: {every: 2}\n"
                                           "inner: {batch_size: 3}\n"
                                           "model: {layers: 1, width: 8, heads: 1, sequence: 8}\n");
  const std::string out = folder_.Write("lines", "of an earlier run\n");
  const testing::Finished finished = Run({"simulate", "--config", config, "--threads", "1", "--out", out, "--worker",
                                          "east=" + folder_.Write("text", std::string(500, 'x'))});
  EXPECT_EQ(finished.exit_code, 0) << finished.errors;
  EXPECT_EQ(finished.output, "");
  std::istringstream lines(testing::ReadFile(out));
  std::vector<nlohmann::json> reports;
  for (std::string line; std::getline(lines, line);) reports.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0]["version"], 2);
  EXPECT_EQ(reports[1]["version"], 4);
  EXPECT_EQ(reports[1]["step"], 8);
  EXPECT_EQ(reports[1]["tokens"], 8 * 3 * 8);
  EXPECT_GT(reports[1]["loss"], 0);
  EXPECT_LT(reports[1]["loss"], reports[0]["loss"]);
}

TEST_F(WorkerProgramTest, ServesItsStateWhileItWaits) {
  testing::Process process = StartWaiting();
  const nlohmann::json ports = nlohmann::json::parse(testing::ReadFile(port_file_));
  EXPECT_EQ(ports["pid"], process.pid());
  httplib::Client client("http://" + ports["http"].get<std::string>());
  const auto health = client.Get("/healthz");
  ASSERT_TRUE(health);
  EXPECT_EQ(health->status, 200);
  const auto ready = client.Get("/readyz");
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->status, 503);
  const auto metrics = client.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_THAT(metrics->body, HasSubstr("\ndiloco_inner_steps_total 0\n"));
}

TEST_F(WorkerProgramTest, TerminationIsNoFailureAndLeavesNothing) {
  testing::Process process = StartWaiting();
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(testing::kPatience).value(), 0);
  EXPECT_FALSE(std::filesystem::exists(port_file_));
}

TEST_F(WorkerProgramTest, InterruptHasItsOwnCode) {
  testing::Process process = StartWaiting();
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(testing::kPatience).value(), 130);
  EXPECT_FALSE(std::filesystem::exists(port_file_));
}

}  // namespace
}  // namespace diloco
