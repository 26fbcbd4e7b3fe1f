#include "coordinator/round/round_machine.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "coordinator/round/fragment_rounds.h"
#include "coordinator/round/membership.h"

namespace diloco {
namespace {

// Every event of a member, but not of an operator, is a sign of life.
struct Sender {
  std::string worker;
  uint64_t incarnation = 0;
};

std::optional<Sender> SenderOf(const RoundEvent& event) {
  return std::visit(
      [](const auto& e) -> std::optional<Sender> {
        if constexpr (requires { e.id; }) return Sender{e.id.worker, e.incarnation};
        if constexpr (requires { e.worker, e.incarnation; }) return Sender{e.worker, e.incarnation};
        return std::nullopt;
      },
      event);
}

absl::Status CheckRecovered(const RoundOptions& options, const RecoveredRounds& recovered) {
  const size_t fragments = static_cast<size_t>(options.fragments);
  if (recovered.next_round.size() != fragments) {
    return absl::InvalidArgumentError(
        absl::StrCat("recovered rounds of ", recovered.next_round.size(), " fragments, and the run has ", fragments));
  }
  for (const int64_t next_round : recovered.next_round) {
    if (next_round >= 0 && next_round <= options.rounds && (recovered.seeded || next_round == 0) &&
        (!recovered.ended || next_round == options.rounds)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("recovered ", next_round, " rounds of ", options.rounds,
                                                   " of a run that was ", recovered.seeded ? "" : "not ",
                                                   "seeded and has ", recovered.ended ? "" : "not ", "ended"));
  }
  if (recovered.members.size() > static_cast<size_t>(options.max_members)) {
    return absl::InvalidArgumentError(
        absl::StrCat("recovered ", recovered.members.size(), " members, more than ", options.max_members));
  }
  std::set<std::string> ids;
  for (const RecoveredRounds::Member& member : recovered.members) {
    if (!ids.insert(member.worker).second) {
      return absl::InvalidArgumentError(absl::StrCat("recovered worker \"", member.worker, "\" twice"));
    }
    if (member.settled_rounds.size() != fragments) {
      return absl::InvalidArgumentError(absl::StrCat("recovered ", member.settled_rounds.size(),
                                                     " settled rounds of worker \"", member.worker, "\" for ",
                                                     fragments, " fragments"));
    }
    for (size_t i = 0; i < fragments; ++i) {
      if (member.settled_rounds[i] >= -1 && member.settled_rounds[i] < recovered.next_round[i]) continue;
      return absl::InvalidArgumentError(absl::StrCat("recovered settled round ", member.settled_rounds[i],
                                                     " of worker \"", member.worker, "\", but fragment ", i,
                                                     " has committed ", recovered.next_round[i], " rounds"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

RoundOptions RoundOptions::From(const RunConfig& config, int fragments) {
  std::optional<AdaptiveGrace> adaptive;
  if (!config.rounds.grace_window) adaptive = {.floor = config.rounds.grace_floor, .cap = config.rounds.grace_cap};
  return {.workers = config.run.workers,
          .quorum = config.rounds.quorum,
          .grace_window = config.rounds.grace_window.value_or(absl::ZeroDuration()),
          .adaptive_grace = adaptive,
          .timeout = config.rounds.timeout,
          .lease = config.rounds.lease,
          .late = config.rounds.late,
          .rounds = config.run.rounds,
          .open_rounds = config.OpenRounds(),
          .fragments = fragments,
          .max_members = kMaxWorkers};
}

struct RoundMachine::State {
  explicit State(const RoundOptions& round_options) : options(round_options), members(&options) {
    DILOCO_CHECK(options.workers >= 1 && options.quorum >= 1 && options.quorum <= options.workers);
    DILOCO_CHECK(options.rounds >= 1 && options.open_rounds >= 1 && options.fragments >= 1);
    DILOCO_CHECK(options.max_members >= options.workers);
    for (int i = 0; i < options.fragments; ++i) fragments.emplace_back(i, /*next_round=*/0, &options);
  }

  using Effects = std::vector<RoundEffect>;

  void Handle(const WorkerJoined& event, MonotonicTime now, Effects* effects);
  void Handle(const WorkerHeard&, MonotonicTime, Effects*) {}
  void Handle(const LeasesRenewed&, MonotonicTime, Effects*) {}
  void Handle(const WorkerLeft& event, MonotonicTime, Effects* effects) { members.Leave(event, effects); }
  void Handle(const WorkerStopped& event, MonotonicTime, Effects*) { members.Stop(event); }
  void Handle(const DrainAsked& event, MonotonicTime, Effects* effects) {
    if (members.Drain(event.worker)) effects->emplace_back(RecordDrain{event.worker});
  }
  void Handle(const EvictionAsked& event, MonotonicTime, Effects* effects) {
    if (!members.Evict(event.worker)) return;
    int dropped = 0;
    for (FragmentRounds& fragment : fragments) dropped += ending ? 0 : fragment.Expel(event.worker);
    effects->emplace_back(RecordEviction{event.worker, dropped});
  }
  void Handle(const EvictionLifted& event, MonotonicTime, Effects* effects) {
    if (members.Readmit(event.worker)) effects->emplace_back(RecordReadmission{event.worker});
  }
  void Handle(const RunSeeded&, MonotonicTime, Effects*) {
    DILOCO_CHECK(phase == RunPhase::kSeeding);
    phase = RunPhase::kWaitingForWorkers;
  }
  void Handle(const ContributionStored& event, MonotonicTime, Effects* effects);
  void Handle(const ContributionRefused& event, MonotonicTime, Effects* effects);
  void Handle(const WorkerAbstained& event, MonotonicTime, Effects* effects);
  void Handle(const MergeFinished& event, MonotonicTime, Effects* effects) {
    effects->emplace_back(Fragment(event.fragment).FinishMerge(event.round));
  }
  void Handle(const CommitPersisted& event, MonotonicTime now, Effects* effects);
  void Handle(const EndPersisted&, MonotonicTime, Effects* effects) {
    DILOCO_CHECK(ending && phase == RunPhase::kTraining);
    phase = RunPhase::kEnded;
    effects->emplace_back(PublishEnd{});
  }
  void Handle(const TimePassed&, MonotonicTime, Effects*) {}

  // Starts the run, closes what can close, ends the run.
  void Advance(MonotonicTime now, Effects* effects);
  void StartTraining(MonotonicTime now) {
    phase = RunPhase::kTraining;
    for (FragmentRounds& fragment : fragments) fragment.OpenWindow(now);
  }

  // The rules for everything that names a contribution.
  Answer Classify(const ContributionId& id, uint64_t incarnation) const;
  int64_t FirstRoundOf(const WorkerJoined& event) const;
  // It goes on where its checkpoint stands.
  bool CanResume(const WorkerJoined& event) const;
  int64_t OldestOpenRound() const;
  // In the oldest open round.
  bool TakesPart(const std::string& worker, const Member& member) const {
    return std::any_of(fragments.begin(), fragments.end(), [&, oldest = OldestOpenRound()](const FragmentRounds& f) {
      return f.next_round() == oldest && f.TakesPart(worker, member);
    });
  }
  bool AllFinished() const {
    return std::all_of(fragments.begin(), fragments.end(), [](const FragmentRounds& f) { return f.finished(); });
  }
  FragmentRounds& Fragment(int index) { return fragments.at(static_cast<size_t>(index)); }
  const FragmentRounds& Fragment(int index) const { return fragments.at(static_cast<size_t>(index)); }

  bool held() const { return !holds.empty(); }

  RoundOptions options;
  RunPhase phase = RunPhase::kSeeding;
  std::set<HeldBy> holds;
  bool released = false;  // Since the last Advance.
  bool ending = false;    // PersistEnd was asked for: what it settles is fixed.
  Membership members;
  std::vector<FragmentRounds> fragments;
};

void RoundMachine::State::Handle(const WorkerJoined& event, MonotonicTime now, Effects* effects) {
  const Member* known = members.Find(event.worker);
  const bool resumes = CanResume(event);
  const int64_t first_round = resumes ? known->first_round : FirstRoundOf(event);
  const std::optional<int64_t> oldest_round =
      known != nullptr && !event.resumes.empty() ? std::optional(known->oldest_round) : std::nullopt;
  RoundEffect answer = members.Join(event, first_round, phase == RunPhase::kEnded, now);
  if (AdmitWorker* admitted = std::get_if<AdmitWorker>(&answer); admitted != nullptr && !admitted->returning) {
    admitted->resumes = resumes;
    if (oldest_round) members.TakeFrom(event.worker, *oldest_round, resumes);
  }
  effects->push_back(std::move(answer));
}

void RoundMachine::State::Handle(const ContributionStored& event, MonotonicTime now, Effects* effects) {
  DILOCO_CHECK(event.weight > 0 && std::isfinite(event.weight));
  if (members.Current(event.id.worker, event.incarnation) == nullptr) return;
  Answer answer = Classify(event.id, event.incarnation);
  if (answer.verdict == Verdict::kWanted) {
    Fragment(event.id.fragment).Store(event, now);
    members.NoteWeight(event.id.worker, event.id.round, event.weight);
    answer.verdict = Verdict::kStored;
  } else if (answer.verdict == Verdict::kStored && !Fragment(event.id.fragment).HoldsDigest(event.id, event.digest)) {
    answer = {Verdict::kRefused, absl::StrCat("round ", event.id.round, " of this worker is held with another digest")};
  }
  effects->emplace_back(AnswerContribution{event.id, answer.verdict, std::move(answer.reason)});
}

void RoundMachine::State::Handle(const ContributionRefused& event, MonotonicTime, Effects* effects) {
  if (members.Current(event.id.worker, event.incarnation) == nullptr) return;
  Answer answer = Classify(event.id, event.incarnation);
  if (answer.verdict == Verdict::kWanted) Fragment(event.id.fragment).Refuse(event);
  if (answer.verdict == Verdict::kWanted || answer.verdict == Verdict::kStored) {
    answer = {Verdict::kRefused, event.reason};
  }
  effects->emplace_back(AnswerContribution{event.id, answer.verdict, std::move(answer.reason)});
}

void RoundMachine::State::Handle(const WorkerAbstained& event, MonotonicTime, Effects* effects) {
  if (members.Current(event.id.worker, event.incarnation) == nullptr) return;
  Answer answer = Classify(event.id, event.incarnation);
  if (answer.verdict == Verdict::kWanted) {
    FragmentRounds& fragment = Fragment(event.id.fragment);
    const bool collects = fragment.Collects(event.id.round);
    if (collects) fragment.Abstain(event);
    answer.verdict = collects ? Verdict::kStored : Verdict::kSettled;
  }
  effects->emplace_back(AnswerContribution{event.id, answer.verdict, std::move(answer.reason)});
}

void RoundMachine::State::Handle(const CommitPersisted& event, MonotonicTime now, Effects* effects) {
  effects->emplace_back(PublishGlobalDelta{event.fragment, event.round});
  for (const Settled& line : Fragment(event.fragment).FinishCommit(event.round, now)) {
    members.NoteSettled(line.id);
    effects->emplace_back(ReleaseContribution{line.id});
  }
}

void RoundMachine::State::Advance(MonotonicTime now, Effects* effects) {
  const bool starts = phase == RunPhase::kWaitingForWorkers && members.CountStaying() >= options.workers;
  if (starts && !held()) StartTraining(now);
  const bool members_changed = members.TakeChanged();
  const bool changed = std::exchange(released, false) || members_changed;
  if (phase != RunPhase::kTraining || ending) return;
  for (FragmentRounds& fragment : fragments) fragment.Advance(members, changed, held(), now, effects);
  if (held() || !AllFinished()) return;
  ending = true;
  PersistEnd end;
  for (const FragmentRounds& fragment : fragments) {
    const std::vector<Settled> leftovers = fragment.Leftovers();
    end.settled.insert(end.settled.end(), leftovers.begin(), leftovers.end());
  }
  effects->emplace_back(std::move(end));
}

Answer RoundMachine::State::Classify(const ContributionId& id, uint64_t incarnation) const {
  const Member* member = members.Current(id.worker, incarnation);
  if (member == nullptr) return {Verdict::kRefused, "not a member under this incarnation; join again"};
  const bool beyond = id.round >= options.rounds;
  if (id.fragment < 0 || id.fragment >= options.fragments || id.round < 0 || (beyond && !options.stopped)) {
    return {Verdict::kRefused, absl::StrCat("fragment ", id.fragment, ", round ", id.round, ": the run has ",
                                            options.fragments, " fragments and ", options.rounds, " rounds")};
  }
  if (ending || phase == RunPhase::kEnded || beyond) return {Verdict::kSettled, ""};
  if (phase != RunPhase::kTraining) return {Verdict::kTooEarly, "training has not started"};
  return Fragment(id.fragment).Classify(id.worker, *member, id.round);
}

bool RoundMachine::State::CanResume(const WorkerJoined& event) const {
  const Member* known = members.Find(event.worker);
  if (known == nullptr || event.resumes.size() != fragments.size()) return false;
  for (size_t i = 0; i < fragments.size(); ++i) {
    const int64_t newest_own = std::max(fragments[i].NewestHeld(event.worker), known->settled_rounds[i]);
    if (newest_own >= event.resumes[i] || fragments[i].HasClosed(event.resumes[i])) return false;
  }
  return true;
}

int64_t RoundMachine::State::FirstRoundOf(const WorkerJoined& event) const {
  if (phase == RunPhase::kSeeding || phase == RunPhase::kWaitingForWorkers) return 0;
  // A round that it has contributed to, in whatever incarnation, is not done again, also when that is known to its
  // checkpoint alone: a coordinator that was killed has forgotten what was not settled.
  int64_t newest_own = -1;
  for (const int64_t next_round : event.resumes) newest_own = std::max(newest_own, next_round - 1);
  bool needed = false;
  const std::string& joiner = event.worker;
  const int64_t oldest = OldestOpenRound();
  const Member* known = members.Find(joiner);
  for (const FragmentRounds& fragment : fragments) {
    newest_own = std::max(newest_own, fragment.NewestHeld(joiner));
    needed |= fragment.next_round() == oldest && fragment.NeedsWorker(joiner, members);
  }
  if (known != nullptr) {
    newest_own = std::max(newest_own, *std::max_element(known->settled_rounds.begin(), known->settled_rounds.end()));
  }
  if (needed && newest_own < oldest) return oldest;
  // Not beyond the end, but for what it has done before the run was stopped: who comes too late for any round still
  // follows the run to it.
  return std::max(newest_own + 1, std::min(oldest + 1, options.rounds));
}

int64_t RoundMachine::State::OldestOpenRound() const {
  int64_t oldest = options.rounds;
  for (const FragmentRounds& fragment : fragments) oldest = std::min(oldest, fragment.next_round());
  return oldest;
}

RoundMachine::RoundMachine(const RoundOptions& options) : state_(std::make_unique<State>(options)) {}
RoundMachine::RoundMachine(RoundMachine&&) noexcept = default;
RoundMachine& RoundMachine::operator=(RoundMachine&&) noexcept = default;
RoundMachine::~RoundMachine() = default;

std::vector<RoundEffect> RoundMachine::Step(const RoundEvent& event, MonotonicTime now) {
  std::vector<RoundEffect> effects;
  if (std::holds_alternative<LeasesRenewed>(event)) state_->members.RenewLeases(now);
  // Whoever speaks now is alive, even if its lease has just ended.
  if (const std::optional<Sender> sender = SenderOf(event)) {
    state_->members.Heard(sender->worker, sender->incarnation, now);
  }
  state_->members.ExpireLeases(now, &effects);
  std::visit([&](const auto& e) { state_->Handle(e, now, &effects); }, event);
  state_->Advance(now, &effects);
  return effects;
}

void RoundMachine::Hold(HeldBy cause) { state_->holds.insert(cause); }

void RoundMachine::Release(HeldBy cause) {
  if (state_->holds.erase(cause) == 1) state_->released = true;
}

void RoundMachine::SetOptions(const RoundOptions& options, MonotonicTime now) {
  State& state = *state_;
  DILOCO_CHECK(options.workers == state.options.workers && options.open_rounds == state.options.open_rounds &&
               options.fragments == state.options.fragments && options.max_members == state.options.max_members);
  DILOCO_CHECK(options.quorum >= 1 && options.quorum <= options.workers);
  DILOCO_CHECK(ended() ? options.rounds == state.options.rounds : options.rounds >= EarliestEnd());
  state.options = options;
  if (state.phase != RunPhase::kTraining || state.ending) return;
  for (FragmentRounds& fragment : state.fragments) fragment.OptionsChanged(now);
}

int64_t RoundMachine::EarliestEnd() const {
  int64_t end = std::min(state_->OldestOpenRound() + 1, state_->options.rounds);
  for (const FragmentRounds& fragment : state_->fragments) end = std::max(end, fragment.FirstUnclosed());
  return end;
}

int64_t RoundMachine::OldestUnclosedRound() const {
  int64_t oldest = state_->options.rounds;
  for (const FragmentRounds& fragment : state_->fragments) oldest = std::min(oldest, fragment.FirstUnclosed());
  return oldest;
}

bool RoundMachine::ended() const { return state_->ending || state_->phase == RunPhase::kEnded; }

Verdict RoundMachine::Ask(const ContributionId& id, uint64_t incarnation) const {
  return state_->Classify(id, incarnation).verdict;
}

bool RoundMachine::IsMember(const std::string& worker, uint64_t incarnation) const {
  const Member* member = state_->members.Current(worker, incarnation);
  return member != nullptr && member->state == MemberState::kAlive;
}

std::optional<MonotonicTime> RoundMachine::NextDeadline() const {
  std::optional<MonotonicTime> next = state_->members.NextLeaseEnd();
  if (state_->held()) return next;  // A wait that is over would be due for ever, since nothing closes.
  for (const FragmentRounds& fragment : state_->fragments) {
    const std::optional<MonotonicTime> wait_end = fragment.WaitEnd();
    if (wait_end && (!next || *wait_end < *next)) next = wait_end;
  }
  return next;
}

RunPhase RoundMachine::phase() const { return state_->phase; }

std::string RoundMachine::Reason(MonotonicTime now) const {
  switch (state_->phase) {
    case RunPhase::kSeeding: {
      const std::string seeder = Seeder();
      return seeder.empty() ? "waiting for a first worker"
                            : absl::StrCat("waiting for \"", seeder, "\" to send the initial parameters");
    }
    case RunPhase::kWaitingForWorkers:
      return absl::StrCat(state_->members.CountStaying(), " of ", state_->options.workers, " workers have joined");
    case RunPhase::kEnded:
      return absl::StrCat("all ", state_->options.rounds, " rounds are committed");
    case RunPhase::kTraining:
      break;
  }
  for (const FragmentRounds& fragment : state_->fragments) {
    if (fragment.finished() || fragment.next_round() != OldestOpenRound()) continue;
    const RoundView oldest = fragment.Views(state_->members, state_->held(), now).front();
    return absl::StrCat("round ", oldest.round, " of fragment ", oldest.fragment,
                        oldest.phase == RoundPhase::kCollecting ? ": " : " is being merged: ", oldest.reason);
  }
  return state_->held() ? "the end record waits until the run goes on" : "the end record is being written";
}

std::string RoundMachine::Seeder() const {
  return state_->phase == RunPhase::kSeeding ? state_->members.FirstJoined() : "";
}

std::string RoundMachine::Evaluator() const { return state_->members.FirstById(); }

int64_t RoundMachine::NextRound(int fragment) const { return state_->Fragment(fragment).next_round(); }

int64_t RoundMachine::OldestOpenRound() const { return state_->OldestOpenRound(); }

int64_t RoundMachine::SettledRound(const std::string& worker, int fragment) const {
  const Member* member = state_->members.Find(worker);
  return member == nullptr ? -1 : member->settled_rounds.at(static_cast<size_t>(fragment));
}

std::vector<MemberView> RoundMachine::Members() const {
  std::vector<MemberView> views;
  for (const auto& [worker, member] : state_->members.all()) {
    views.push_back({.worker = worker,
                     .incarnation = member.incarnation,
                     .state = member.state,
                     .draining = member.draining,
                     .participating = state_->TakesPart(worker, member),
                     .first_round = member.first_round,
                     .last_heard = member.last_heard});
  }
  return views;
}

std::vector<RoundView> RoundMachine::OpenRounds(int fragment, MonotonicTime now) const {
  return state_->Fragment(fragment).Views(state_->members, state_->held(), now);
}

absl::StatusOr<RoundMachine> RoundMachine::Restore(const RoundOptions& options, const RecoveredRounds& recovered,
                                                   MonotonicTime now) {
  DILOCO_RETURN_IF_ERROR(CheckRecovered(options, recovered));
  RoundMachine machine(options);
  State& state = *machine.state_;
  for (const RecoveredRounds::Member& member : recovered.members) state.members.Restore(member, now);
  for (int i = 0; i < options.fragments; ++i) {
    state.Fragment(i) = FragmentRounds(i, recovered.next_round[static_cast<size_t>(i)], &state.options);
  }
  if (recovered.ended) {
    state.phase = RunPhase::kEnded;
  } else if (recovered.seeded) {
    state.phase = RunPhase::kWaitingForWorkers;
    const bool any_committed = std::any_of(recovered.next_round.begin(), recovered.next_round.end(),
                                           [](int64_t next_round) { return next_round > 0; });
    if (any_committed || recovered.members.size() >= static_cast<size_t>(options.workers)) state.StartTraining(now);
  }
  return machine;
}

}  // namespace diloco
