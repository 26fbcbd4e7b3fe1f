// Workers that are suspended and resumed, against a real coordinator: with a fixed schedule the run is, bit for bit,
// the one that nothing disturbed, wherever it is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/mutex.h"
#include "tests/resume/momentum_trainer.h"
#include "tests/support/coordinator_process.h"
#include "tests/support/temp_folder.h"
#include "worker/loop/run_worker.h"

namespace diloco {
namespace {

using testing::CoordinatorProcess;
using testing::MomentumTrainer;
using testing::TempFolder;

constexpr int kWorkers = 2;
constexpr int kRounds = 7;
constexpr int kInnerSteps = 4;

std::string Yaml(const std::string& method) {
  const bool data_parallel = method.find("data-parallel") != std::string::npos;
  return absl::StrFormat(
      "run: {id: resume, workers: %d, rounds: %d}\n"
      "%s"
      "rounds: {heartbeat_interval: 100ms, lease: 300s}\n"
      "eval: {every: 1}\n"
      "%s",
      kWorkers, data_parallel ? kRounds * kInnerSteps : kRounds,
      data_parallel ? "" : absl::StrFormat("inner_steps: %d\n", kInnerSteps), method);
}

// What a run left behind.
struct Record {
  std::map<std::tuple<int, int, int64_t>, Digest> consensus;           // By worker, fragment, version.
  std::map<std::pair<int, int64_t>, std::pair<double, float>> losses;  // And inner rates, by worker and step.
  int suspensions = 0;
};

// One worker, which may be suspended any number of times and comes back each time as a new process would: nothing but
// its checkpoint folder is the same.
class RestartingWorker {
 public:
  struct Options {
    std::string coordinator;
    int worker = 0;
    std::string folder;
    std::vector<int64_t> cuts;  // Steps in which it is interrupted, ascending.
    int64_t nan_at_step = -1;
    bool loses_newest = false;  // Each time its newest checkpoint is gone, as if it had been killed later on.
  };
  RestartingWorker(Options options, Mutex* mutex, Record* record)
      : options_(std::move(options)), mutex_(*mutex), record_(*record), thread_([this] { Run(); }) {}

  absl::Status Finish() {
    thread_.join();
    return status_;
  }

 private:
  void Run() {
    do {
      interrupt_ = false;
      WorkerOptions options;
      options.coordinator = options_.coordinator;
      options.worker_id = absl::StrCat("w", options_.worker);
      options.interrupt = &interrupt_;
      options.backoff = {.first = absl::Milliseconds(5), .longest = absl::Milliseconds(50)};
      options.checkpoint_folder = options_.folder;
      options.checkpoint_every = options_.loses_newest ? 1 : 1'000'000;
      options.on_consensus = [this](int fragment, int64_t version, const Digest& digest) {
        MutexLock lock(&mutex_);
        const auto [known, added] = record_.consensus.try_emplace({options_.worker, fragment, version}, digest);
        EXPECT_EQ(known->second, digest) << "fragment " << fragment << " version " << version;
      };
      status_ = RunWorker(options, [this](const RunConfig&) -> absl::StatusOr<std::unique_ptr<Trainer>> {
        return std::make_unique<MomentumTrainer>(MomentumTrainer::Options{
            .worker = options_.worker,
            .on_step = [this](int64_t step) { OnStep(step); },
            .on_loss = [this](int64_t step, double loss, float rate) { OnLoss(step, loss, rate); },
            .nan_at_step = options_.nan_at_step});
      });
      if (absl::IsCancelled(status_) && options_.loses_newest) RemoveNewest();
    } while (absl::IsCancelled(status_));
  }

  void RemoveNewest() {
    std::filesystem::path newest;
    for (const auto& file : std::filesystem::directory_iterator(options_.folder)) {
      if (file.path().filename() != "LOCK") newest = std::max(newest, file.path());
    }
    EXPECT_TRUE(std::filesystem::remove(newest));
  }

  void OnStep(int64_t step) {
    if (next_cut_ < options_.cuts.size() && step == options_.cuts[next_cut_]) {
      ++next_cut_;
      interrupt_ = true;
      MutexLock lock(&mutex_);
      ++record_.suspensions;
    }
  }
  void OnLoss(int64_t step, double loss, float rate) {
    MutexLock lock(&mutex_);
    const bool added = record_.losses.try_emplace({options_.worker, step}, loss, rate).second;
    EXPECT_TRUE(added || options_.loses_newest) << "step " << step << " was taken twice";
  }

  const Options options_;
  Mutex& mutex_;
  Record& record_;
  std::atomic<bool> interrupt_ = false;
  size_t next_cut_ = 0;
  absl::Status status_;
  std::thread thread_;
};

// Of worker 0.
struct Disturbance {
  std::vector<int64_t> cuts;
  int64_t nan_at_step = -1;
  bool loses_newest = false;
};

Record Train(const std::string& yaml, const Disturbance& disturbance) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), yaml);
  EXPECT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  Mutex mutex;
  Record record;
  std::vector<std::unique_ptr<RestartingWorker>> workers;
  for (int w = 0; w < kWorkers; ++w) {
    workers.push_back(std::make_unique<RestartingWorker>(
        RestartingWorker::Options{.coordinator = coordinator.address(),
                                  .worker = w,
                                  .folder = folder.File(absl::StrCat("w", w)),
                                  .cuts = w == 0 ? disturbance.cuts : std::vector<int64_t>(),
                                  .nan_at_step = w == 0 ? disturbance.nan_at_step : -1,
                                  .loses_newest = w == 0 && disturbance.loses_newest},
        &mutex, &record));
  }
  for (const auto& worker : workers) {
    const absl::Status status = worker->Finish();
    EXPECT_TRUE(status.ok()) << status << coordinator.Log();
  }
  EXPECT_TRUE(coordinator.Stop().ok());
  return record;
}

void ExpectSame(const Record& disturbed, const Record& undisturbed) {
  EXPECT_EQ(disturbed.consensus, undisturbed.consensus);
  EXPECT_EQ(disturbed.losses, undisturbed.losses);
}

struct Case {
  std::string name;
  std::string method;

  friend void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }
};

class ResumeTest : public ::testing::TestWithParam<Case> {};

TEST_P(ResumeTest, RepeatsTheUndisturbedRunBitForBit) {
  const std::string yaml = Yaml(GetParam().method);
  const Record undisturbed = Train(yaml, {});
  const int steps = kRounds * kInnerSteps;
  ASSERT_EQ(undisturbed.losses.size(), static_cast<size_t>(kWorkers * steps));
  // Suspended in every step, in mid-round, at and after stops, and while averages are held back; but for the last one,
  // after which the run may end without the worker.
  std::vector<int64_t> every_step;
  for (int64_t step = 0; step < steps - 1; ++step) every_step.push_back(step);
  const Record cut_everywhere = Train(yaml, {.cuts = every_step});
  EXPECT_EQ(cut_everywhere.suspensions, steps - 1);
  ExpectSame(cut_everywhere, undisturbed);
  // With some rounds in between, so that a process also hands on what it has done itself.
  ExpectSame(Train(yaml, {.cuts = {5, 11, 20}}), undisturbed);
}

// Its coordinator holds newer contributions than the checkpoint knows of: it begins a round anew, and the run ends with
// the same consensus everywhere (RestartingWorker compares each digest with what it saw of that version before).
TEST_P(ResumeTest, GoesOnFromAnOlderCheckpoint) {
  const Record record = Train(Yaml(GetParam().method), {.cuts = {6, 13, 21}, .loses_newest = true});
  EXPECT_EQ(record.suspensions, 3);
  std::map<std::pair<int, int64_t>, std::set<Digest>> seen;
  for (const auto& [key, digest] : record.consensus) seen[{std::get<1>(key), std::get<2>(key)}].insert(digest);
  for (const auto& [key, digests] : seen) {
    EXPECT_EQ(digests.size(), 1u) << "fragment " << key.first << " version " << key.second;
  }
}

// Suspended in the very step whose outer gradient is not finite, and in those around it.
TEST(ResumeNotFiniteTest, HealsAndAbstainsAsIfNothingElseHadHappened) {
  for (const std::string method : {"method: eager\nmax_late: 0\n", "method: diloco\n"}) {
    const std::string yaml = Yaml(method + "fragments: {count: 2}\n");
    const Record undisturbed = Train(yaml, {.nan_at_step = 7});
    ExpectSame(Train(yaml, {.cuts = {6, 7, 8}, .nan_at_step = 7}), undisturbed);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, ResumeTest,
    ::testing::Values(Case{"eager",
                           "method: eager\nmax_late: 0\nfragments: {count: 2}\nwire: {error_feedback: both}\n"},
                      Case{"eager_two_rounds",
                           "method: eager\nmax_late: 0\noverlap: 8\nlookahead: {lambda: share}\n"
                           "fragments: {count: 2}\nouter: {weights: tokens}\n"},
                      Case{"eager_shared",
                           "method: eager\nmax_late: 0\nlookahead: {momentum: shared}\nouter: {optimizer: adam}\n"
                           "fragments: {count: 4, offsets: spread}\nwire: {rounding: stochastic}\n"},
                      Case{"delayed", "method: delayed\nfragments: {count: 2}\nwire: {error_feedback: both}\n"},
                      Case{"diloco", "method: diloco\nfragments: {count: 2}\nouter: {weights: tokens}\n"},
                      Case{"streaming",
                           "method: streaming\noverlap: 2\nfragments: {layers_each: 1, offsets: spread}\n"
                           "wire: {error_feedback: both}\n"},
                      Case{"streaming_at_once", "method: streaming\noverlap: 0\nfragments: {count: 2}\n"},
                      Case{"blend", "method: blend\nfragments: {count: 2}\n"},
                      Case{"data_parallel", "method: data-parallel\nwire: {error_feedback: both}\n"}),
    [](const ::testing::TestParamInfo<Case>& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace diloco
