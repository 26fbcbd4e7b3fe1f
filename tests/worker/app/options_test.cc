#include "worker/app/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

namespace diloco {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<WorkerCommand> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "diloco-worker");
  return ParseWorkerCommand(static_cast<int>(arguments.size()), arguments.data());
}

WorkerFlags ParseFlags(std::vector<const char*> more) {
  more.insert(more.begin(), {"--coordinator", "host:7070", "--id", "east", "--data", "text"});
  const auto command = Parse(more);
  EXPECT_TRUE(command.ok()) << command.status();
  return command.ok() ? std::get<WorkerFlags>(*command) : WorkerFlags{};
}

std::string Error(const std::vector<const char*>& arguments) {
  const auto command = Parse(arguments);
  EXPECT_EQ(command.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(command.status().message());
}

std::string ErrorWith(std::vector<const char*> more) {
  more.insert(more.begin(), {"--coordinator", "host:7070", "--id", "east", "--data", "text"});
  return Error(more);
}

TEST(OptionsTest, ThreeFlagsAreEnough) {
  const WorkerFlags flags = ParseFlags({});
  EXPECT_EQ(flags.coordinator.ToString(), "host:7070");
  EXPECT_EQ(flags.id, "east");
  EXPECT_EQ(flags.data, "text");
  EXPECT_EQ(flags.device, "auto");
  EXPECT_GE(flags.threads, 1);
  EXPECT_FALSE(flags.http.has_value());
  EXPECT_EQ(flags.progress, ProgressStyle::kAuto);
  EXPECT_EQ(flags.connect_timeout, absl::Minutes(1));
}

TEST(OptionsTest, ReadsEveryFlag) {
  const WorkerFlags flags =
      ParseFlags({"--held-out",  "test",          "--device",          "cuda:1", "--run",           "r1",
                  "--init",      "a.safetensors", "--threads",         "3",      "--http",          "127.0.0.1:0",
                  "--port-file", "p.json",        "--connect-timeout", "1500ms", "--give-up-after", "2h",
                  "--progress",  "plain",         "--log-level",       "error"});
  EXPECT_EQ(flags.held_out, "test");
  EXPECT_EQ(flags.device, "cuda:1");
  EXPECT_EQ(flags.run_id, "r1");
  EXPECT_EQ(flags.init, "a.safetensors");
  EXPECT_EQ(flags.threads, 3);
  ASSERT_TRUE(flags.http.has_value());
  EXPECT_EQ(flags.http->ToString(), "127.0.0.1:0");
  EXPECT_EQ(flags.port_file, "p.json");
  EXPECT_EQ(flags.connect_timeout, absl::Milliseconds(1500));
  EXPECT_EQ(flags.give_up_after, absl::Hours(2));
  EXPECT_EQ(flags.progress, ProgressStyle::kPlain);
  EXPECT_EQ(flags.log.level, "error");
}

TEST(OptionsTest, FlagsWinOverVariables) {
  setenv("DILOCO_DEVICE", "cpu", 1);
  setenv("DILOCO_RUN", "from-variable", 1);
  const WorkerFlags flags = ParseFlags({"--run", "from-flag"});
  unsetenv("DILOCO_DEVICE");
  unsetenv("DILOCO_RUN");
  EXPECT_EQ(flags.device, "cpu");
  EXPECT_EQ(flags.run_id, "from-flag");
}

TEST(OptionsTest, TlsTakesAllThreeFiles) {
  const WorkerFlags flags = ParseFlags({"--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"});
  EXPECT_EQ(flags.tls.certificate, "c");
  EXPECT_EQ(flags.tls.key, "k");
  EXPECT_EQ(flags.tls.authority, "a");
  EXPECT_THAT(ErrorWith({"--tls-key", "k"}), HasSubstr("--tls-cert is missing"));
}

TEST(OptionsTest, MissingFlagIsNamed) {
  EXPECT_THAT(Error({}), HasSubstr("--coordinator is required"));
  EXPECT_THAT(Error({"--coordinator", "host:7070"}), HasSubstr("--id is required"));
  EXPECT_THAT(Error({"--coordinator", "host:7070", "--id", "east"}), HasSubstr("--data is required"));
}

TEST(OptionsTest, WrongValueIsNamed) {
  EXPECT_THAT(ErrorWith({"--coordinator", "host"}), HasSubstr("--coordinator"));
  EXPECT_THAT(ErrorWith({"--http", "7070"}), HasSubstr("--http"));
  EXPECT_THAT(ErrorWith({"--threads", "0"}), HasSubstr("--threads"));
  EXPECT_THAT(ErrorWith({"--threads", "many"}), HasSubstr("--threads"));
  EXPECT_THAT(ErrorWith({"--threads", "1025"}), HasSubstr("--threads: Value 1025 not in range 1 to 1024"));
  EXPECT_THAT(ErrorWith({"--progress", "loud"}), HasSubstr("--progress"));
  EXPECT_THAT(ErrorWith({"--connect-timeout", "30"}), AllOf(HasSubstr("--connect-timeout 30"), HasSubstr("30s")));
  EXPECT_THAT(ErrorWith({"--give-up-after", "-1s"}), HasSubstr("--give-up-after"));
  EXPECT_THAT(ErrorWith({"--run", "a b"}), HasSubstr("run id"));
  EXPECT_THAT(ErrorWith({"--colour"}), AllOf(HasSubstr("--colour"), HasSubstr("--help")));
  EXPECT_THAT(Error({"--coordinator", "host:7070", "--data", "text", "--id", "dc\"1"}), HasSubstr("worker id"));
}

TEST(OptionsTest, HelpAndVersionAreTexts) {
  EXPECT_THAT(std::get<TextToPrint>(*Parse({"--help"})).text, AllOf(HasSubstr("Examples:"), HasSubstr("--held-out")));
  EXPECT_EQ(std::get<TextToPrint>(*Parse({"--version"})).text, "diloco-worker " DILOCO_VERSION "\n");
}

TEST(OptionsTest, UnigramNeedsItsTwoFilesOnly) {
  const auto command = Parse({"unigram", "--data", "train", "--held-out", "test", "--vocabulary", "50257"});
  ASSERT_TRUE(command.ok()) << command.status();
  const auto& flags = std::get<UnigramFlags>(*command);
  EXPECT_EQ(flags.data, "train");
  EXPECT_EQ(flags.held_out, "test");
  EXPECT_EQ(flags.vocabulary, 50257);
  EXPECT_THAT(Error({"unigram", "--data", "train"}), HasSubstr("--held-out"));
}

TEST(OptionsTest, ReadsASimulation) {
  const auto command = Parse({"simulate", "--config", "run.yaml", "--worker", "east=a=b", "--worker", "west=text"});
  ASSERT_TRUE(command.ok()) << command.status();
  const SimulateFlags& flags = std::get<SimulateFlags>(*command);
  EXPECT_EQ(flags.config, "run.yaml");
  ASSERT_EQ(flags.workers.size(), 2u);
  EXPECT_EQ(flags.workers[0].id, "east");
  EXPECT_EQ(flags.workers[0].data, "a=b");
  EXPECT_EQ(flags.workers[1].id, "west");
  EXPECT_EQ(flags.out, "-");
  EXPECT_EQ(flags.device, "auto");
  EXPECT_GE(flags.threads, 1);
}

}  // namespace
}  // namespace diloco
