#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "absl/time/clock.h"

#include "common/metrics/coordinator_metrics.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/worker_metrics.h"

namespace diloco {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kMethods[] = {"Join", "Upload"};
constexpr const char* kPhases[] = {"seeding", "training"};
constexpr const char* kVerdicts[] = {"stored", "refused"};
constexpr const char* kDiskUsers[] = {"journal"};
constexpr const char* kCauses[] = {"disk"};
constexpr const char* kOutcomes[] = {"merged", "dropped_late"};
constexpr const char* kRefusals[] = {"role"};
constexpr const char* kLimits[] = {"call_rate"};
constexpr CoordinatorMetrics::LabelValues kLabels = {kMethods, kPhases,   kVerdicts, kDiskUsers,
                                                     kCauses,  kOutcomes, kRefusals, kLimits};

std::string Scrape(const prometheus::Registry& registry) {
  return prometheus::TextSerializer().Serialize(registry.Collect());
}

TEST(CoordinatorMetricsTest, EverySeriesStartsAtZero) {
  prometheus::Registry registry;
  const CoordinatorMetrics metrics(registry, kLabels);
  const std::string scrape = Scrape(registry);
  for (const char* line :
       {"diloco_contribution_chunks_total{outcome=\"accepted\"} 0",
        "diloco_contribution_chunks_total{outcome=\"corrupt\"} 0", "diloco_contributions_total{verdict=\"refused\"} 0",
        "diloco_run_phase{phase=\"training\"} 0", "diloco_workers{state=\"alive\"} 0",
        "diloco_rpc_server_open{method=\"Upload\"} 0", "diloco_rpc_server_handled_total{code=\"OK\",method=\"Join\"} 0",
        "diloco_round_duration_seconds_count 0", "diloco_disk_refusals_total{what=\"journal\"} 0",
        "diloco_run_held{cause=\"disk\"} 0", "diloco_contributions_settled_total{outcome=\"dropped_late\"} 0",
        "diloco_checkpoints_total{outcome=\"failed\"} 0", "diloco_evaluation_loss Nan"}) {
    EXPECT_THAT(scrape, HasSubstr(line));
  }
  EXPECT_THAT(scrape,
              testing::ContainsRegex("diloco_build_info\\{commit=\"([0-9a-f]{12,}|unknown)\",version=\"" DILOCO_VERSION
                                     "\"\\} 1\n"));
}

TEST(CoordinatorMetricsTest, ASeriesOfAWorkerLivesAsLongAsItsMembership) {
  prometheus::Registry registry;
  CoordinatorMetrics metrics(registry, kLabels);
  v1::WorkerProgress progress;
  progress.set_step(90);
  progress.set_blocked_seconds(1);
  progress.set_wall_seconds(4);
  metrics.SetWorker("east", progress, 1000.5);
  metrics.SetWorker("west", progress, 1001);
  std::string scrape = Scrape(registry);
  EXPECT_THAT(scrape, HasSubstr("diloco_worker_inner_steps{worker=\"east\"} 90"));
  EXPECT_THAT(scrape, HasSubstr("diloco_worker_utilization_ratio{worker=\"east\"} 0.75"));
  EXPECT_THAT(scrape, HasSubstr("diloco_worker_last_heartbeat_timestamp_seconds{worker=\"east\"} 1000.5"));
  metrics.RemoveWorker("east");
  metrics.RemoveWorker("never-there");
  scrape = Scrape(registry);
  EXPECT_THAT(scrape, Not(HasSubstr("east")));
  EXPECT_THAT(scrape, HasSubstr("worker=\"west\""));
}

TEST(CoordinatorMetricsTest, AWorkersTotalsStartAgainWithItsSession) {
  prometheus::Registry registry;
  CoordinatorMetrics metrics(registry, kLabels);
  v1::WorkerProgress progress;
  progress.set_tokens(500);
  progress.set_blocked_seconds(3);
  metrics.SetWorker("east", progress, 1000);
  progress.set_tokens(700);
  metrics.SetWorker("east", progress, 1001);
  EXPECT_THAT(Scrape(registry), HasSubstr("diloco_worker_tokens_total{worker=\"east\"} 700\n"));
  progress.set_tokens(40);
  metrics.SetWorker("east", progress, 1002);
  EXPECT_THAT(Scrape(registry), HasSubstr("diloco_worker_tokens_total{worker=\"east\"} 40\n"));
  EXPECT_THAT(Scrape(registry), HasSubstr("diloco_worker_blocked_seconds_total{worker=\"east\"} 3\n"));
}

TEST(CoordinatorMetricsTest, ATotalThatIsNoNumberSpoilsNothing) {
  prometheus::Registry registry;
  CoordinatorMetrics metrics(registry, kLabels);
  v1::WorkerProgress progress;
  progress.set_blocked_seconds(std::nan(""));
  metrics.SetWorker("east", progress, 1000);
  progress.set_blocked_seconds(2);
  metrics.SetWorker("east", progress, 1001);
  EXPECT_THAT(Scrape(registry), HasSubstr("diloco_worker_blocked_seconds_total{worker=\"east\"} 2\n"));
}

TEST(CoordinatorMetricsTest, CountsCallsByMethodAndCodeAndTimesThem) {
  prometheus::Registry registry;
  CoordinatorMetrics metrics(registry, kLabels);
  metrics.CountCall(1, absl::StatusCode::kAborted, absl::Milliseconds(1500));
  metrics.CountCall(1, absl::StatusCode::kAborted, absl::Milliseconds(1500));
  const std::string scrape = Scrape(registry);
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_handled_total{code=\"ABORTED\",method=\"Upload\"} 2"));
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_handling_seconds_sum{method=\"Upload\"} 3"));
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_handling_seconds_bucket{method=\"Upload\",le=\"1.024\"} 0"));
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_handling_seconds_bucket{method=\"Upload\",le=\"2.048\"} 2"));
  EXPECT_THAT(scrape, HasSubstr("diloco_rpc_server_handling_seconds_count{method=\"Join\"} 0"));
}

TEST(WorkerMetricsTest, CountersFollowTheTotalsOfTheReport) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry);
  v1::WorkerProgress progress;
  progress.set_step(530);  // 500 of them by an earlier process.
  progress.set_session_steps(30);
  progress.set_tokens(1000);
  progress.set_wall_seconds(8);
  progress.set_blocked_seconds(2);
  metrics.Report(progress);
  metrics.Report(progress);
  EXPECT_EQ(metrics.inner_steps.Value(), 30);
  EXPECT_EQ(metrics.tokens.Value(), 1000);
  EXPECT_EQ(metrics.utilization_ratio.Value(), 0.75);
}

TEST(WorkerMetricsTest, ALossThatIsNoNumberIsShownAsSuch) {
  prometheus::Registry registry;
  WorkerMetrics metrics(registry);
  v1::WorkerProgress progress;
  progress.set_loss(std::nan(""));
  metrics.Report(progress);
  EXPECT_THAT(Scrape(registry), HasSubstr("diloco_train_loss Nan"));
}

TEST(ProcessMetricsTest, TellsWhatTheProcessUses) {
  const double now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  prometheus::Registry registry;
  ProcessMetrics process(registry);
  const auto value = [&registry](const std::string& name) {
    std::smatch match;
    const std::string scrape = Scrape(registry);
    EXPECT_TRUE(std::regex_search(scrape, match, std::regex("\n" + name + " ([0-9.e+-]+)\n"))) << scrape;
    return match.empty() ? -1 : std::stod(match[1]);
  };
  EXPECT_GT(value("process_resident_memory_bytes"), 1 << 20);
  EXPECT_GE(value("process_threads"), 1);
  EXPECT_GE(value("process_max_fds"), value("process_open_fds"));
  EXPECT_GE(now + 1, value("process_start_time_seconds"));
  EXPECT_LT(now - 3600, value("process_start_time_seconds"));
  const double files = value("process_open_fds");
  const double cpu = value("process_cpu_seconds_total");
  const std::vector<std::ifstream> opened = [] {
    std::vector<std::ifstream> streams;
    for (int i = 0; i < 3; ++i) streams.emplace_back("/proc/self/stat");
    return streams;
  }();
  process.Refresh();
  EXPECT_EQ(value("process_open_fds"), files + 3);
  EXPECT_GE(value("process_cpu_seconds_total"), cpu);
}

TEST(MetricsTest, RoundsOfADurationFallIntoTheBucketThatTheyAreNotAbove) {
  prometheus::Registry registry;
  CoordinatorMetrics metrics(registry, kLabels);
  metrics.merge_duration_seconds.Observe(0.002);
  const std::string scrape = Scrape(registry);
  EXPECT_THAT(scrape, HasSubstr("diloco_merge_duration_seconds_bucket{le=\"0.001\"} 0"));
  EXPECT_THAT(scrape, HasSubstr("diloco_merge_duration_seconds_bucket{le=\"0.002\"} 1"));
  EXPECT_THAT(scrape, HasSubstr("diloco_merge_duration_seconds_bucket{le=\"1048.576\"} 1"));
}

}  // namespace
}  // namespace diloco
