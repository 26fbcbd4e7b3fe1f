#include "coordinator/round/membership.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/base/check.h"

namespace diloco {
namespace {

// Alive, and there for the rounds to come.
bool Stays(const Member& member) { return member.state == MemberState::kAlive && !member.draining; }

RefuseWorker Refuse(const WorkerJoined& event, RefuseWorker::Reason reason, std::string message) {
  return {.worker = event.worker, .incarnation = event.incarnation, .reason = reason, .message = std::move(message)};
}

}  // namespace

std::string EvictionText(const std::string& worker) {
  return absl::StrCat("worker \"", worker, "\" was evicted by an operator; `dilococtl worker admit ", worker,
                      "` lets it join again");
}

Membership::Membership(const RoundOptions* options) : options_(options) {}

void Membership::Restore(const RecoveredRounds::Member& recovered, MonotonicTime now) {
  Admit(recovered.worker, recovered.incarnation, recovered.first_round, now);
  Member& member = members_.at(recovered.worker);
  if (recovered.left) member.state = MemberState::kLeft;
  if (recovered.evicted) member.state = MemberState::kEvicted;
  member.draining = recovered.draining && member.Belongs();
  member.resumes = recovered.resumes;
  member.settled_rounds = recovered.settled_rounds;
}

void Membership::Heard(const std::string& worker, uint64_t incarnation, MonotonicTime now) {
  const auto it = members_.find(worker);
  if (it == members_.end()) return;
  Member& member = it->second;
  if (member.incarnation != incarnation || !member.Belongs()) return;
  changed_ |= member.state != MemberState::kAlive;
  member.state = MemberState::kAlive;
  member.last_heard = now;
}

void Membership::RenewLeases(MonotonicTime now) {
  for (auto& [worker, member] : members_) {
    if (member.state == MemberState::kAlive) member.last_heard = now;
  }
}

RoundEffect Membership::Join(const WorkerJoined& event, int64_t first_round, bool ended, MonotonicTime now) {
  const auto it = members_.find(event.worker);
  const bool known = it != members_.end();
  if (known && it->second.state == MemberState::kEvicted) {
    return Refuse(event, RefuseWorker::Reason::kEvicted, EvictionText(event.worker));
  }
  const bool same = known && it->second.incarnation == event.incarnation;
  if (same && (ended || it->second.state != MemberState::kLeft)) {
    // After the end even one that left may come back, to hear how it ended.
    it->second.state = MemberState::kAlive;
    it->second.last_heard = now;
    // Its first join may be repeated, because the answer was lost: what it was told holds.
    return AdmitWorker{event.worker, event.incarnation, it->second.first_round, /*returning=*/true,
                       /*resumes=*/it->second.resumes && !event.resumes.empty()};
  }
  if (same) {
    // It was evicted and let in again while it did not hear of it. What it has trained for is gone with its place.
    return Refuse(event, RefuseWorker::Reason::kEvicted,
                  absl::StrCat("worker \"", event.worker, "\" has left the run, or was evicted; start it again"));
  }
  if (ended) {
    return Refuse(event, RefuseWorker::Reason::kRunEnded,
                  absl::StrCat("the run has ended: all ", options_->rounds, " rounds are committed"));
  }
  if (known && it->second.state == MemberState::kAlive && event.id_in_session) {
    return Refuse(event, RefuseWorker::Reason::kIdInUse,
                  absl::StrCat("worker id \"", event.worker, "\" is in use; stop the other process and wait ",
                               absl::FormatDuration(options_->lease), ", or choose another id"));
  }
  if (!known && members_.size() >= static_cast<size_t>(options_->max_members)) {
    return Refuse(event, RefuseWorker::Reason::kTooManyMembers,
                  absl::StrCat("the run has had ", options_->max_members,
                               " members, which is its limit; join again under one of their ids"));
  }
  Admit(event.worker, event.incarnation, first_round, now);
  return AdmitWorker{event.worker, event.incarnation, first_round, /*returning=*/false};
}

void Membership::TakeFrom(const std::string& worker, int64_t oldest_round, bool resumes) {
  Member& member = members_.at(worker);
  member.oldest_round = std::min(member.oldest_round, oldest_round);
  member.resumes = resumes;
}

void Membership::Leave(const WorkerLeft& event, std::vector<RoundEffect>* effects) {
  if (Current(event.worker, event.incarnation) == nullptr) return;
  End(event.worker, MemberState::kLeft);
  effects->emplace_back(RecordDeparture{event.worker, event.incarnation});
}

void Membership::Stop(const WorkerStopped& event) {
  if (Current(event.worker, event.incarnation) == nullptr) return;
  Member& member = members_.at(event.worker);
  if (!member.draining || member.last_round == event.last_round) return;
  member.last_round = event.last_round;
  changed_ = true;
}

bool Membership::Drain(const std::string& worker) {
  const auto it = members_.find(worker);
  if (it == members_.end() || !it->second.Belongs() || it->second.draining) return false;
  it->second.draining = true;
  changed_ = true;
  return true;
}

bool Membership::Evict(const std::string& worker) {
  const auto it = members_.find(worker);
  if (it == members_.end() || it->second.state == MemberState::kEvicted) return false;
  End(worker, MemberState::kEvicted);
  return true;
}

bool Membership::Readmit(const std::string& worker) {
  const auto it = members_.find(worker);
  if (it == members_.end() || it->second.state != MemberState::kEvicted) return false;
  it->second.state = MemberState::kLeft;
  return true;
}

void Membership::End(const std::string& worker, MemberState state) {
  Member& member = members_.at(worker);
  member.state = state;
  member.draining = false;
  member.last_round.reset();
  changed_ = true;
}

void Membership::ExpireLeases(MonotonicTime now, std::vector<RoundEffect>* effects) {
  for (auto& [worker, member] : members_) {
    if (member.state != MemberState::kAlive || now < member.last_heard + options_->lease) continue;
    member.state = MemberState::kLost;
    changed_ = true;
    effects->emplace_back(WorkerLost{worker});
  }
}

const Member* Membership::Find(const std::string& worker) const {
  const auto it = members_.find(worker);
  return it == members_.end() ? nullptr : &it->second;
}

const Member* Membership::Current(const std::string& worker, uint64_t incarnation) const {
  const Member* member = Find(worker);
  const bool current = member != nullptr && member->incarnation == incarnation && member->Belongs();
  return current ? member : nullptr;
}

int Membership::CountAlive() const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(),
                                        [](const auto& entry) { return entry.second.state == MemberState::kAlive; }));
}

int Membership::CountStaying() const {
  return static_cast<int>(
      std::count_if(members_.begin(), members_.end(), [](const auto& entry) { return Stays(entry.second); }));
}

std::string Membership::FirstJoined() const {
  const std::pair<const std::string, Member>* first = nullptr;
  for (const auto& entry : members_) {
    if (!Stays(entry.second)) continue;
    if (first == nullptr || entry.second.join_order < first->second.join_order) first = &entry;
  }
  return first == nullptr ? "" : first->first;
}

std::string Membership::FirstById() const {
  for (const auto& [worker, member] : members_) {
    if (Stays(member)) return worker;
  }
  return "";
}

std::optional<MonotonicTime> Membership::NextLeaseEnd() const {
  std::optional<MonotonicTime> next;
  for (const auto& [worker, member] : members_) {
    if (member.state != MemberState::kAlive) continue;
    const MonotonicTime end = member.last_heard + options_->lease;
    if (!next || end < *next) next = end;
  }
  return next;
}

void Membership::NoteWeight(const std::string& worker, int64_t round, double weight) {
  Member& member = members_.at(worker);
  if (round < member.weight_round) return;
  member.weight = weight;
  member.weight_round = round;
}

void Membership::NoteSettled(const ContributionId& id) {
  int64_t& settled = members_.at(id.worker).settled_rounds.at(static_cast<size_t>(id.fragment));
  settled = std::max(settled, id.round);
}

bool Membership::TakeChanged() { return std::exchange(changed_, false); }

void Membership::Admit(const std::string& worker, uint64_t incarnation, int64_t first_round, MonotonicTime now) {
  // What a predecessor had settled stays settled, its weight is the best guess at the successor's, and a drain that it
  // did not live to carry out is the successor's to carry out.
  Member& member = members_[worker];
  member.incarnation = incarnation;
  member.state = MemberState::kAlive;
  member.join_order = admissions_++;
  member.first_round = first_round;
  member.oldest_round = first_round;
  member.resumes = false;
  member.last_round.reset();
  member.last_heard = now;
  member.settled_rounds.resize(static_cast<size_t>(options_->fragments), -1);
  changed_ = true;
}

}  // namespace diloco
