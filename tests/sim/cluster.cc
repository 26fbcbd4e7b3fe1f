#include "tests/sim/cluster.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/layout/layout.h"
#include "diloco/v1/admin.pb.h"
#include "diloco/v1/checkpoint.pb.h"
#include "diloco/v1/journal.pb.h"
#include "diloco/v1/types.pb.h"
#include "diloco/v1/worker.pb.h"

namespace diloco::sim {
namespace {

constexpr char kFolder[] = "data";
// Far beyond what the longest run needs.
constexpr uint64_t kMaxEvents = 50'000'000;
constexpr uint64_t kEventsBetweenChecks = 1000;

Layout LayoutOf(const Scenario& scenario) {
  const QuadraticTrainer trainer(scenario.workers.front().options.trainer);
  return Layout::Cut(trainer.Tensors(), scenario.config.fragments.cut).value();
}

std::vector<FragmentFacts> FactsOf(const Scenario& scenario) {
  const Layout layout = LayoutOf(scenario);
  const std::vector<double>& start = scenario.workers.front().options.trainer.start;
  std::vector<FragmentFacts> facts;
  for (const FragmentRange& range : layout.fragments()) {
    FragmentFacts& fragment = facts.emplace_back();
    for (int64_t i = 0; i < range.count; ++i) {
      fragment.initial.push_back(static_cast<float>(start[static_cast<size_t>(range.offset + i)]));
    }
    fragment.decayed.assign(fragment.initial.size(), false);  // No tensor of the quadratic trainer decays.
  }
  return facts;
}

// How long an operator makes a run of so many rounds, at most.
int64_t LongestOf(int64_t rounds) { return 2 * rounds; }

ClusterSize SizeOf(const Scenario& scenario) {
  ClusterSize size = {.workers = static_cast<int>(scenario.workers.size()),
                      .rounds = scenario.config.run.rounds,
                      .subscriber_queue_bytes = scenario.service.subscriber_queue_bytes,
                      .chunk_bytes = kMaxChunkBytes};
  if (std::ranges::count(scenario.faults, Fault::kSteer) > 0) {
    size.rounds = LongestOf(scenario.config.run.rounds);
    size.changes = static_cast<int>(std::min<int64_t>(kMaxRunChanges, size.rounds));
  }
  for (const Scenario::Worker& worker : scenario.workers) {
    size.chunk_bytes = std::min(size.chunk_bytes, worker.options.chunk_bytes);
  }
  return size;
}

// Some rules are only put to the test when something else goes wrong as well.
Scenario ForShim(Scenario scenario, Shim shim) {
  if (shim == Shim::kForgetIncarnation) {
    scenario.faults.push_back(Fault::kWorkerKilled);
    scenario.service.duplicate_chance = 0.5;
    scenario.service.duplicate_delay = absl::Seconds(5);
  }
  return scenario;
}

RunConfig ForCoordinator(RunConfig config, Shim shim) {
  if (shim == Shim::kShortGrace && config.rounds.grace_window) *config.rounds.grace_window /= 2;
  return config;
}

// Built when they are first asked for, once for all processes: else the first of a program's seeds would pay for them.
void BuildDescriptors() {
  v1::Digest::descriptor();
  v1::JoinRequest::descriptor();
  v1::GetStatusRequest::descriptor();
  v1::RunRecord::descriptor();
  v1::CheckpointRecord::descriptor();
}

}  // namespace

Cluster::Cluster(Scenario scenario, Shim shim)
    : scenario_(ForShim(std::move(scenario), shim)),
      random_(scenario_.seed ^ 0x5EED),
      auditor_(scenario_.config, FactsOf(scenario_), &loop_),
      coordinator_bound_(CoordinatorBound(scenario_.config, LayoutOf(scenario_), SizeOf(scenario_))),
      worker_bound_(WorkerBound(scenario_.config, LayoutOf(scenario_), SizeOf(scenario_))),
      disk_(&random_, &points_),
      coordinator_({.config = ForCoordinator(scenario_.config, shim),
                    .yaml = scenario_.yaml,
                    .disk_time = scenario_.disk_time,
                    .pool_time = scenario_.pool_time},
                   {.loop = &loop_, .random = &random_, .disk = &disk_, .points = &points_, .witness = &auditor_}),
      service_(scenario_.service, shim, &coordinator_, &random_),
      longest_(scenario_.config.run.rounds) {
  BuildDescriptors();
  ForgetHeaps();
  if (shim == Shim::kPublishBeforeSync) disk_.IgnoreSyncs();
  disk_.SetOnAppend([this](std::string_view message) { auditor_.OnJournaled(service_.OnJournaled(message)); });
  coordinator_.SetOnPublished([this](int fragment, int64_t round) { auditor_.OnPublished(fragment, round); });
  coordinator_.SetOnDown([this] {
    auditor_.OnCoordinatorDied(&disk_, kFolder);
    RestartCoordinator();
  });
  coordinator_.SetOnHold([this](const std::string& reason) { hold_reason_ = reason; });
  coordinator_.SetOnUp([this] {
    auditor_.OnCoordinatorRecovered(&disk_, kFolder);
    if (healed_) AdmitAll();
    if (healed_) Ask(&Driver::ResumeRun, v1::ResumeRunRequest());
    for (const auto& worker : workers_) worker->CoordinatorIsUp();
  });
  for (const Scenario::Worker& worker : scenario_.workers) {
    links_.push_back(std::make_unique<Link>(&loop_, &random_, scenario_.link));
    const int heap = kHeapOfFirstWorker + static_cast<int>(workers_.size());
    workers_.push_back(std::make_unique<WorkerNode>(worker.options, WorkerNode::Parts{.heap = heap,
                                                                                      .loop = &loop_,
                                                                                      .random = &random_,
                                                                                      .link = links_.back().get(),
                                                                                      .coordinator = &coordinator_,
                                                                                      .service = &service_,
                                                                                      .witness = &auditor_}));
  }
}

void Cluster::Run(const std::function<void()>& watch) {
  Start();
  const absl::Duration deadline = scenario_.Deadline();
  while (!coordinator_.finished() && !auditor_.failed()) {
    if (!loop_.RunNext()) auditor_.Fail("nothing happens any more, and the run has not ended");
    if (loop_.Elapsed() > deadline || loop_.events() > kMaxEvents) {
      auditor_.Fail(absl::StrFormat("the run has not ended %s after the last fault\n%s",
                                    absl::FormatDuration(loop_.Elapsed() - scenario_.faults_until), Describe()));
    }
    if (loop_.events() % kEventsBetweenChecks == 0) {
      CheckMemory();
      if (coordinator_.up() && !coordinator_.stopped()) auditor_.CheckRounds();
    }
    if (watch) watch();
  }
  if (!auditor_.failed()) CheckMemory();
  if (!auditor_.failed()) auditor_.OnFinished(&disk_, kFolder);
}

MemoryUse Cluster::WorkerMemory() const {
  int64_t most = 0;
  for (const auto& worker : workers_) most = std::max(most, worker->most_held());
  return {most, TotalBytes(worker_bound_)};
}

void Cluster::CheckMemory() {
  const auto check = [this](const Process& process, const std::vector<HeldThing>& bound) {
    if (process.most_held() <= TotalBytes(bound)) return;
    auditor_.Fail(absl::StrFormat("%s has held %d bytes and may hold %d:\n%s", process.name(), process.most_held(),
                                  TotalBytes(bound), DescribeBound(bound)));
  };
  check(coordinator_, coordinator_bound_);
  for (const auto& worker : workers_) check(*worker, worker_bound_);
}

void Cluster::Start() {
  coordinator_.Boot();
  for (size_t i = 0; i < workers_.size(); ++i) {
    WorkerNode* worker = workers_[i].get();
    worker->SetOnDown([this, worker] { RestartWorker(worker); });
    loop_.After(scenario_.workers[i].starts_at, [worker] { worker->Boot(); });
  }
  loop_.After(scenario_.faults_until, [this] { Heal(); });
  ScheduleFault();
}

void Cluster::ScheduleFault() {
  if (scenario_.faults.empty()) return;
  const absl::Duration wait = scenario_.fault_every * -std::log(1 - random_.Unit());
  loop_.After(wait, [this] {
    if (healed_) return;
    Inject(random_.Pick(scenario_.faults));
    ScheduleFault();
  });
}

CoordinatorNode::Death Cluster::DrawDeath() {
  using Unsynced = Disk::Unsynced;
  return {.power_cut = DrawPowerCut(),
          .unsynced = random_.Pick(
              {Unsynced::kLost, Unsynced::kPrefix, Unsynced::kZeros, Unsynced::kRandomBlocks, Unsynced::kWritten}),
          .silent = random_.Chance(0.2)};
}

void Cluster::Inject(Fault fault) {
  WorkerNode* worker = workers_[static_cast<size_t>(random_.Below(workers_.size()))].get();
  const size_t index = static_cast<size_t>(random_.Below(links_.size()));
  const absl::Duration lease = scenario_.config.rounds.lease;
  const absl::Duration pause = random_.Between(absl::Milliseconds(10), random_.Chance(0.3) ? 3 * lease : lease / 2);
  auditor_.Note(absl::StrFormat("fault %d, %s", static_cast<int>(fault), absl::FormatDuration(pause)));
  switch (fault) {
    case Fault::kCoordinatorAtPoint:
      coordinator_.SetDeath(DrawDeath());
      points_.ArmAt(random_.Below(random_.Pick<uint64_t>({3, 30, 300})));
      break;
    case Fault::kCoordinatorKilled:
      if (coordinator_.up()) coordinator_.Die(DrawDeath());
      break;
    case Fault::kCoordinatorStopped:
      if (!coordinator_.up()) break;
      coordinator_.Stop(pause);
      auditor_.OnCoordinatorStopped(pause);
      break;
    case Fault::kWorkerKilled:
      worker->Die(random_.Chance(0.3), DrawPowerCut());
      break;
    case Fault::kWorkerStopped:
      if (worker->up()) worker->Stop(pause);
      break;
    case Fault::kWorkerCut:
      links_[index]->Cut(2 * pause);
      break;
    case Fault::kRegionCut:
      CutLinks(static_cast<int>(random_.Below(2)));
      break;
    case Fault::kSlowReader:
      worker->SetReadTime(random_.Pick({absl::Milliseconds(1), absl::Milliseconds(300), absl::Seconds(2)}));
      break;
    case Fault::kDiskFull:
      disk_.SetFull(true);
      loop_.After(pause, [this] { disk_.SetFull(false); });
      break;
    case Fault::kDiskErrors:
      disk_.SetErrorChance(random_.Pick<double>({0, 0, 0.002, 0.02}));
      break;
    case Fault::kDrain:
      // Never so many that those who stay are fewer than the quorum: such a round is held, as the operator is told.
      draining_.insert(worker->id());
      if (static_cast<int>(workers_.size() - draining_.size()) < scenario_.config.rounds.quorum) {
        draining_.erase(worker->id());
      } else {
        Ask(&Driver::DrainWorker, worker->id());
      }
      break;
    case Fault::kEvict:
      Ask(&Driver::EvictWorker, worker->id());
      loop_.After(4 * pause, [this] { AdmitAll(); });
      break;
    case Fault::kWorkerSuspended:
      worker->Suspend();
      break;
    case Fault::kWorkerAtCheckpoint:
      worker->DieAtDisk(random_.Below(20), DrawPowerCut());
      break;
    case Fault::kCheckpointDamaged:
      worker->disk().DamageNewest();
      break;
    case Fault::kPause:
      Ask(&Driver::PauseRun, v1::PauseRunRequest());
      loop_.After(4 * pause, [this] { Ask(&Driver::ResumeRun, v1::ResumeRunRequest()); });
      break;
    case Fault::kSteer:
      Steer();
      break;
    case Fault::kDiskLost:
      LoseDisk();
      break;
  }
}

void Cluster::Steer() {
  const RunConfig& config = scenario_.config;
  const auto set = [this](const std::string& key, const std::string& value) {
    v1::SetConfigRequest request;
    v1::Setting* setting = request.add_settings();
    setting->set_key(key);
    setting->set_value(value);
    Ask(&Driver::SetConfig, std::move(request));
  };
  if (random_.Chance(0.1)) {
    auditor_.OnStopAsked();
    Ask(&Driver::StopRun, v1::StopRunRequest());
  } else if (random_.Chance(0.3) && longest_ < LongestOf(config.run.rounds)) {
    longest_ = std::min(longest_ + random_.Between(1, 3), LongestOf(config.run.rounds));
    auditor_.OnLengthAsked(longest_);
    v1::ExtendRunRequest request;
    request.set_rounds(longest_);
    Ask(&Driver::ExtendRun, request);
  } else if (random_.Chance(0.5)) {
    set(config.method == "data-parallel" ? "inner.rate" : "outer.rate", random_.Pick<std::string>({"0.1", "0.2"}));
  } else if (random_.Chance(0.5)) {
    set("rounds.quorum", absl::StrCat(random_.Between(1, config.rounds.quorum)));
  } else {
    set("rounds.snapshot_every", absl::StrCat(random_.Between(1, 6)));
  }
}

void Cluster::LoseDisk() {
  if (random_.Chance(0.4)) {
    copy_ = disk_.CopyOf(kFolder);
    return;
  }
  const bool ends = auditor_.has_end() || auditor_.rounds_published() >= scenario_.config.run.rounds;
  if (!coordinator_.up() || auditor_.lost() || ends || !EverybodyHolds()) return;
  coordinator_.Die({});
  const Disk::Copy whole = disk_.CopyOf(kFolder);
  disk_.Replace(kFolder, random_.Chance(0.7) ? std::exchange(copy_, {}) : Disk::Copy());
  if (!auditor_.IsBehind(&disk_, kFolder)) return disk_.Replace(kFolder, whole);
  auditor_.Note("the disk is lost, or an older copy");
  auditor_.OnFolderLost();
  service_.OnFolderLost();
  ++disks_lost_;
  RecoverConsensus();
}

// One that holds nothing may join first, and would seed a run of its own before anybody shows that it holds more.
bool Cluster::EverybodyHolds() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [this](const auto& worker) { return worker->up() && auditor_.Holds(worker->id()); });
}

void Cluster::RecoverConsensus() {
  loop_.After(random_.Between(absl::Seconds(1), absl::Seconds(10)), [this] {
    if (!auditor_.lost()) return;
    RecoverConsensus();
    static constexpr std::string_view kFrom = "`dilococtl run recover --from ";
    if (!coordinator_.up() || !absl::StrContains(hold_reason_, "run recover --discard-workers")) return;
    // As the runbook has it: the folder may have forgotten that the run was made longer, and that comes first.
    v1::ExtendRunRequest longer;
    longer.set_rounds(longest_);
    Ask(&Driver::ExtendRun, std::move(longer));
    v1::RecoverConsensusRequest request;
    const size_t from = hold_reason_.find(kFrom);
    if (from == std::string::npos || random_.Chance(0.3)) {
      request.set_discard_workers(true);
    } else {
      const size_t name = from + kFrom.size();
      request.set_worker_id(hold_reason_.substr(name, hold_reason_.find('`', name) - name));
    }
    Ask(&Driver::RecoverConsensus, std::move(request));
  });
}

template <typename Request, typename Response>
void Cluster::Ask(void (Driver::*method)(Request, Reply<Response>), const std::string& worker) {
  Request request;
  request.set_worker_id(worker);
  Ask(method, std::move(request));
}

template <typename Request, typename Response>
void Cluster::Ask(void (Driver::*method)(Request, Reply<Response>), Request request) {
  if (!coordinator_.up()) return;
  request.set_run_id(scenario_.config.run.id);
  (coordinator_.driver()->*method)(std::move(request), [](const absl::StatusOr<Response>&) {});
  coordinator_.ScheduleTurn();
}

void Cluster::AdmitAll() {
  for (const auto& worker : workers_) Ask(&Driver::AdmitWorker, worker->id());
}

void Cluster::CutLinks(int region) {
  const absl::Duration duration = random_.Between(absl::Milliseconds(100), absl::Seconds(20));
  for (size_t i = 0; i < links_.size(); ++i) {
    if (scenario_.workers[i].region == region) links_[i]->Cut(duration);
  }
}

void Cluster::Heal() {
  healed_ = true;
  auditor_.Note("no more faults");
  points_.Disarm();
  AdmitAll();
  Ask(&Driver::ResumeRun, v1::ResumeRunRequest());
  disk_.SetFull(false);
  disk_.SetErrorChance(0);
  service_.Heal();
  for (const auto& link : links_) link->Heal();
  for (const auto& worker : workers_) {
    worker->SetReadTime(absl::ZeroDuration());
    worker->disk().Disarm();
  }
}

void Cluster::RestartCoordinator() {
  loop_.After(random_.Between(absl::Milliseconds(50), random_.Pick({absl::Seconds(1), absl::Seconds(8)})), [this] {
    if (!coordinator_.up() && !auditor_.failed()) coordinator_.Boot();
  });
}

void Cluster::RestartWorker(WorkerNode* worker) {
  if (worker->done()) draining_.erase(worker->id());
  // Trained to the end, or told that the run has ended. One that was drained comes back.
  const bool over = auditor_.has_end();
  if ((worker->done() && over) || absl::IsFailedPrecondition(worker->ended_with())) return;
  loop_.After(random_.Between(absl::Milliseconds(50), random_.Pick({absl::Seconds(1), absl::Seconds(10)})), [worker] {
    if (!worker->up()) worker->Boot();
  });
}

std::string Cluster::Describe() {
  std::string text = coordinator_.up() ? "coordinator: " : "coordinator: down\n";
  if (coordinator_.up()) {
    const auto answer = std::make_shared<std::string>("no answer");
    coordinator_.driver()->GetStatus({}, [answer](const absl::StatusOr<v1::GetStatusResponse>& status) {
      *answer = status.ok() ? status->reason() : status.status().ToString();
    });
    coordinator_.driver()->RunUntilIdle();
    absl::StrAppend(&text, *answer, "\n");
  }
  for (const auto& worker : workers_) absl::StrAppend(&text, worker->Describe(), "\n");
  return text;
}

}  // namespace diloco::sim
