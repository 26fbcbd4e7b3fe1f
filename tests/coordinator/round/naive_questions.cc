// The naive model's questions, each answered by scanning the lists.
#include <algorithm>

#include "tests/coordinator/round/naive_model.h"

namespace diloco {

Verdict NaiveModel::Ask(const ContributionId& id, uint64_t incarnation) const {
  const Admission* admission = Newest(id.worker);
  if (admission == nullptr || admission->incarnation != incarnation || admission->gone()) return Verdict::kRefused;
  if (id.fragment < 0 || id.fragment >= options_.fragments) return Verdict::kRefused;
  if (id.round < 0 || (id.round >= options_.rounds && !options_.stopped)) return Verdict::kRefused;
  if (end_requested_ || id.round >= options_.rounds) return Verdict::kSettled;
  if (!training_) return Verdict::kTooEarly;
  if (const Answered* held = Answer(id)) {
    if (held->kind == Kind::kContribution) return Verdict::kStored;
    if (held->kind == Kind::kRefusal) return Verdict::kRefused;
  }
  if (id.round <= SettledRound(id.worker, id.fragment)) return Verdict::kSettled;
  if (id.round < admission->first_round) return Verdict::kSettled;
  if (id.round >= NextRound(id.fragment) + options_.open_rounds) return Verdict::kTooEarly;
  return Verdict::kWanted;
}

bool NaiveModel::IsMember(const std::string& worker, uint64_t incarnation) const {
  const Admission* admission = Newest(worker);
  return admission != nullptr && admission->incarnation == incarnation && Alive(*admission);
}

std::string NaiveModel::Seeder() const {
  if (seeded_) return "";
  for (const Admission* admission : NewestOfEach()) {
    if (StayingWorkers().contains(admission->worker)) return admission->worker;
  }
  return "";
}

std::string NaiveModel::Evaluator() const {
  const std::set<std::string> staying = StayingWorkers();
  return staying.empty() ? "" : *staying.begin();
}

bool NaiveModel::Draining(const std::string& worker) const {
  const Admission* admission = Newest(worker);
  return admission != nullptr && admission->draining;
}

bool NaiveModel::Participating(const std::string& worker) const {
  const Admission* admission = Newest(worker);
  const int64_t oldest = OldestOpenRound();
  if (admission == nullptr || !training_ || oldest == options_.rounds) return false;
  for (int fragment = 0; fragment < options_.fragments; ++fragment) {
    if (NextRound(fragment) != oldest) continue;
    const Answered* answered = Answer({worker, fragment, oldest});
    if (answered != nullptr && answered->kind == Kind::kContribution) return true;
    const bool comes = Alive(*admission) && admission->first_round <= oldest && !IsThrough(*admission, oldest);
    if (answered == nullptr && comes) return true;
  }
  return false;
}

int64_t NaiveModel::NextRound(int fragment) const {
  return std::count_if(committed_.begin(), committed_.end(),
                       [fragment](const Set& set) { return set.fragment == fragment; });
}

int64_t NaiveModel::SettledRound(const std::string& worker, int fragment) const {
  int64_t newest = -1;
  for (const Set& set : committed_) {
    for (const Settled& line : set.settled) {
      if (line.id.worker == worker && line.id.fragment == fragment) newest = std::max(newest, line.id.round);
    }
  }
  return newest;
}

int64_t NaiveModel::EarliestEnd() const {
  int64_t end = std::min(OldestOpenRound() + 1, options_.rounds);
  for (int fragment = 0; fragment < options_.fragments; ++fragment) {
    const int64_t closed = NextRound(fragment) + (BeingMerged(fragment) != nullptr ? 1 : 0);
    end = std::max(end, closed);
  }
  return end;
}

std::optional<MonotonicTime> NaiveModel::NextDeadline() const {
  std::optional<MonotonicTime> next;
  const auto consider = [&](MonotonicTime time) { next = next ? std::min(*next, time) : time; };
  for (const Admission* admission : NewestOfEach()) {
    if (Alive(*admission)) consider(LastHeard(*admission) + options_.lease);
  }
  for (int fragment = 0; fragment < options_.fragments && Training() && !held_; ++fragment) {
    if (BeingMerged(fragment) != nullptr || NextRound(fragment) == options_.rounds) continue;
    if (const std::optional<MonotonicTime> end = WaitEnd(fragment)) consider(*end);
  }
  return next;
}

const NaiveModel::Admission* NaiveModel::Newest(const std::string& worker) const {
  const Admission* newest = nullptr;
  for (const Admission& admission : admissions_) {
    if (admission.worker == worker) newest = &admission;
  }
  return newest;
}

std::vector<const NaiveModel::Admission*> NaiveModel::NewestOfEach() const {
  std::vector<const Admission*> out;
  for (const Admission& admission : admissions_) {
    if (Newest(admission.worker) == &admission) out.push_back(&admission);
  }
  return out;
}

MonotonicTime NaiveModel::LastHeard(const Admission& admission) const {
  MonotonicTime last;
  for (const Sighting& sighting : sightings_) {
    if (sighting.worker == admission.worker && sighting.incarnation == admission.incarnation) last = sighting.time;
  }
  return last;
}

bool NaiveModel::Alive(const Admission& admission) const {
  return !admission.gone() && now_ < LastHeard(admission) + options_.lease;
}

std::set<std::string> NaiveModel::AliveWorkers() const {
  std::set<std::string> alive;
  for (const Admission* admission : NewestOfEach()) {
    if (Alive(*admission)) alive.insert(admission->worker);
  }
  return alive;
}

std::set<std::string> NaiveModel::StayingWorkers() const {
  std::set<std::string> staying;
  for (const Admission* admission : NewestOfEach()) {
    if (Alive(*admission) && !admission->draining) staying.insert(admission->worker);
  }
  return staying;
}

bool NaiveModel::IsThrough(const Admission& admission, int64_t round) const {
  if (admission.gone()) return true;
  if (!admission.draining) return false;
  return !Alive(admission) || (admission.last_round && round > *admission.last_round);
}

const NaiveModel::Answered* NaiveModel::Answer(const ContributionId& id) const {
  const Answered* answered = Unsettled(id);
  return answered == nullptr || answered->expelled ? nullptr : answered;
}

const NaiveModel::Answered* NaiveModel::Unsettled(const ContributionId& id) const {
  for (const Set& set : committed_) {
    for (const Settled& line : set.settled) {
      if (line.id == id) return nullptr;
    }
  }
  for (const Answered& answered : answered_) {
    if (answered.id == id) return &answered;
  }
  return nullptr;
}

const NaiveModel::Set* NaiveModel::BeingMerged(int fragment) const {
  for (const Set& set : merging_) {
    if (set.fragment == fragment) return &set;
  }
  return nullptr;
}

double NaiveModel::NewestWeight(const std::string& worker) const {
  const Answered* newest = nullptr;
  for (const Answered& answered : answered_) {
    if (answered.id.worker != worker || answered.kind != Kind::kContribution) continue;
    if (newest == nullptr || answered.id.round >= newest->id.round) newest = &answered;
  }
  return newest == nullptr ? 1 : newest->weight;
}

int64_t NaiveModel::OldestOpenRound() const {
  int64_t oldest = options_.rounds;
  for (int fragment = 0; fragment < options_.fragments; ++fragment) oldest = std::min(oldest, NextRound(fragment));
  return oldest;
}

}  // namespace diloco
