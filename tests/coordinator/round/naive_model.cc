#include "tests/coordinator/round/naive_model.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <variant>

namespace diloco {
namespace {

bool InSettledOrder(const Settled& a, const Settled& b) {
  return std::tie(a.id.fragment, a.id.worker, a.id.round) < std::tie(b.id.fragment, b.id.worker, b.id.round);
}

}  // namespace

std::vector<RoundEffect> NaiveModel::Step(const RoundEvent& event, MonotonicTime now) {
  now_ = now;
  ++step_;
  if (std::holds_alternative<LeasesRenewed>(event)) {
    for (const Admission* admission : NewestOfEach()) {
      if (alive_before_.contains(admission->worker)) {
        sightings_.push_back({admission->worker, admission->incarnation, now});
      }
    }
  }
  // Whatever names a worker is a sighting of it.
  if (const auto* e = std::get_if<WorkerJoined>(&event)) sightings_.push_back({e->worker, e->incarnation, now});
  if (const auto* e = std::get_if<WorkerHeard>(&event)) sightings_.push_back({e->worker, e->incarnation, now});
  if (const auto* e = std::get_if<WorkerStopped>(&event)) sightings_.push_back({e->worker, e->incarnation, now});
  if (const auto* e = std::get_if<WorkerLeft>(&event)) sightings_.push_back({e->worker, e->incarnation, now});
  if (const auto* e = std::get_if<ContributionStored>(&event)) {
    sightings_.push_back({e->id.worker, e->incarnation, now});
  }
  if (const auto* e = std::get_if<ContributionRefused>(&event)) {
    sightings_.push_back({e->id.worker, e->incarnation, now});
  }
  if (const auto* e = std::get_if<WorkerAbstained>(&event)) sightings_.push_back({e->id.worker, e->incarnation, now});

  std::vector<RoundEffect> effects;
  const std::set<std::string> alive = AliveWorkers();
  for (const std::string& worker : alive_before_) {
    if (!alive.contains(worker)) effects.emplace_back(WorkerLost{worker});
  }
  for (RoundEffect& effect : Consequences(event)) effects.push_back(std::move(effect));
  if (seeded_ && !training_ && !held_ && static_cast<int>(StayingWorkers().size()) >= options_.workers)
    training_ = true;
  for (int fragment = 0; fragment < options_.fragments && Training(); ++fragment) {
    const int64_t next = NextRound(fragment);
    for (int64_t round = next; round < std::min(next + options_.open_rounds, options_.rounds); ++round) {
      if (!Opened(fragment, round)) openings_.push_back({fragment, round, now});
    }
  }
  if (Training()) CloseWhatCanClose(&effects);
  alive_before_ = AliveWorkers();
  return effects;
}

std::vector<RoundEffect> NaiveModel::Consequences(const RoundEvent& event) {
  std::vector<RoundEffect> effects;
  const auto note = [&](std::optional<RoundEffect> effect) {
    if (effect) effects.push_back(*std::move(effect));
  };
  if (const auto* joined = std::get_if<WorkerJoined>(&event)) {
    effects.push_back(Admit(*joined));
  } else if (const auto* left = std::get_if<WorkerLeft>(&event)) {
    for (Admission& admission : admissions_) {
      if (&admission != Newest(left->worker) || admission.incarnation != left->incarnation) continue;
      if (admission.gone()) continue;
      admission.left = true;
      admission.back = false;
      admission.draining = false;
      admission.last_round.reset();
      effects.emplace_back(RecordDeparture{left->worker, left->incarnation});
    }
  } else if (const auto* stopped = std::get_if<WorkerStopped>(&event)) {
    for (Admission& admission : admissions_) {
      if (&admission != Newest(stopped->worker) || admission.incarnation != stopped->incarnation) continue;
      if (!admission.gone() && admission.draining) admission.last_round = stopped->last_round;
    }
  } else if (const auto* drain = std::get_if<DrainAsked>(&event)) {
    for (Admission& admission : admissions_) {
      if (&admission != Newest(drain->worker) || admission.gone() || admission.draining) continue;
      admission.draining = true;
      effects.emplace_back(RecordDrain{drain->worker});
    }
  } else if (const auto* eviction = std::get_if<EvictionAsked>(&event)) {
    const Admission* known = Newest(eviction->worker);
    if (known != nullptr && !known->evicted) effects.emplace_back(Evict(eviction->worker));
  } else if (const auto* lifted = std::get_if<EvictionLifted>(&event)) {
    for (Admission& admission : admissions_) {
      if (&admission != Newest(lifted->worker) || !admission.evicted) continue;
      admission.evicted = false;
      admission.left = true;
      admission.back = false;
      effects.emplace_back(RecordReadmission{lifted->worker});
    }
  } else if (std::holds_alternative<RunSeeded>(event)) {
    seeded_ = true;
  } else if (const auto* stored = std::get_if<ContributionStored>(&event)) {
    note(Take({stored->id, Kind::kContribution, stored->digest, stored->weight}, stored->incarnation));
  } else if (const auto* refused = std::get_if<ContributionRefused>(&event)) {
    note(Take({refused->id, Kind::kRefusal, refused->digest, 0}, refused->incarnation));
  } else if (const auto* abstained = std::get_if<WorkerAbstained>(&event)) {
    note(Take({abstained->id, Kind::kAbstention, Digest(), 0}, abstained->incarnation));
  } else if (const auto* merged = std::get_if<MergeFinished>(&event)) {
    const Set& set = *BeingMerged(merged->fragment);
    effects.emplace_back(PersistCommit{set.fragment, set.round, set.settled, set.participating_weight});
  } else if (const auto* persisted = std::get_if<CommitPersisted>(&event)) {
    const Set set = *BeingMerged(persisted->fragment);
    std::erase_if(merging_, [&](const Set& other) { return other.fragment == set.fragment; });
    committed_.push_back(set);
    effects.emplace_back(PublishGlobalDelta{set.fragment, set.round});
    for (const Settled& line : set.settled) effects.emplace_back(ReleaseContribution{line.id});
  } else if (std::holds_alternative<EndPersisted>(event)) {
    end_published_ = true;
    effects.emplace_back(PublishEnd{});
  }
  return effects;
}

RecordEviction NaiveModel::Evict(const std::string& worker) {
  for (Admission& admission : admissions_) {
    if (&admission != Newest(worker)) continue;
    admission.evicted = true;
    admission.draining = false;
    admission.last_round.reset();
  }
  RecordEviction record{worker, 0};
  if (end_requested_) return record;  // What the end record settles is fixed.
  std::erase_if(answered_,
                [&](const Answered& other) { return other.id.worker == worker && other.kind == Kind::kAbstention; });
  for (Answered& answered : answered_) {
    if (answered.id.worker != worker || answered.kind != Kind::kContribution || answered.expelled) continue;
    if (Unsettled(answered.id) == nullptr) continue;
    bool is_fixed = false;
    for (const Set& set : merging_) {
      for (const Settled& line : set.settled) is_fixed = is_fixed || line.id == answered.id;
    }
    if (is_fixed) continue;
    answered.expelled = true;
    ++record.dropped;
  }
  return record;
}

RoundEffect NaiveModel::Admit(const WorkerJoined& event) {
  const Admission* known = Newest(event.worker);
  const auto refuse = [&](RefuseWorker::Reason reason) {
    return RefuseWorker{event.worker, event.incarnation, reason, ""};
  };
  if (known != nullptr && known->evicted) return refuse(RefuseWorker::Reason::kEvicted);
  if (known != nullptr && known->incarnation == event.incarnation && (!known->gone() || end_published_)) {
    for (Admission& admission : admissions_) {
      if (&admission == known) admission.back = true;
    }
    return AdmitWorker{event.worker, event.incarnation, known->first_round, true};
  }
  if (known != nullptr && known->incarnation == event.incarnation) return refuse(RefuseWorker::Reason::kEvicted);
  if (end_published_) return refuse(RefuseWorker::Reason::kRunEnded);
  if (known != nullptr && Alive(*known) && event.id_in_session) return refuse(RefuseWorker::Reason::kIdInUse);
  if (known == nullptr && static_cast<int>(NewestOfEach().size()) >= options_.max_members) {
    return refuse(RefuseWorker::Reason::kTooManyMembers);
  }
  const int64_t first_round = training_ ? FirstRound(event.worker) : 0;
  const bool draining = known != nullptr && known->draining;
  admissions_.push_back({event.worker, event.incarnation, first_round});
  admissions_.back().draining = draining;
  return AdmitWorker{event.worker, event.incarnation, first_round, false};
}

std::optional<RoundEffect> NaiveModel::Take(const Answered& answered, uint64_t incarnation) {
  const ContributionId& id = answered.id;
  if (!IsMember(id.worker, incarnation)) return std::nullopt;
  Verdict verdict = Ask(id, incarnation);
  const Answered* held = Unsettled(id);
  if (verdict == Verdict::kStored && answered.kind == Kind::kContribution && held->digest != answered.digest) {
    verdict = Verdict::kRefused;
  } else if (verdict == Verdict::kStored && answered.kind == Kind::kRefusal) {
    verdict = Verdict::kRefused;
  } else if (verdict == Verdict::kWanted) {
    const Set* merging = BeingMerged(id.fragment);
    const bool closed = id.round < NextRound(id.fragment) || (merging != nullptr && id.round <= merging->round);
    const bool noted = answered.kind != Kind::kAbstention || !closed;
    if (noted) {
      // Whatever was sent takes the place of an abstention.
      std::erase_if(answered_, [&](const Answered& other) { return other.id == id; });
      answered_.push_back(answered);
      answered_.back().time = now_;
      answered_.back().step = step_;
    }
    verdict = answered.kind == Kind::kRefusal ? Verdict::kRefused : noted ? Verdict::kStored : Verdict::kSettled;
  }
  return AnswerContribution{id, verdict, ""};
}

void NaiveModel::CloseWhatCanClose(std::vector<RoundEffect>* effects) {
  bool finished = true;
  for (int fragment = 0; fragment < options_.fragments; ++fragment) {
    const int64_t next = NextRound(fragment);
    const bool merging = BeingMerged(fragment) != nullptr;
    for (int64_t round = next + (merging ? 1 : 0); round < std::min(next + options_.open_rounds, options_.rounds);
         ++round) {
      quorum_notes_.push_back({fragment, round, now_, SidesOf(fragment, round).met, step_});
    }
    finished = finished && next == options_.rounds;
    if (held_ || merging || next == options_.rounds) continue;
    const Sides sides = SidesOf(fragment, next);
    if (!sides.met) continue;
    if (sides.awaited > 0 && now_ < *WaitEnd(fragment)) continue;
    merging_.push_back(FixSet(fragment));
    StartMerge start{fragment, next, {}};
    for (const Settled& line : merging_.back().settled) {
      if (line.settlement == Settlement::kMerged) start.merged.push_back(line);
    }
    effects->emplace_back(std::move(start));
  }
  if (!finished || held_) return;
  end_requested_ = true;
  PersistEnd end;
  for (const Answered& answered : answered_) {
    if (answered.kind == Kind::kAbstention || Unsettled(answered.id) == nullptr) continue;
    end.settled.push_back({answered.id, answered.digest,
                           answered.kind == Kind::kRefusal ? Settlement::kDroppedRefused
                           : answered.expelled             ? Settlement::kDroppedEvicted
                                                           : Settlement::kDroppedRunEnded,
                           0});
  }
  std::sort(end.settled.begin(), end.settled.end(), InSettledOrder);
  effects->emplace_back(std::move(end));
}

NaiveModel::Set NaiveModel::FixSet(int fragment) const {
  Set set{fragment, NextRound(fragment), {}, 0};
  for (const Answered& answered : answered_) {
    const ContributionId& id = answered.id;
    if (id.fragment != fragment || id.round > set.round || answered.kind == Kind::kAbstention) continue;
    if (Unsettled(id) == nullptr) continue;
    Settled line{id, answered.digest, Settlement::kMerged, answered.weight};
    if (answered.kind == Kind::kRefusal) {
      line.settlement = Settlement::kDroppedRefused;
    } else if (answered.expelled) {
      line.settlement = Settlement::kDroppedEvicted;
    } else if (id.round < set.round && options_.late == LatePolicy::kDrop) {
      line.settlement = Settlement::kDroppedLate;
    } else if (id.round < SettledRound(id.worker, fragment)) {
      line.settlement = Settlement::kDroppedOutOfOrder;
    }
    if (line.settlement != Settlement::kMerged) line.weight = 0;
    set.settled.push_back(line);
  }
  std::sort(set.settled.begin(), set.settled.end(), InSettledOrder);
  for (const Admission* admission : NewestOfEach()) {
    const bool takes_part =
        Alive(*admission) && admission->first_round <= set.round && !IsThrough(*admission, set.round);
    double weight = takes_part ? NewestWeight(admission->worker) : 0;
    for (const Settled& line : set.settled) {
      if (line.id.worker == admission->worker && line.settlement == Settlement::kMerged) weight = line.weight;
    }
    set.participating_weight += weight;
  }
  if (set.participating_weight == 0) set.participating_weight = 1;
  return set;
}

NaiveModel::Sides NaiveModel::SidesOf(int fragment, int64_t round) const {
  Sides sides;
  for (const Admission* admission : NewestOfEach()) {
    const Answered* answered = Answer({admission->worker, fragment, round});
    if (answered != nullptr) {
      ++(answered->kind == Kind::kContribution ? sides.present : sides.abstained);
    } else if (IsThrough(*admission, round)) {
      continue;
    } else if (Alive(*admission)) {
      ++(admission->first_round <= round ? sides.awaited : sides.later);
    }
  }
  int needed = Quorum(fragment, round);
  for (int i = 0; i < sides.abstained; ++i) --needed;
  for (int i = 0; i < sides.later; ++i) {
    if (sides.present + sides.awaited < needed) --needed;
  }
  sides.met = sides.present >= needed && (sides.present > 0 || sides.awaited == 0);
  return sides;
}

int NaiveModel::Quorum(int fragment, int64_t round) const {
  if (options_.quorum != options_.workers) return options_.quorum;
  int all = 0;
  for (const Admission* admission : NewestOfEach()) {
    const bool answered = Answer({admission->worker, fragment, round}) != nullptr;
    if (answered || !IsThrough(*admission, round)) ++all;
  }
  return std::max(1, std::min(all, options_.quorum));
}

std::optional<NaiveModel::Met> NaiveModel::MetSince(int fragment, int64_t round) const {
  std::optional<Met> since;
  for (const QuorumNote& note : quorum_notes_) {
    if (note.fragment != fragment || note.round != round) continue;
    if (!note.met) since.reset();
    if (note.met && !since) since = Met{note.time, note.step};
  }
  return since;
}

std::optional<MonotonicTime> NaiveModel::Opened(int fragment, int64_t round) const {
  for (const Opening& opening : openings_) {
    if (opening.fragment == fragment && opening.round == round) return opening.time;
  }
  return std::nullopt;
}

// No run of the tests has more rounds than are remembered.
absl::Duration NaiveModel::GraceWindow(int fragment) const {
  if (!options_.adaptive_grace) return options_.grace_window;
  const auto median = [](std::vector<absl::Duration> values) {
    std::sort(values.begin(), values.end());
    return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
  };
  std::vector<absl::Duration> waits;
  for (int64_t round = 0; round < NextRound(fragment); ++round) {
    const std::optional<Met> met = MetSince(fragment, round);
    std::optional<absl::Duration> wait;
    for (const Answered& answered : answered_) {
      const bool counts = answered.kind == Kind::kContribution && answered.id.fragment == fragment &&
                          answered.id.round == round && met && answered.step > met->step;
      if (counts) wait = answered.time - met->since;
    }
    if (wait) waits.push_back(*wait);
  }
  if (waits.size() < 5) return options_.adaptive_grace->cap;
  const absl::Duration middle = median(waits);
  std::vector<absl::Duration> off;
  for (const absl::Duration wait : waits) off.push_back(wait < middle ? middle - wait : wait - middle);
  const absl::Duration window = middle + median(off) * 1.4826 * 3.0;
  return std::min(std::max(window, options_.adaptive_grace->floor), options_.adaptive_grace->cap);
}

std::optional<MonotonicTime> NaiveModel::WaitEnd(int fragment) const {
  const int64_t next = NextRound(fragment);
  const std::optional<Met> met = MetSince(fragment, next);
  if (!met) return std::nullopt;
  const MonotonicTime grace_end = met->since + GraceWindow(fragment);
  if (!options_.timeout) return grace_end;
  return std::min(grace_end, *Opened(fragment, next) + *options_.timeout);
}

int64_t NaiveModel::FirstRound(const std::string& joiner) const {
  const int64_t oldest = OldestOpenRound();
  int64_t newest_own = -1;
  bool needed = false;
  for (const Answered& answered : answered_) {
    const bool own = answered.id.worker == joiner && answered.kind != Kind::kAbstention;
    if (own) newest_own = std::max(newest_own, answered.id.round);
  }
  for (int fragment = 0; fragment < options_.fragments; ++fragment) {
    newest_own = std::max(newest_own, SettledRound(joiner, fragment));
    if (NextRound(fragment) != oldest || oldest == options_.rounds || BeingMerged(fragment) != nullptr) continue;
    int others = 0;
    for (const Admission* admission : NewestOfEach()) {
      if (admission->worker == joiner) continue;
      const bool answered = Answer({admission->worker, fragment, oldest}) != nullptr;
      const bool comes = Alive(*admission) && admission->first_round <= oldest && !IsThrough(*admission, oldest);
      if (answered || comes) ++others;
    }
    needed = needed || others < Quorum(fragment, oldest);
  }
  if (needed && newest_own < oldest) return oldest;
  // The end is for the oldest open round; what it has contributed may lie beyond the end of a stopped run.
  const int64_t behind_the_oldest = std::min(oldest + 1, options_.rounds);
  return std::max(newest_own + 1, behind_the_oldest);
}

void NaiveModel::Restart(MonotonicTime now) {
  now_ = now;
  answered_.clear();
  merging_.clear();
  quorum_notes_.clear();
  openings_.clear();
  training_ = seeded_ && (!committed_.empty() || static_cast<int>(NewestOfEach().size()) >= options_.workers);
  end_requested_ = end_published_;
  for (Admission& admission : admissions_) {
    admission.back = false;
    admission.last_round.reset();
    if (admission.gone()) admission.draining = false;  // Asked for while it was back to hear the end.
  }
  for (const Admission* admission : NewestOfEach()) {
    sightings_.push_back({admission->worker, admission->incarnation, now});
  }
  alive_before_ = AliveWorkers();
}

}  // namespace diloco
