// --trace of real programs, and what a trace is for: seeing that transfers hide behind compute, or do not.
#include "common/trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "common/base/mutex.h"
#include "tests/support/coordinator_process.h"
#include "tests/support/drift_trainer.h"
#include "tests/support/process.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/trace_file.h"
#include "worker/loop/run_worker.h"

namespace diloco {
namespace {

using testing::CoordinatorProcess;
using testing::DriftTrainer;
using testing::kPatience;
using testing::Process;
using testing::ReadFile;
using testing::TcpProxy;
using testing::TempFolder;
using testing::TracedSlice;
using testing::TraceFile;

constexpr int kInnerSteps = 4;

std::string Config(const std::string& method, int rounds) {
  return absl::StrFormat(
      "run: {id: traced, workers: 2, rounds: %d}\n"
      "method: %s\n"
      "inner_steps: %d\n"
      "max_late: 0\n"
      "fragments: {count: 2}\n"
      "rounds: {heartbeat_interval: 100ms, lease: 60s, snapshot_every: 2}\n",
      rounds, method, kInnerSteps);
}

// The slice of that round and fragment (-1: it names none); fails where there is not exactly one.
TracedSlice The(const std::vector<TracedSlice>& slices, int64_t round, int64_t fragment) {
  std::vector<TracedSlice> found;
  std::copy_if(slices.begin(), slices.end(), std::back_inserter(found),
               [&](const TracedSlice& slice) { return slice.round() == round && slice.fragment() == fragment; });
  EXPECT_EQ(found.size(), 1u) << "round " << round << ", fragment " << fragment;
  return found.empty() ? TracedSlice{} : found.front();
}

// ---- Real processes ----

constexpr int kRounds = 4;

class TracedRun : public ::testing::Test {
 protected:
  explicit TracedRun(int rounds = kRounds)
      : coordinator_(folder_.path(), Config("eager", rounds),
                     {.arguments = {"--exit-when-finished", "--trace", folder_.File("coordinator.json")}}) {}

  Process StartWorker(const std::string& id, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {DILOCO_SYNTHETIC_WORKER,
                                          "--coordinator",
                                          coordinator_.address(),
                                          "--id",
                                          id,
                                          "--elements",
                                          "1000",
                                          "--tensors",
                                          "2",
                                          "--checkpoint-every",
                                          "1",
                                          "--slices",
                                          folder_.File(id + ".json")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    absl::StatusOr<Process> worker = Process::Start({.arguments = arguments, .output_path = folder_.File(id + ".log")});
    EXPECT_TRUE(worker.ok()) << worker.status();
    return *std::move(worker);
  }

  const TempFolder folder_;
  CoordinatorProcess coordinator_{folder_.path(),
                                  Config("eager", kRounds),
                                  {.arguments = {"--exit-when-finished", "--trace", folder_.File("coordinator.json")}}};
};

void ExpectArgs(const TraceFile& trace, const std::string& name, const std::vector<std::string>& keys) {
  const std::vector<TracedSlice> slices = trace.Slices(name);
  EXPECT_FALSE(slices.empty()) << name;
  for (const TracedSlice& slice : slices) {
    for (const std::string& key : keys) EXPECT_TRUE(slice.args.contains(key)) << name << " lacks " << key;
  }
}

TEST_F(TracedRun, BothProgramsSayWhatTheyDidAndOnOneClock) {
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  Process w0 = StartWorker("w0", {"--checkpoint-folder", folder_.File("checkpoints")});
  Process w1 = StartWorker("w1");
  for (Process* process : {&w0, &w1, &coordinator_.process()}) {
    const absl::StatusOr<int> exit_code = process->Wait(kPatience);
    ASSERT_TRUE(exit_code.ok());
    EXPECT_EQ(*exit_code, 0) << ReadFile(folder_.File("w0.log")) << coordinator_.Log();
  }

  const TraceFile worker = TraceFile::Whole(folder_.File("w0.json"));
  EXPECT_EQ(worker.process(), "worker w0");
  EXPECT_EQ(worker.Misplaced(), "");
  ExpectArgs(worker, "compute", {"round", "first_step", "steps"});
  ExpectArgs(worker, "step", {"round", "step"});
  ExpectArgs(worker, "encode", {"round", "fragment", "bytes"});
  ExpectArgs(worker, "send", {"round", "fragment", "bytes"});
  ExpectArgs(worker, "upload", {"round", "fragment", "bytes", "verdict"});
  ExpectArgs(worker, "download", {"round", "fragment", "bytes"});
  ExpectArgs(worker, "apply", {"round", "fragment", "applied"});
  ExpectArgs(worker, "set parameters", {"round", "fragments"});
  ExpectArgs(worker, "checkpoint", {"round", "step"});
  for (const TracedSlice& compute : worker.Slices("compute")) {
    EXPECT_EQ(compute.track, "training");
    EXPECT_EQ(compute.args.at("steps"), kInnerSteps);
    EXPECT_EQ(compute.args.at("first_step"), compute.round() * kInnerSteps);
  }
  for (const TracedSlice& step : worker.Slices("step")) {
    EXPECT_TRUE(The(worker.Slices("compute"), step.round(), -1).Contains(step));
  }

  const TraceFile coordinator = TraceFile::Whole(folder_.File("coordinator.json"));
  EXPECT_EQ(coordinator.process(), "coordinator");
  EXPECT_EQ(coordinator.Misplaced(), "");
  ExpectArgs(coordinator, "contribution of w0", {"worker", "round", "fragment", "bytes", "verdict"});
  ExpectArgs(coordinator, "merge", {"round", "fragment"});
  ExpectArgs(coordinator, "commit", {"round", "fragment"});
  ExpectArgs(coordinator, "round", {"round", "fragment", "merged", "dropped", "reason"});
  ExpectArgs(coordinator, "send to w0", {"worker", "bytes"});
  ExpectArgs(coordinator, "snapshot", {"version"});

  // What caused what, across processes.
  for (int64_t round = 0; round < kRounds; ++round) {
    for (int64_t fragment = 0; fragment < 2; ++fragment) {
      const TracedSlice upload = The(worker.Slices("upload"), round, fragment);
      const TracedSlice contribution = The(coordinator.Slices("contribution of w0"), round, fragment);
      const TracedSlice merge = The(coordinator.Slices("merge"), round, fragment);
      const TracedSlice commit = The(coordinator.Slices("commit"), round, fragment);
      const TracedSlice download = The(worker.Slices("download"), round, fragment);
      EXPECT_LT(The(worker.Slices("encode"), round, fragment).begin, upload.begin);
      EXPECT_LT(upload.begin, contribution.begin);
      EXPECT_LE(contribution.begin, merge.begin);
      EXPECT_LE(merge.end, commit.begin);
      EXPECT_LE(commit.end, download.end);
    }
  }
}

class EndlessTracedRun : public TracedRun {
 protected:
  EndlessTracedRun() : TracedRun(1'000'000) {}
};

TEST_F(EndlessTracedRun, AKilledProcessLeavesATraceThatIsGoodToItsLastLine) {
  ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log();
  Process w0 = StartWorker("w0", {"--step-ms", "5"});
  Process w1 = StartWorker("w1", {"--step-ms", "5"});
  const absl::Time deadline = absl::Now() + kPatience;
  while (TraceFile::Cut(folder_.File("w0.json")).Slices("upload").empty() && absl::Now() < deadline) {
  }
  w0.Signal(SIGKILL);
  EXPECT_EQ(w0.Wait(kPatience).value_or(-1), 128 + SIGKILL);
  coordinator_.Kill();
  for (const std::string& file : {folder_.File("w0.json"), folder_.File("coordinator.json")}) {
    EXPECT_FALSE(ReadFile(file).ends_with("]\n")) << file;
    const TraceFile trace = TraceFile::Cut(file);
    EXPECT_TRUE(trace.Event("trace_start").is_object()) << file;
    EXPECT_EQ(trace.Misplaced(), "") << file;
  }
  const TraceFile trace = TraceFile::Cut(folder_.File("w0.json"));
  EXPECT_FALSE(trace.Slices("upload").empty());
  EXPECT_FALSE(trace.Slices("compute").empty());
}

TEST_F(TracedRun, ATraceThatCannotBeWrittenIsRefusedBeforeAnythingElse) {
  const std::string path = folder_.File("absent") + "/trace.json";
  testing::WriteFile(folder_.File("run.yaml"), Config("eager", kRounds));
  const absl::StatusOr<testing::Finished> finished =
      testing::RunProcess({testing::Program("diloco-coordinator"), "--config", folder_.File("run.yaml"), "--data-dir",
                           folder_.File("data"), "--listen", "127.0.0.1:0", "--http", "none", "--trace", path},
                          kPatience);
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->exit_code, 2);
  EXPECT_EQ(finished->errors,
            "diloco-coordinator: --trace " + path + ": cannot be written: No such file or directory\n");
  EXPECT_FALSE(std::filesystem::exists(folder_.File("data")));
}

// ---- A link that is held ----

constexpr int64_t kElements = 64 << 10;  // A tensor.

// A worker's link, and what has come over it.
class Link {
 public:
  explicit Link(int target_port) : proxy_(target_port) {}
  TcpProxy* operator->() { return &proxy_; }

  void NoteConsensus(int fragment, int64_t version) {
    MutexLock lock(&mutex_);
    versions_[fragment] = version;
    changed_.NotifyAll();
  }
  // Waits until both fragments have that version.
  void Await(int64_t version) {
    const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoSeconds(kPatience);
    MutexLock lock(&mutex_);
    while (std::min(versions_[0], versions_[1]) < version) {
      ASSERT_TRUE(changed_.WaitUntil(&mutex_, deadline)) << "version " << version << " never came";
    }
  }

 private:
  TcpProxy proxy_;
  Mutex mutex_;
  CondVar changed_;
  std::map<int, int64_t> versions_ ABSL_GUARDED_BY(mutex_);
};

class LinkedTrainer final : public DriftTrainer {
 public:
  explicit LinkedTrainer(std::function<void(int64_t step)> on_step)
      : DriftTrainer({.elements = 2 * kElements, .tensors = 2}), on_step_(std::move(on_step)) {}
  absl::StatusOr<StepReport> Step(int64_t step, double rate) override {
    on_step_(step);
    return DriftTrainer::Step(step, rate);
  }

 private:
  const std::function<void(int64_t step)> on_step_;
};

// Two workers, each with a link that `on_step` and `on_wait`, in the training thread, hold and open, and that is open
// after the last stop; the trace of the first.
TraceFile RunOnLinks(const std::string& method, const std::function<void(Link&, int64_t step)>& on_step,
                     const std::function<void(Link&)>& on_wait) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(), Config(method, kRounds));
  EXPECT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  const std::string path = folder.File("trace.json");
  {
    absl::StatusOr<std::unique_ptr<Tracer>> tracer = Tracer::Open({.path = path, .process_name = "worker w0"});
    EXPECT_TRUE(tracer.ok()) << tracer.status();
    std::vector<std::thread> threads;
    for (int m = 0; m < 2; ++m) {
      threads.emplace_back([&, m] {
        Link link(coordinator.port());
        WorkerOptions options;
        options.coordinator = link->address();
        options.worker_id = absl::StrFormat("w%d", m);
        options.tracer = m == 0 ? tracer->get() : nullptr;
        options.on_wait = [&](int64_t) { on_wait(link); };
        options.on_consensus = [&](int fragment, int64_t version, const Digest&) {
          link.NoteConsensus(fragment, version);
        };
        options.on_stop = [&](const StopReport& report) {
          if (report.next_round == kRounds) link->Open();
        };
        const absl::Status status = RunWorker(options, [&](const RunConfig&) {
          return std::make_unique<LinkedTrainer>([&](int64_t step) { on_step(link, step); });
        });
        EXPECT_TRUE(status.ok()) << status;
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  return TraceFile::Whole(path);
}

// Nothing moves from the last step of a round to the second one of the next, which in turn does not end before
// everything has moved: so a transfer ends in there.
TEST(TraceOfAHeldLink, EagerUpdatesMoveWhileTheNextRoundTrains) {
  const auto on_step = [](Link& link, int64_t step) {
    if (step % kInnerSteps == 1) {
      link->Open();
      link.Await(step / kInnerSteps);
    }
    if (step % kInnerSteps == kInnerSteps - 1) link->Hold();
  };
  const TraceFile trace = RunOnLinks("eager", on_step, /*on_wait=*/[](Link&) {});
  EXPECT_EQ(trace.Misplaced(), "");
  for (int64_t round = 0; round + 1 < kRounds; ++round) {
    const TracedSlice next = The(trace.Slices("compute"), round + 1, -1);
    for (int64_t fragment = 0; fragment < 2; ++fragment) {
      const TracedSlice upload = The(trace.Slices("upload"), round, fragment);
      const TracedSlice download = The(trace.Slices("download"), round, fragment);
      EXPECT_TRUE(upload.Overlaps(next)) << "upload of round " << round;
      EXPECT_LT(upload.end, next.end) << "upload of round " << round;
      EXPECT_TRUE(next.Contains(download)) << "download of round " << round;
    }
  }
  // In round 0, before anything has moved, for parameters and for the worker's own sync thread; and at the end.
  for (const TracedSlice& wait : trace.Slices("wait")) {
    EXPECT_TRUE(wait.round() == 0 || wait.round() == kRounds) << "waited in round " << wait.round();
  }
}

// Nothing moves while a worker trains, so that all has to while it waits.
TEST(TraceOfAHeldLink, BlockingUpdatesAreWaitedFor) {
  const TraceFile trace = RunOnLinks(
      "diloco", [](Link& link, int64_t) { link->Hold(); }, [](Link& link) { link->Open(); });
  EXPECT_EQ(trace.Misplaced(), "");
  const std::vector<TracedSlice> computes = trace.Slices("compute");
  for (int64_t round = 0; round < kRounds; ++round) {
    std::vector<TracedSlice> waits = trace.Slices("wait");
    std::erase_if(waits, [round](const TracedSlice& wait) { return wait.round() != round; });
    for (int64_t fragment = 0; fragment < 2; ++fragment) {
      const TracedSlice upload = The(trace.Slices("upload"), round, fragment);
      const TracedSlice download = The(trace.Slices("download"), round, fragment);
      const auto covers = [](const TracedSlice& transfer) {
        return [&transfer](const TracedSlice& wait) { return wait.begin <= transfer.end && transfer.end <= wait.end; };
      };
      EXPECT_TRUE(std::any_of(waits.begin(), waits.end(), covers(upload))) << "upload of round " << round;
      EXPECT_TRUE(std::any_of(waits.begin(), waits.end(), covers(download))) << "download of round " << round;
      for (const TracedSlice& compute : computes) {
        EXPECT_FALSE(compute.Overlaps(upload)) << "upload of round " << round;
        EXPECT_FALSE(compute.Overlaps(download)) << "download of round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace diloco
