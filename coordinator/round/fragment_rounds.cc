#include "coordinator/round/fragment_rounds.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace diloco {

FragmentRounds::FragmentRounds(int fragment, int64_t next_round, const RoundOptions* options)
    : fragment_(fragment), options_(options), next_round_(next_round) {}

void FragmentRounds::OpenWindow(MonotonicTime now) {
  const int64_t end = std::min(next_round_ + options_->open_rounds, options_->rounds);
  while (next_round_ + static_cast<int64_t>(rounds_.size()) < end) rounds_.push_back({now, Collecting{}});
  changed_ = true;
}

void FragmentRounds::OptionsChanged(MonotonicTime now) {
  DILOCO_CHECK(FirstUnclosed() <= options_->rounds);
  while (next_round_ + static_cast<int64_t>(rounds_.size()) > options_->rounds) rounds_.pop_back();
  OpenWindow(now);
}

Answer FragmentRounds::Classify(const std::string& worker, const Member& member, int64_t round) const {
  const Entry* held = Find(worker, round);
  if (held != nullptr && std::holds_alternative<Contribution>(*held)) return {Verdict::kStored, ""};
  if (held != nullptr && std::holds_alternative<Refusal>(*held)) {
    return {Verdict::kRefused, std::get<Refusal>(*held).reason};
  }
  // It is dropped with the next round, also when its worker was let in again and a checkpoint still has it.
  if (held != nullptr && std::holds_alternative<Expelled>(*held)) return {Verdict::kSettled, ""};
  if (round <= member.settled_rounds[static_cast<size_t>(fragment_)] || round < member.oldest_round) {
    return {Verdict::kSettled, ""};
  }
  if (round >= next_round_ + options_->open_rounds) {
    return {Verdict::kTooEarly, absl::StrCat("round ", round, " is too far ahead: the oldest open one is ", next_round_,
                                             " and at most ", options_->open_rounds, " are open")};
  }
  return {Verdict::kWanted, ""};
}

bool FragmentRounds::HoldsDigest(const ContributionId& id, const Digest& digest) const {
  const Entry* held = Find(id.worker, id.round);
  const Contribution* contribution = held == nullptr ? nullptr : std::get_if<Contribution>(held);
  return contribution != nullptr && contribution->digest == digest;
}

void FragmentRounds::Store(const ContributionStored& event, MonotonicTime now) {
  arrivals_.NoteContribution(event.id.round, now);
  held_[{event.id.worker, event.id.round}] = Contribution{event.digest, event.weight};
  changed_ = true;
}

void FragmentRounds::Refuse(const ContributionRefused& event) {
  held_[{event.id.worker, event.id.round}] = Refusal{event.digest, event.reason};
  changed_ = true;
}

void FragmentRounds::Abstain(const WorkerAbstained& event) {
  DILOCO_CHECK(Collects(event.id.round));
  held_[{event.id.worker, event.id.round}] = Abstention{};
  changed_ = true;
}

bool FragmentRounds::Collects(int64_t round) const {
  const int64_t index = round - next_round_;
  return index >= 0 && index < static_cast<int64_t>(rounds_.size()) &&
         std::holds_alternative<Collecting>(rounds_[static_cast<size_t>(index)].phase);
}

int FragmentRounds::Expel(const std::string& worker) {
  const Closed* fixed = FixedSet();
  int dropped = 0;
  for (auto it = held_.lower_bound({worker, 0}); it != held_.end() && it->first.first == worker;) {
    const ContributionId id{worker, fragment_, it->first.second};
    const bool is_fixed = fixed != nullptr && std::any_of(fixed->settled.begin(), fixed->settled.end(),
                                                          [&id](const Settled& line) { return line.id == id; });
    if (const auto* contribution = std::get_if<Contribution>(&it->second); contribution != nullptr && !is_fixed) {
      it->second = Expelled{contribution->digest};
      ++dropped;
    }
    it = std::holds_alternative<Abstention>(it->second) ? held_.erase(it) : std::next(it);
  }
  changed_ = true;
  return dropped;
}

bool FragmentRounds::HasClosed(int64_t round) const {
  return round < next_round_ || (round == next_round_ && !rounds_.empty() && !Collects(round));
}

void FragmentRounds::Advance(const Membership& members, bool changed, bool held, MonotonicTime now,
                             std::vector<RoundEffect>* effects) {
  const std::optional<MonotonicTime> wait_end = WaitEnd();
  if (!changed_ && !changed && !(wait_end && now >= *wait_end)) return;
  changed_ = false;
  // A later round's grace window runs while the oldest one is merged, and every round's while the run is held.
  for (size_t i = 0; i < rounds_.size(); ++i) {
    Collecting* collecting = std::get_if<Collecting>(&rounds_[i].phase);
    if (collecting == nullptr) continue;
    const RoundFacts facts = Facts(i, members);
    if (static_cast<int>(facts.present.size()) < QuorumNeeded(facts)) {
      collecting->quorum_since.reset();
    } else if (!collecting->quorum_since) {
      collecting->quorum_since = now;
      arrivals_.NoteQuorum(next_round_ + static_cast<int64_t>(i), now);
    }
  }
  if (held || !Collects(next_round_)) return;
  const RoundFacts facts = Facts(0, members);
  Decision decision = Decide(facts, now);
  if (decision.close) Close(members, facts.quorum, std::move(decision.reason), effects);
}

void FragmentRounds::Close(const Membership& members, int quorum, std::string reason,
                           std::vector<RoundEffect>* effects) {
  Merging merging;
  merging.settled = SettledBy(next_round_, members);
  merging.participating_weight = ParticipatingWeight(next_round_, merging.settled, members);
  merging.quorum = quorum;
  merging.reason = std::move(reason);
  StartMerge start{.fragment = fragment_, .round = next_round_, .merged = {}};
  std::copy_if(merging.settled.begin(), merging.settled.end(), std::back_inserter(start.merged),
               [](const Settled& settled) { return settled.settlement == Settlement::kMerged; });
  rounds_.front().phase = std::move(merging);
  effects->emplace_back(std::move(start));
}

// In (worker id, round) order, because held_ is.
std::vector<Settled> FragmentRounds::SettledBy(int64_t round, const Membership& members) const {
  std::vector<Settled> out;
  for (const auto& [key, entry] : held_) {
    const auto& [worker, contributed_round] = key;
    if (contributed_round > round) continue;
    Settlement settlement = Settlement::kMerged;
    if (contributed_round < round && options_->late == LatePolicy::kDrop) {
      settlement = Settlement::kDroppedLate;
    } else if (contributed_round <= members.Find(worker)->settled_rounds[static_cast<size_t>(fragment_)]) {
      settlement = Settlement::kDroppedOutOfOrder;  // It arrived while a newer one was being merged.
    }
    std::optional<Settled> line = LineFor(key, entry, settlement);
    if (line) out.push_back(*std::move(line));
  }
  return out;
}

std::optional<Settled> FragmentRounds::LineFor(const Key& key, const Entry& entry, Settlement settlement) const {
  Settled line;
  line.id = {key.first, fragment_, key.second};
  line.settlement = settlement;
  if (const auto* contribution = std::get_if<Contribution>(&entry)) {
    line.digest = contribution->digest;
    line.weight = settlement == Settlement::kMerged ? contribution->weight : 0;
    return line;
  }
  if (const auto* refusal = std::get_if<Refusal>(&entry)) {
    line.digest = refusal->digest;
    line.settlement = Settlement::kDroppedRefused;
    return line;
  }
  if (const auto* expelled = std::get_if<Expelled>(&entry)) {
    line.digest = expelled->digest;
    line.settlement = Settlement::kDroppedEvicted;
    line.weight = 0;
    return line;
  }
  return std::nullopt;  // Nothing was sent.
}

double FragmentRounds::ParticipatingWeight(int64_t round, const std::vector<Settled>& settled,
                                           const Membership& members) const {
  // A worker that is merged counts with what is merged, so that the sum does not depend on what else has arrived.
  std::map<std::string, double> weights;
  for (const auto& [worker, member] : members.all()) {
    const bool takes_part = member.state == MemberState::kAlive && !member.IsDoneBefore(round);
    if (takes_part && IsDue(worker, member, round)) weights[worker] = member.weight;
  }
  for (const Settled& line : settled) {
    if (line.settlement == Settlement::kMerged) weights[line.id.worker] = line.weight;
  }
  double sum = 0;
  for (const auto& [worker, weight] : weights) sum += weight;
  return weights.empty() ? 1 : sum;
}

PersistCommit FragmentRounds::FinishMerge(int64_t round) {
  DILOCO_CHECK(round == next_round_ && !rounds_.empty());
  Merging* merging = std::get_if<Merging>(&rounds_.front().phase);
  DILOCO_CHECK(merging != nullptr);
  PersistCommit persist{.fragment = fragment_,
                        .round = round,
                        .settled = merging->settled,
                        .participating_weight = merging->participating_weight};
  Closed closed = std::move(*merging);
  rounds_.front().phase = Committing{std::move(closed)};
  return persist;
}

std::vector<Settled> FragmentRounds::FinishCommit(int64_t round, MonotonicTime now) {
  DILOCO_CHECK(round == next_round_ && !rounds_.empty());
  Committing* committing = std::get_if<Committing>(&rounds_.front().phase);
  DILOCO_CHECK(committing != nullptr);
  std::vector<Settled> settled = std::move(committing->settled);
  for (const Settled& line : settled) held_.erase({line.id.worker, line.id.round});
  std::erase_if(held_, [round](const auto& entry) {
    return entry.first.second <= round && std::holds_alternative<Abstention>(entry.second);
  });
  rounds_.pop_front();
  ++next_round_;
  OpenWindow(now);
  return settled;
}

std::vector<Settled> FragmentRounds::Leftovers() const {
  std::vector<Settled> out;
  for (const auto& [key, entry] : held_) {
    std::optional<Settled> line = LineFor(key, entry, Settlement::kDroppedRunEnded);
    if (line) out.push_back(*std::move(line));
  }
  return out;
}

int64_t FragmentRounds::NewestHeld(const std::string& worker) const {
  int64_t newest = -1;
  for (auto it = held_.lower_bound({worker, 0}); it != held_.end() && it->first.first == worker; ++it) {
    if (!std::holds_alternative<Abstention>(it->second)) newest = it->first.second;
  }
  return newest;
}

bool FragmentRounds::NeedsWorker(const std::string& worker, const Membership& members) const {
  if (!Collects(next_round_)) return false;
  const RoundFacts facts = Facts(0, members);
  std::set<std::string> others(facts.present.begin(), facts.present.end());
  others.insert(facts.abstained.begin(), facts.abstained.end());
  others.insert(facts.awaited.begin(), facts.awaited.end());
  others.erase(worker);
  return static_cast<int>(others.size()) < facts.quorum;
}

bool FragmentRounds::TakesPart(const std::string& worker, const Member& member) const {
  if (rounds_.empty()) return false;
  if (const Entry* held = FindAnswer(worker, next_round_)) return std::holds_alternative<Contribution>(*held);
  return member.state == MemberState::kAlive && IsDue(worker, member, next_round_) && !member.IsDoneBefore(next_round_);
}

std::optional<MonotonicTime> FragmentRounds::WaitEnd() const {
  if (rounds_.empty()) return std::nullopt;
  const Collecting* collecting = std::get_if<Collecting>(&rounds_.front().phase);
  if (collecting == nullptr || !collecting->quorum_since) return std::nullopt;
  const MonotonicTime grace_end = *collecting->quorum_since + Grace(next_round_).length;
  return options_->timeout ? std::min(grace_end, rounds_.front().opened + *options_->timeout) : grace_end;
}

GraceWindow FragmentRounds::Grace(int64_t round) const {
  if (options_->adaptive_grace) return arrivals_.Window(*options_->adaptive_grace, round);
  return {.length = options_->grace_window, .basis = ""};
}

const FragmentRounds::Closed* FragmentRounds::FixedSet() const {
  if (rounds_.empty()) return nullptr;
  if (const auto* merging = std::get_if<Merging>(&rounds_.front().phase)) return merging;
  return std::get_if<Committing>(&rounds_.front().phase);
}

int FragmentRounds::Quorum(const Membership& members, int64_t round) const {
  if (options_->quorum < options_->workers) return options_->quorum;
  const auto left = std::count_if(members.all().begin(), members.all().end(), [&](const auto& entry) {
    return FindAnswer(entry.first, round) != nullptr || !entry.second.IsDoneBefore(round);
  });
  return std::clamp(static_cast<int>(left), 1, options_->quorum);
}

const FragmentRounds::Entry* FragmentRounds::Find(const std::string& worker, int64_t round) const {
  const auto it = held_.find({worker, round});
  return it == held_.end() ? nullptr : &it->second;
}

const FragmentRounds::Entry* FragmentRounds::FindAnswer(const std::string& worker, int64_t round) const {
  const Entry* entry = Find(worker, round);
  return entry == nullptr || std::holds_alternative<Expelled>(*entry) ? nullptr : entry;
}

bool FragmentRounds::IsDue(const std::string& worker, const Member& member, int64_t round) const {
  const Entry* held = Find(worker, round);
  const bool dropped = held != nullptr && std::holds_alternative<Expelled>(*held);
  return member.first_round <= round && !dropped;
}

RoundFacts FragmentRounds::Facts(size_t index, const Membership& members) const {
  const int64_t round = next_round_ + static_cast<int64_t>(index);
  RoundFacts facts;
  facts.quorum = Quorum(members, round);
  facts.grace_window = Grace(round);
  facts.opened = rounds_[index].opened;
  facts.timeout = options_->timeout;
  facts.live = members.CountAlive();
  if (const auto* collecting = std::get_if<Collecting>(&rounds_[index].phase)) {
    facts.quorum_since = collecting->quorum_since;
  }
  for (const auto& [worker, member] : members.all()) {
    if (const Entry* held = FindAnswer(worker, round)) {
      (std::holds_alternative<Contribution>(*held) ? facts.present : facts.abstained).push_back(worker);
    } else if (member.IsDoneBefore(round)) {
      facts.done.push_back(worker);
    } else if (member.state == MemberState::kAlive) {
      (IsDue(worker, member, round) ? facts.awaited : facts.later).push_back(worker);
    } else if (member.state == MemberState::kLost && IsDue(worker, member, round)) {
      facts.lost.push_back(worker);
    }
  }
  return facts;
}

std::vector<RoundView> FragmentRounds::Views(const Membership& members, bool held, MonotonicTime now) const {
  std::vector<RoundView> views;
  for (size_t i = 0; i < rounds_.size(); ++i) {
    RoundFacts facts = Facts(i, members);
    RoundView view;
    view.fragment = fragment_;
    view.round = next_round_ + static_cast<int64_t>(i);
    view.opened = rounds_[i].opened;
    view.quorum = facts.quorum;
    view.grace_window = facts.grace_window.length;
    const Closed* closed = i == 0 ? FixedSet() : nullptr;
    if (closed != nullptr) {
      view.phase = std::holds_alternative<Merging>(rounds_[i].phase) ? RoundPhase::kMerging : RoundPhase::kCommitting;
    }
    if (closed != nullptr) {
      view.quorum = closed->quorum;
      view.reason = closed->reason;
      view.settled = closed->settled;
    } else {
      Decision decision = Decide(facts, now);
      const std::string first = i == 0 && held ? "once the run goes on" : absl::StrCat("after round ", next_round_);
      view.reason = decision.close ? absl::StrCat(decision.reason, "; ", first) : std::move(decision.reason);
    }
    view.present = std::move(facts.present);
    view.awaited = std::move(facts.awaited);
    view.abstained = std::move(facts.abstained);
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace diloco
