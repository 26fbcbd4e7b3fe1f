#include "tests/sim/coordinator_node.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"

namespace diloco::sim {
namespace {

constexpr char kFolder[] = "data";
// Streams that are over are forgotten when there are more.
constexpr size_t kStreamsKept = 100;

std::string NameOf(const RoundEffect& effect) {
  static constexpr const char* kNames[] = {"AdmitWorker", "RefuseWorker",   "WorkerLost",         "RecordDeparture",
                                           "RecordDrain", "RecordEviction", "RecordReadmission",  "AnswerContribution",
                                           "StartMerge",  "PersistCommit",  "PublishGlobalDelta", "ReleaseContribution",
                                           "PersistEnd",  "PublishEnd"};
  static_assert(std::variant_size_v<RoundEffect> == std::size(kNames), "name the new effect");
  return absl::StrCat("effect ", kNames[effect.index()]);
}

}  // namespace

class CoordinatorNode::Work final : public Executor {
 public:
  explicit Work(CoordinatorNode* node) : node_(*node) {}
  void Submit(std::function<void()> task) override { node_.Submit(this, std::move(task)); }

 private:
  CoordinatorNode& node_;
};

CoordinatorNode::CoordinatorNode(Options options, const Parts& parts)
    : Process(parts.loop, "coordinator", kHeapOfCoordinator),
      options_(std::move(options)),
      random_(*parts.random),
      disk_(*parts.disk),
      points_(*parts.points),
      witness_(*parts.witness) {
  disk_.SetOnDeath([this] { dying_ = true; });
}

CoordinatorNode::~CoordinatorNode() {
  dying_ = true;  // Requests that are dropped with the driver find nobody.
}

void CoordinatorNode::Boot() {
  DILOCO_CHECK(!up());
  const HeapScope own(heap());
  BeginLife();
  dying_ = paused_ = false;
  fatal_.reset();
  turn_scheduled_ = false;
  effect_.clear();
  disk_free_at_ = loop_.Now();
  const absl::Status status = Open();
  if (dying_) return Die(death_);
  if (!status.ok()) {
    witness_.Note(absl::StrCat("coordinator does not start: ", status.ToString()));
    // What was written and synced must be readable for ever, whatever else the disk has suffered.
    if (absl::IsDataLoss(status) && !absl::StrContains(status.message(), "input/output error")) {
      witness_.Fail(absl::StrCat("the coordinator cannot recover: ", status.ToString()));
    }
    return Die({});
  }
  witness_.Note(absl::StrCat("coordinator starts, life ", life()));
  witness_.OnCoordinatorStarted();
  if (paused_) witness_.OnPaused(true);  // Recovery said so before.
  due_ = loop_.Now();
  ScheduleTurn();
  if (on_up_) on_up_();
}

absl::Status CoordinatorNode::Open() {
  disk_work_ = std::make_unique<Work>(this);
  pool_work_ = std::make_unique<Work>(this);
  RecoveredState recovered;
  DILOCO_ASSIGN_OR_RETURN(store_, Store::Open(&disk_, {.folder = kFolder, .holder = name()}, &recovered));
  DILOCO_ASSIGN_OR_RETURN(driver_, Driver::Create({.config = options_.config,
                                                   .config_yaml = options_.yaml,
                                                   .checkpoint_folder = absl::StrCat(kFolder, "/checkpoints")},
                                                  {.clock = &loop_,
                                                   .files = &disk_,
                                                   .store = store_.get(),
                                                   .disk = disk_work_.get(),
                                                   .pool = pool_work_.get(),
                                                   .observer = this},
                                                  std::move(recovered)));
  return absl::OkStatus();
}

void CoordinatorNode::Die(const Death& death) {
  DILOCO_CHECK(up());
  ++deaths_;
  dying_ = true;
  disk_.Freeze();
  std::vector<std::shared_ptr<Stream>> streams;  // Some that only the driver's replies keep.
  for (const std::weak_ptr<Stream>& weak : std::exchange(streams_, {})) streams.push_back(weak.lock());
  driver_.reset();
  store_.reset();
  EndLife();
  for (const std::shared_ptr<Stream>& stream : streams) {
    if (stream != nullptr) stream->Die(Stream::kCoordinator, death.silent);
  }
  if (death.power_cut) {
    disk_.PowerCut(death.unsynced);
  } else {
    disk_.Kill();
  }
  witness_.Note(
      absl::StrFormat("coordinator down%s%s", death.power_cut ? ", power cut" : "", death.silent ? ", silently" : ""));
  if (on_down_) on_down_();
}

void CoordinatorNode::Own(const std::shared_ptr<Stream>& stream) {
  if (streams_.size() > kStreamsKept) std::erase_if(streams_, [](const auto& each) { return each.expired(); });
  streams_.push_back(stream);
}

void CoordinatorNode::ScheduleTurn() {
  if (!up() || turn_scheduled_) return;
  turn_scheduled_ = true;
  Post(random_.Between(absl::ZeroDuration(), absl::Microseconds(200)), [this] { Turn(); });
}

void CoordinatorNode::Turn() {
  turn_scheduled_ = false;
  in_turn_ = true;
  chunk_came_ = merge_starts_ = false;
  driver_->RunUntilIdle(due_);
  if (!effect_.empty()) Pass(std::exchange(effect_, ""), CrashSide::kAfter);
  in_turn_ = false;
  EndTurn();
}

void CoordinatorNode::EndTurn() {
  if (dying_) return Die(death_);
  if (fatal_) {
    witness_.Note(absl::StrCat("coordinator ends: ", fatal_->ToString()));
    return Die({});
  }
  due_ = driver_->NextWakeUp();
  PostAt(std::max(due_, loop_.Now()), [this, turn = ++turns_] {
    if (turn == turns_) Turn();
  });
}

void CoordinatorNode::Submit(Work* executor, Task task) {
  if (dying_ || !in_turn_) return;  // Helpers of a loop that its caller runs through alone.
  if (executor == disk_work_.get()) {
    disk_free_at_ = std::max(disk_free_at_, loop_.Now()) + random_.Between(absl::Microseconds(10), options_.disk_time);
    return PostAt(disk_free_at_, [this, task = std::move(task)] { RunWork("", task); });
  }
  // The set of a merge is fixed by an effect; contributions are checked as their last chunk comes in; what remains is
  // the consensus's own: seed, apply, checkpoint.
  const std::string name = merge_starts_ ? "work merge" : chunk_came_ ? "work check" : "work consensus";
  merge_starts_ = chunk_came_ = false;
  Post(random_.Between(absl::Microseconds(10), options_.pool_time),
       [this, name, task = std::move(task)] { RunWork(name, task); });
}

void CoordinatorNode::RunWork(const std::string& name, const Task& task) {
  if (!name.empty()) Pass(name, CrashSide::kBefore);
  if (!dying_) task();
  if (!dying_ && !name.empty()) Pass(name, CrashSide::kAfter);
  if (dying_) return Die(death_);
  ScheduleTurn();
}

void CoordinatorNode::Pass(const std::string& name, CrashSide side) {
  const HeapScope watch(kHeapOfTest);
  if (dying_ || !points_.Pass(name, side)) return;
  dying_ = true;
  disk_.Freeze();
  witness_.Note(absl::StrCat("crash point: ", name));
}

void CoordinatorNode::OnEffect(const RoundEffect& effect) {
  if (!effect_.empty()) Pass(effect_, CrashSide::kAfter);
  effect_ = NameOf(effect);
  chunk_came_ = false;
  merge_starts_ = std::holds_alternative<StartMerge>(effect);
  Pass(effect_, CrashSide::kBefore);
  if (dying_) return;
  if (const auto* merge = std::get_if<StartMerge>(&effect)) witness_.OnRoundClosed(merge->fragment, merge->round);
  if (const auto* admit = std::get_if<AdmitWorker>(&effect)) witness_.OnAdmitted(admit->worker, admit->incarnation);
  if (const auto* publish = std::get_if<PublishGlobalDelta>(&effect)) on_published_(publish->fragment, publish->round);
}

void CoordinatorNode::OnChunkReceived(const ContributionId&, uint64_t) {
  if (!effect_.empty()) Pass(std::exchange(effect_, ""), CrashSide::kAfter);
  chunk_came_ = true;
}

void CoordinatorNode::OnCommitted(int fragment, int64_t round, absl::Duration, int merged, int dropped,
                                  const std::string& reason) {
  witness_.Note(absl::StrFormat("fragment %d round %d committed, %d merged, %d dropped: %s", fragment, round, merged,
                                dropped, reason));
  witness_.OnRoundCommitted(fragment, round, reason);
}

void CoordinatorNode::OnRoundWaiting(int fragment, int64_t round, const std::string& reason) {
  if (!dying_) witness_.OnRoundWaiting(fragment, round, reason);
}

void CoordinatorNode::ShowPaused(bool paused) {
  paused_ = paused;
  if (!dying_) witness_.OnPaused(paused);
}

void CoordinatorNode::OnHold(HoldCause, const std::string& reason) {
  if (dying_) return;
  witness_.OnHold(reason);
  on_hold_(reason);
}

void CoordinatorNode::OnFatal(const absl::Status& status) { fatal_ = status; }

}  // namespace diloco::sim
