// Both programs in the middle of a run, as Prometheus sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

using testing::CoordinatorProcess;
using testing::Finished;
using ::testing::HasSubstr;
using testing::kPatience;
using ::testing::Not;
using testing::Process;
using testing::Program;
using testing::RunProcess;
using testing::TempFolder;

std::string Config(int workers, int rounds) {
  return absl::StrFormat(
      "run: {id: seen, workers: %d, rounds: %d}\n"
      "method: diloco\n"
      "inner_steps: 2\n"
      "fragments: {count: 1}\n"
      "rounds: {heartbeat_interval: 50ms, lease: 60s, snapshot_every: 2}\n"
      "model: {layers: 1, width: 32, heads: 1, sequence: 16}\n",
      workers, rounds);
}
constexpr int kForever = 1000000;  // Rounds.

// Names under the headings of common/metrics/names.h that begin so.
std::set<std::string> NamesUnder(const std::vector<std::string>& headings) {
  std::ifstream file(testing::SourcePath("common/metrics/names.h"));
  const std::regex heading("// ---- (.*) ----");
  const std::regex name("\"((diloco|process)_[a-z_]+)\"");
  std::set<std::string> names;
  bool wanted = false;
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, match, heading)) {
      wanted = false;
      for (const std::string& begin : headings) wanted = wanted || match[1].str().rfind(begin, 0) == 0;
    } else if (wanted && std::regex_search(line, match, name)) {
      names.insert(match[1]);
    }
  }
  return names;
}

std::string Get(int port, const std::string& path) {
  httplib::Client client("127.0.0.1", port);
  const httplib::Result result = client.Get(path);
  return result && result->status == 200 ? result->body : "";
}

// Scrapes until `series`, a whole line, is there or, as asked, no longer there.
std::string ScrapeUntil(int port, const std::string& series, bool there) {
  const std::regex line("(^|\n)" + series + "\n");
  const absl::Time deadline = absl::Now() + kPatience;
  std::string scrape;
  do {
    scrape = Get(port, "/metrics");
    if (!scrape.empty() && std::regex_search(scrape, line) == there) return scrape;
  } while (absl::Now() < deadline);
  ADD_FAILURE() << "a series is " << (there ? "not there: " : "still there: ") << series << "\n" << scrape;
  return scrape;
}

void ExpectNames(const std::string& scrape, const std::set<std::string>& names) {
  EXPECT_GT(names.size(), 10u) << "the headings have changed";
  for (const std::string& name : names) {
    EXPECT_THAT(scrape, HasSubstr("# HELP " + name + " "));
    EXPECT_TRUE(std::regex_search(scrape, std::regex("\n" + name + "(_count)?(\\{[^\n]*\\})? "))) << name;
  }
}

void ExpectPromtoolAccepts(const std::string& scrape) {
  const TempFolder folder;
  const std::string path = folder.Write("scrape", scrape);
  const absl::StatusOr<Finished> checked =
      RunProcess({"/bin/sh", "-c", "promtool check metrics < \"$0\"", path}, kPatience);
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->exit_code, 0);
  EXPECT_EQ(checked->output, "");
  EXPECT_EQ(checked->errors, "");
}

std::string PortFile(const std::string& log) { return log + ".json"; }

// The HTTP port of a worker that writes this log.
int WorkerPort(const std::string& log) {
  EXPECT_TRUE(testing::WaitForFile(PortFile(log), kPatience).ok()) << testing::ReadFile(log);
  const std::string http = nlohmann::json::parse(testing::ReadFile(PortFile(log))).at("http");
  return std::stoi(http.substr(http.rfind(':') + 1));
}

Process StartSynthetic(const CoordinatorProcess& coordinator, const std::string& id, const std::string& log) {
  absl::StatusOr<Process> worker =
      Process::Start({.arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", coordinator.address(), "--id", id,
                                    "--elements", "100", "--step-ms", "5", "--port-file", PortFile(log)},
                      .output_path = log});
  EXPECT_TRUE(worker.ok()) << worker.status();
  return *std::move(worker);
}

TEST(MetricsTest, TheCoordinatorIsSeenWhole) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), Config(2, kForever));
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  const Process first = StartSynthetic(coordinator, "w0", folder.File("w0.log"));
  const Process second = StartSynthetic(coordinator, "w1", folder.File("w1.log"));
  ScrapeUntil(coordinator.http_port(), "diloco_round_newest_committed [1-9][0-9]*", true);
  ScrapeUntil(coordinator.http_port(), "diloco_worker_inner_steps\\{worker=\"w0\"\\} [1-9][0-9]*", true);
  const std::string scrape =
      ScrapeUntil(coordinator.http_port(), "diloco_worker_inner_steps\\{worker=\"w1\"\\} [1-9][0-9]*", true);
  EXPECT_THAT(scrape, HasSubstr("\ndiloco_run_phase{phase=\"training\"} 1\n"));
  EXPECT_THAT(scrape, HasSubstr("\ndiloco_workers{state=\"alive\"} 2\n"));
  ExpectNames(scrape, NamesUnder({"Both", "Coordinator"}));
  ExpectPromtoolAccepts(scrape);
  EXPECT_NE(Get(coordinator.http_port(), "/healthz"), "");
}

TEST(MetricsTest, TheSeriesOfAWorkerThatLeftAreGone) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), Config(1, 2));
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  Process worker = StartSynthetic(coordinator, "w0", folder.File("w0.log"));
  const absl::StatusOr<int> exit_code = worker.Wait(kPatience);
  ASSERT_TRUE(exit_code.ok() && *exit_code == 0) << testing::ReadFile(folder.File("w0.log"));
  const std::string scrape = ScrapeUntil(coordinator.http_port(), "diloco_workers\\{state=\"left\"\\} 1", true);
  EXPECT_THAT(scrape, Not(HasSubstr("worker=\"w0\"")));
  EXPECT_THAT(scrape, HasSubstr("\ndiloco_worker_joins_total{kind=\"new\"} 1\n"));
  ExpectPromtoolAccepts(scrape);
}

TEST(MetricsTest, ASyntheticWorkerIsSeenAsAWorkerIs) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), Config(1, kForever));
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  const std::string log = folder.File("w0.log");
  const Process worker = StartSynthetic(coordinator, "w0", log);
  const std::string scrape = ScrapeUntil(WorkerPort(log), "diloco_uploads_total [1-9][0-9]*", true);
  ExpectNames(scrape, NamesUnder({"Both", "Worker"}));
  ExpectPromtoolAccepts(scrape);
}

// Its training thread says nothing meanwhile.
TEST(MetricsTest, AWorkerThatWaitsForTheCoordinatorShowsIt) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), Config(1, kForever));
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  const std::string log = folder.File("w0.log");
  const Process worker = StartSynthetic(coordinator, "w0", log);
  const int port = WorkerPort(log);
  ScrapeUntil(port, "diloco_connected 1", true);
  ScrapeUntil(port, "diloco_consensus_version [1-9][0-9]*", true);
  coordinator.Kill();
  ScrapeUntil(port, "diloco_connected 0", true);
  const auto blocked = [port] {
    std::smatch match;
    const std::string scrape = Get(port, "/metrics");
    const bool found = std::regex_search(scrape, match, std::regex("\ndiloco_blocked_seconds_total ([0-9.e+-]+)\n"));
    EXPECT_TRUE(found) << scrape;
    return found ? std::stod(match[1]) : 0;
  };
  const double before = blocked();
  const absl::Time deadline = absl::Now() + kPatience;
  while (blocked() < before + 1 && absl::Now() < deadline) {
  }
  EXPECT_GE(blocked(), before + 1);
}

#ifdef DILOCO_TRAINER
TEST(MetricsTest, AWorkerIsSeenWhole) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), Config(1, kForever));
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  const std::string log = folder.File("worker.log");
  const absl::StatusOr<Process> worker =
      Process::Start({.arguments = {Program("diloco-worker"), "--coordinator", coordinator.address(), "--id", "east",
                                    "--data", folder.Write("text", std::string(5000, 'x')), "--threads", "1", "--http",
                                    "127.0.0.1:0", "--port-file", PortFile(log), "--progress", "none"},
                      .output_path = log});
  ASSERT_TRUE(worker.ok()) << worker.status();
  const int port = WorkerPort(log);
  const std::string scrape = ScrapeUntil(port, "diloco_consensus_version [1-9][0-9]*", true);
  ExpectNames(scrape, NamesUnder({"Both", "Worker"}));
  ExpectPromtoolAccepts(scrape);
  EXPECT_NE(Get(port, "/healthz"), "");
  EXPECT_NE(Get(port, "/readyz"), "");
}
#endif

}  // namespace
}  // namespace diloco
