// One seed: a coordinator, its workers, the faults between them and the auditor over them, in one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/check/auditor.h"
#include "tests/sim/check/memory_bound.h"
#include "tests/sim/coordinator_node.h"
#include "tests/sim/crash_points.h"
#include "tests/sim/disk.h"
#include "tests/sim/event_loop.h"
#include "tests/sim/network.h"
#include "tests/sim/random.h"
#include "tests/sim/scenario.h"
#include "tests/sim/service.h"
#include "tests/sim/worker_node.h"

namespace diloco::sim {

class Cluster {
 public:
  explicit Cluster(Scenario scenario, Shim shim = Shim::kNone);

  // Until the run has ended and everybody has left, or a rule is broken: an overdue end is one. `watch` is called after
  // each event.
  void Run(const std::function<void()>& watch = nullptr);

  const Auditor& auditor() const { return auditor_; }
  CrashPoints& points() { return points_; }
  const EventLoop& loop() const { return loop_; }
  CoordinatorNode& coordinator() { return coordinator_; }
  Disk& disk() { return disk_; }
  const Scenario& scenario() const { return scenario_; }
  // The most that the coordinator has held, and any worker, against what it may.
  MemoryUse CoordinatorMemory() const { return {coordinator_.most_held(), TotalBytes(coordinator_bound_)}; }
  MemoryUse WorkerMemory() const;
  // Of the coordinator; each was noticed, or the run has failed.
  uint64_t disks_lost() const { return disks_lost_; }
  // What everybody is doing, and why the run has not ended.
  std::string Describe();

 private:
  void Start();
  // What each process has held at most against what it may.
  void CheckMemory();
  void ScheduleFault();
  void Inject(Fault fault);
  void Heal();
  void CutLinks(int region);
  bool DrawPowerCut() { return scenario_.power_cuts && random_.Chance(0.7); }
  CoordinatorNode::Death DrawDeath();
  // Copies the coordinator's folder, or puts an older copy, or nothing, in its place, if workers then hold more.
  void LoseDisk();
  bool EverybodyHolds() const;
  // What an operator does then, until it has helped.
  void RecoverConsensus();
  void RestartCoordinator();
  void RestartWorker(WorkerNode* worker);
  // An operator's requests, when there is a coordinator to hear them.
  template <typename Request, typename Response>
  void Ask(void (Driver::*method)(Request, Reply<Response>), const std::string& worker);
  template <typename Request, typename Response>
  void Ask(void (Driver::*method)(Request, Reply<Response>), Request request);
  void AdmitAll();
  void Steer();

  const Scenario scenario_;
  EventLoop loop_;
  Random random_;
  CrashPoints points_;
  Auditor auditor_;
  std::vector<HeldThing> coordinator_bound_;
  std::vector<HeldThing> worker_bound_;
  Disk disk_;
  CoordinatorNode coordinator_;
  Service service_;
  std::vector<std::unique_ptr<Link>> links_;  // By worker.
  std::vector<std::unique_ptr<WorkerNode>> workers_;
  std::set<std::string> draining_;  // Asked to, and not gone yet.
  int64_t longest_;                 // Rounds that were asked for.
  uint64_t disks_lost_ = 0;
  Disk::Copy copy_;          // Of the coordinator's folder, taken at some time.
  std::string hold_reason_;  // As the coordinator said last; empty: the run is not held.
  bool healed_ = false;
};

}  // namespace diloco::sim
