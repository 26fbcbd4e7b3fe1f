#include <algorithm>
#include <chrono>

#include "common/base/limits.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/shutting_down.h"
#include "coordinator/driver/thread_pool.h"
#include "coordinator/driver/wire.h"

namespace diloco {
namespace {

// Longest time between two looks at the clock: for what no deadline of the machine covers.
constexpr absl::Duration kTick = absl::Seconds(1);
// Later than this the driver wakes up only when its process was stopped or starved.
constexpr absl::Duration kMaxLateness = absl::Seconds(1);

}  // namespace

Driver::Impl::Impl(DriverOptions options, DriverWorld world)
    : options_(std::move(options)),
      world_(world),
      uplink_(FindCodec(options_.config.wire.uplink)),
      downlink_(FindCodec(options_.config.wire.downlink)),
      rounding_({.stochastic = options_.config.wire.stochastic_rounding, .seed = options_.config.run.seed}),
      optimizer_(FindOuterOptimizer(options_.config.outer.optimizer)),
      config_digest_(ConfigDigest(options_.config)),
      started_(world_.clock->Now()),
      mailbox_(std::make_shared<Mailbox>(kMaxDriverQueue)),
      settings_(options_.config),
      machine_(RoundOptions::From(options_.config, 1)),
      sessions_(options_.config.run.id),
      staging_(kMaxStagedBytes),
      next_tick_(started_) {}

Driver::Impl::~Impl() = default;

void Driver::Impl::Run() {
  next_tick_ = Now();
  while (!stopping_ || in_flight_ > 0) {
    HandleQueued(NextDue());
  }
}

void Driver::Impl::RunUntilIdle(std::optional<MonotonicTime> due) {
  HandleQueued(due ? std::min(*due + -paused_, Now()) : Now());
  while (!mailbox_->empty()) {
    HandleQueued(Now());
  }
}

void Driver::Impl::Shutdown() {
  const absl::Status reason = ShuttingDown();
  mailbox_->Close(reason);
  mailbox_->Post([this, reason] {
    stopping_ = true;
    CloseEverything(reason);
  });
}

MonotonicTime Driver::Impl::NextDue() const {
  MonotonicTime next = next_tick_;
  if (halted()) {
    return next;
  }
  for (const std::optional<MonotonicTime> deadline : {machine_.NextDeadline(), NextDiskTry()}) {
    next = std::min(next, deadline.value_or(next));
  }
  return next;
}

// The clock may be a simulated one, so that only differences are carried over to the wait.
void Driver::Impl::HandleQueued(MonotonicTime wait_until) {
  const absl::Duration wait = std::max(wait_until - Now(), absl::ZeroDuration());
  const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(wait);
  const std::deque<Mailbox::Task> tasks = mailbox_->TakeUntil(deadline);
  if (const absl::Duration late = Now() - wait_until; late > kMaxLateness) {
    world_.observer->OnPaused(late);
    paused_ += late;
    Step(LeasesRenewed{});  // Before anybody is judged: sessions may have broken meanwhile.
  }
  const MonotonicTime now = Now();
  for (const Mailbox::Task& task : tasks) {
    task();
  }
  const std::optional<MonotonicTime> due = machine_.NextDeadline();
  if (now >= next_tick_ || (due && now >= *due)) {
    next_tick_ = now + kTick;
    Step(TimePassed{});
    ReportWaiting();
    ReportOldestRound();
  }
  TryDiskAgain();
  Settle();
}

// What follows from everything that was handled: directives, and the end of the process.
void Driver::Impl::Settle() {
  if (halted()) {
    return;
  }
  ReportHold();
  if (directives_stale_) {
    directives_stale_ = false;
    ReportMembers();
    sessions_.SendIfChanged(
        [this, common = CommonDirective()](const std::string& worker) { return DirectiveFor(worker, common); });
  }
  if (!finished_ && final_checkpoint_saved_) {
    // Whoever left has been told that it may go, just above, before the process is.
    finished_ = WorkersAlive() == 0 && std::none_of(members_.begin(), members_.end(), [](const auto& member) {
                  return member.second.left && !member.second.departure_durable;
                });
    if (finished_) {
      world_.observer->OnRunFinished();
    }
  }
}

void Driver::Impl::Step(const RoundEvent& event) {
  if (halted()) {
    return;
  }
  for (const RoundEffect& effect : machine_.Step(event, Now())) {
    world_.observer->OnEffect(effect);
    std::visit([this](const auto& e) { Carry(e); }, effect);
  }
  directives_stale_ = true;
  if (machine_.phase() != reported_phase_) {
    reported_phase_ = machine_.phase();
    if (reported_phase_ == RunPhase::kTraining) TellStartWhenDurable();
    world_.observer->OnPhase(reported_phase_);
  }
}

// The members that a start counts may still be on their way to the disk. A coordinator that came back without one of
// them would wait for it again, for ever if an operator drains a worker meanwhile that has begun to train.
void Driver::Impl::TellStartWhenDurable() {
  start_durable_ = false;
  SubmitStore([] { return absl::OkStatus(); },
              [this] {
                start_durable_ = true;
                directives_stale_ = true;
              });
}

void Driver::Impl::ReportMembers() {
  const MemberCounts counts = CountMembers();
  if (counts != reported_members_) {
    reported_members_ = counts;
    world_.observer->OnMembers(counts);
  }
}

// Says why a round waits when who has answered, or how many have to, has changed; the reason alone changes all the
// time, with the clock.
void Driver::Impl::ReportWaiting() {
  if (run_ == nullptr || halted()) {
    return;
  }
  for (int fragment = 0; fragment < run_->layout->fragment_count(); ++fragment) {
    std::vector<RoundView> open = machine_.OpenRounds(fragment, Now());
    if (open.empty() || open.front().phase != RoundPhase::kCollecting) {
      continue;
    }
    RoundView& view = open.front();
    RoundView& reported = reported_waiting_[fragment];
    if (view.round != reported.round || view.present != reported.present || view.awaited != reported.awaited ||
        view.abstained != reported.abstained || view.quorum != reported.quorum || reported.reason.empty()) {
      world_.observer->OnRoundWaiting(fragment, view.round, view.reason);
      reported = std::move(view);
    }
  }
}

void Driver::Impl::ReportOldestRound() {
  if (halted()) {
    return;
  }
  std::optional<OldestRound> oldest;
  for (const RoundView& view : OpenRounds()) {
    if (machine_.phase() == RunPhase::kTraining && view.round == machine_.OldestOpenRound()) {
      oldest = {.round = view.round,
                .opened = view.opened,
                .open_for = Now() - view.opened,
                .quorum = view.quorum,
                .present = static_cast<int>(view.present.size()),
                .grace_window = view.grace_window};
      break;
    }
  }
  if (oldest != reported_oldest_) {
    world_.observer->OnOldestRound(oldest);
    reported_oldest_ = oldest;
  }
  if (staging_.staged_bytes() != reported_staged_) {
    reported_staged_ = staging_.staged_bytes();
    world_.observer->OnStaged(reported_staged_);
  }
}

void Driver::Impl::Fail(const absl::Status& status) {
  if (failed_) {
    return;
  }
  Halt(absl::UnavailableError("the coordinator's store failed, so that it stops; try again when it is back"));
  world_.observer->OnFatal(status);
}

void Driver::Impl::Halt(const absl::Status& reason) {
  failed_ = true;
  mailbox_->Close(reason);
  CloseEverything(reason);
}

void Driver::Impl::CloseEverything(const absl::Status& status) {
  sessions_.CloseAll(status);
  if (run_ != nullptr) {
    run_->log.EndAll();
  }
  store_work_.clear();
  upload_replies_.clear();
  seed_replies_.clear();
  save_replies_.clear();
  staging_.Clear();
}

}  // namespace diloco
