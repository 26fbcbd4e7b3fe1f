// Every line that real programs log, at the most talkative level, has the shape that common/log/log.h states, also
// where paths hold what breaks lines, quotes and terminals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

using nlohmann::json;
using testing::CoordinatorProcess;
using ::testing::HasSubstr;
using ::testing::IsSubsetOf;
using testing::kPatience;
using testing::Process;
using testing::ReadFile;
using testing::TempFolder;

constexpr char kConfig[] =
    "run: {id: logged, workers: 2, rounds: 3}\n"
    "method: eager\n"
    "inner_steps: 2\n"
    "inner: {batch_size: 2}\n"
    "model: {layers: 2, width: 16, heads: 1, sequence: 16}\n"
    "fragments: {count: 2}\n"
    "rounds: {heartbeat_interval: 100ms, lease: 60s}\n";
constexpr char kHostile[] = "a \"b\" \\ = {}\n\x1b[2J\xff";

// A line by the grammar, in the order of its keys; nullopt: it has another shape.
std::optional<std::vector<std::pair<std::string, std::string>>> ParseText(const std::string& line) {
  std::vector<std::pair<std::string, std::string>> fields;
  size_t at = 0;
  while (at < line.size()) {
    if (!fields.empty() && line[at++] != ' ') return std::nullopt;
    const size_t equals = line.find('=', at);
    if (equals == std::string::npos) return std::nullopt;
    const std::string key = line.substr(at, equals - at);
    if (key.empty() || key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != key.npos) return std::nullopt;
    at = equals + 1;
    size_t end = at;
    if (at < line.size() && line[at] == '"') {
      for (++end; end < line.size() && line[end] != '"'; ++end) {
        if (line[end] == '\\') ++end;
      }
      if (end++ >= line.size()) return std::nullopt;
      const json text = json::parse(line.substr(at, end - at), nullptr, /*allow_exceptions=*/false);
      if (!text.is_string()) return std::nullopt;
      fields.emplace_back(key, text.get<std::string>());
    } else {
      end = std::min(line.find(' ', at), line.size());
      const std::string bare = line.substr(at, end - at);
      if (bare.empty() || bare.find_first_of("\"=\\{}\x1b\xff") != bare.npos) return std::nullopt;
      fields.emplace_back(key, bare);
    }
    at = end;
  }
  return fields;
}

std::vector<std::string> Lines(const std::string& path) {
  std::vector<std::string> lines;
  std::istringstream in(ReadFile(path));
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// What trains: a worker without a model, which every build has, and the real one.
std::vector<std::vector<std::string>> WorkerPrograms(const TempFolder& folder) {
  std::vector<std::vector<std::string>> programs = {{DILOCO_SYNTHETIC_WORKER, "--elements", "100", "--tensors", "2"}};
#ifdef DILOCO_TRAINER
  const std::string data = folder.Write("text", std::string(20'000, 'x'));
  programs.push_back(
      {testing::Program("diloco-worker"), "--data", data, "--device", "cpu", "--threads", "1", "--progress", "none"});
#else
  (void)folder;
#endif
  return programs;
}

struct Logs {
  std::vector<std::string> coordinator;
  std::vector<std::string> worker;
};

// A whole run in folders of hostile names.
Logs RunProgram(const TempFolder& folder, const std::vector<std::string>& worker_program, const std::string& format) {
  const std::string program = std::filesystem::path(worker_program.front()).filename();
  const std::string hostile = folder.File(absl::StrCat(kHostile, format, program));
  std::filesystem::create_directory(hostile);
  const std::vector<std::string> flags = {"--log-level", "debug", "--log-format", format};
  std::vector<std::string> coordinator_flags = flags;
  coordinator_flags.push_back("--exit-when-finished");
  CoordinatorProcess coordinator(hostile, kConfig, {.arguments = coordinator_flags});
  EXPECT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  std::vector<Process> workers;
  for (const std::string id : {"w0", "w1"}) {
    std::vector<std::string> arguments = worker_program;
    arguments.insert(arguments.end(), {"--coordinator", coordinator.address(), "--id", id, "--checkpoint-folder",
                                       hostile + "/" + id, "--checkpoint-every", "1"});
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    absl::StatusOr<Process> worker =
        Process::Start({.arguments = arguments, .output_path = hostile + "/" + id + ".log"});
    EXPECT_TRUE(worker.ok()) << worker.status();
    if (worker.ok()) workers.push_back(*std::move(worker));
  }
  for (Process& worker : workers) EXPECT_EQ(worker.Wait(kPatience).value_or(-1), 0) << ReadFile(hostile + "/w0.log");
  EXPECT_EQ(coordinator.process().Wait(kPatience).value_or(-1), 0) << coordinator.Log();
  return {.coordinator = Lines(coordinator.log_path()), .worker = Lines(hostile + "/w0.log")};
}

const std::set<std::string> kLevels = {"debug", "info", "warning", "error"};
const std::set<std::string> kCoordinatorEvents = {"start", "ready", "worker_joined", "round_committed", "stopped"};
const std::set<std::string> kWorkerEvents = {"joined", "snapshot_taken", "checkpoint_written", "run_ended"};

void ExpectText(const std::vector<std::string>& lines, const std::set<std::string>& wanted) {
  std::set<std::string> events;
  for (const std::string& line : lines) {
    const auto fields = ParseText(line);
    ASSERT_TRUE(fields) << line;
    ASSERT_GE(fields->size(), 3u) << line;
    EXPECT_EQ((*fields)[0].first, "time") << line;
    EXPECT_EQ((*fields)[1].first, "level") << line;
    EXPECT_TRUE(kLevels.contains((*fields)[1].second)) << line;
    EXPECT_EQ((*fields)[2].first, "event") << line;
    std::map<std::string, std::string> by_key(fields->begin(), fields->end());
    EXPECT_EQ(by_key.size(), fields->size()) << "a key twice: " << line;
    if (wanted.contains(by_key["event"])) {
      EXPECT_EQ(by_key["run"], "logged") << line;
    }
    if (by_key["event"] == "checkpoint_written") {
      EXPECT_THAT(by_key["path"], HasSubstr("\n\x1b[2J\xef\xbf\xbd")) << line;
    }
    events.insert(by_key["event"]);
  }
  EXPECT_THAT(wanted, IsSubsetOf(events));
}

TEST(LogLinesTest, EveryLineOfTextIsKeysAndValues) {
  const TempFolder folder;
  for (const std::vector<std::string>& program : WorkerPrograms(folder)) {
    const Logs logs = RunProgram(folder, program, "text");
    ExpectText(logs.coordinator, kCoordinatorEvents);
    ExpectText(logs.worker, kWorkerEvents);
  }
}

void ExpectJson(const std::vector<std::string>& lines, const std::set<std::string>& wanted) {
  std::set<std::string> events;
  for (const std::string& line : lines) {
    const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(object.is_object()) << line;
    EXPECT_TRUE(object.at("time").is_string()) << line;
    EXPECT_TRUE(kLevels.contains(object.at("level"))) << line;
    for (const char* number : {"round", "fragment", "version", "step", "seconds"}) {
      if (object.contains(number)) {
        EXPECT_TRUE(object[number].is_number()) << line;
      }
    }
    events.insert(object.at("event"));
  }
  EXPECT_THAT(wanted, IsSubsetOf(events));
}

TEST(LogLinesTest, EveryLineOfJsonIsAnObject) {
  const TempFolder folder;
  for (const std::vector<std::string>& program : WorkerPrograms(folder)) {
    const Logs logs = RunProgram(folder, program, "json");
    ExpectJson(logs.coordinator, kCoordinatorEvents);
    ExpectJson(logs.worker, kWorkerEvents);
  }
}

// What ends a program is one more line, so that a collector of JSON sees why.
TEST(LogLinesTest, AFailureIsAJsonLineToo) {
  const TempFolder folder;
  const absl::StatusOr<testing::Finished> finished =
      testing::RunProcess({DILOCO_SYNTHETIC_WORKER, "--coordinator", "127.0.0.1:1", "--id", "not a name", "--elements",
                           "1", "--log-format", "json"},
                          kPatience);
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->exit_code, 2);
  const json object = json::parse(finished->errors, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(object.is_object()) << finished->errors;
  EXPECT_EQ(object.at("event"), "failed");
  EXPECT_THAT(object.at("reason").get<std::string>(), HasSubstr("not a name"));
}

}  // namespace
}  // namespace diloco
