#include "tests/coordinator/round/auditor.h"

#include <algorithm>
#include <tuple>
#include <variant>

#include "absl/strings/str_cat.h"

#include "tests/coordinator/round/describe.h"

namespace diloco {

void Auditor::Observe(const RoundEvent& event, const std::vector<RoundEffect>& effects) {
  for (const RoundEffect& effect : effects) {
    const size_t before = complaints_.size();
    Check(event, effect);
    if (complaints_.size() > before) complaints_.back() += absl::StrCat(": ", Describe(effect));
  }
  Require(to_release_.empty(), "settled, and not released in the same step");
}

void Auditor::Check(const RoundEvent& event, const RoundEffect& effect) {
  if (const auto* answer = std::get_if<AnswerContribution>(&effect)) {
    const auto* contribution = std::get_if<ContributionStored>(&event);
    if (contribution == nullptr || answer->verdict != Verdict::kStored) return;
    Require(!settled_.contains(answer->id), "stored after it was settled");
    const auto [it, fresh] = stored_.insert({answer->id, {contribution->digest, contribution->weight}});
    Require(fresh || it->second.digest == contribution->digest, "two digests were stored for one id");
  } else if (const auto* merge = std::get_if<StartMerge>(&effect)) {
    CheckMerge(*merge);
  } else if (const auto* persist = std::get_if<PersistCommit>(&effect)) {
    const std::pair key(persist->fragment, persist->round);
    Require(merging_.contains(key), "persisted without a merge");
    std::vector<Settled> merged = persist->settled;
    std::erase_if(merged, [](const Settled& line) { return line.settlement != Settlement::kMerged; });
    Require(merged == merging_[key].merged, "persisted something else than was merged");
    Require(persisting_.insert({key, *persist}).second, "persisted twice");
  } else if (const auto* publish = std::get_if<PublishGlobalDelta>(&effect)) {
    const auto* durable = std::get_if<CommitPersisted>(&event);
    Require(durable != nullptr && durable->fragment == publish->fragment && durable->round == publish->round,
            "published before it was durable");
    Require(publish->round == published_rounds_[static_cast<size_t>(publish->fragment)]++, "published out of order");
    Settle(persisting_[{publish->fragment, publish->round}].settled);
  } else if (const auto* eviction = std::get_if<RecordEviction>(&effect)) {
    CheckEviction(*eviction);
  } else if (const auto* readmission = std::get_if<RecordReadmission>(&effect)) {
    Require(evicted_.erase(readmission->worker) == 1, "readmitted, and was not evicted");
  } else if (const auto* admit = std::get_if<AdmitWorker>(&effect)) {
    Require(!evicted_.contains(admit->worker), "admitted while it is evicted");
  } else if (const auto* release = std::get_if<ReleaseContribution>(&effect)) {
    Require(to_release_.erase(release->id) == 1, "released, and not just settled");
  } else if (const auto* end = std::get_if<PersistEnd>(&effect)) {
    ending_ = end->settled;
  } else if (std::holds_alternative<PublishEnd>(effect)) {
    Require(std::holds_alternative<EndPersisted>(event), "published before it was durable");
    Settle(ending_);
    to_release_.clear();  // The end record settles without asking for a release.
    CheckNothingIsLeft();
  }
}

void Auditor::CheckEviction(const RecordEviction& eviction) {
  Require(evicted_.insert(eviction.worker).second, "evicted twice");
  std::set<ContributionId> fixed;
  for (const auto& [key, merge] : merging_) {
    if (key.second < published_rounds_[static_cast<size_t>(key.first)]) continue;
    for (const Settled& line : merge.merged) fixed.insert(line.id);
  }
  int dropped = 0;
  for (const auto& [id, stored] : stored_) {
    if (id.worker != eviction.worker || fixed.contains(id)) continue;
    dropped += expelled_.insert(id).second ? 1 : 0;
  }
  // What a fixed set drops as late is not merged either, and the eviction does not count it.
  Require(eviction.dropped <= dropped, "the eviction drops what was not there to drop");
}

void Auditor::CheckMerge(const StartMerge& merge) {
  const auto by_worker_and_round = [](const Settled& a, const Settled& b) {
    return std::tie(a.id.worker, a.id.round) < std::tie(b.id.worker, b.id.round);
  };
  Require(std::is_sorted(merge.merged.begin(), merge.merged.end(), by_worker_and_round), "merged out of order");
  for (const Settled& line : merge.merged) {
    const auto it = stored_.find(line.id);
    Require(it != stored_.end(), "merged, and was never stored or is settled");
    if (it == stored_.end()) continue;
    Require(line.digest == it->second.digest && line.weight == it->second.weight, "merged as something else");
  }
  merging_[{merge.fragment, merge.round}] = merge;
}

void Auditor::Settle(const std::vector<Settled>& lines) {
  for (const Settled& line : lines) {
    Require(settled_.insert({line.id, line}).second, "settled twice");
    Require((line.settlement == Settlement::kMerged) == (line.weight > 0), "weight and settlement disagree");
    if (line.settlement != Settlement::kDroppedRefused) {
      Require(stored_.contains(line.id), "settled, and was never stored");
    }
    const bool expelled = expelled_.erase(line.id) == 1;
    Require(!expelled || line.settlement != Settlement::kMerged, "merged in spite of an eviction");
    Require(expelled || line.settlement != Settlement::kDroppedEvicted, "dropped for an eviction that was none");
    stored_.erase(line.id);
    to_release_.insert(line.id);
    merged_ += line.settlement == Settlement::kMerged ? 1 : 0;
  }
}

void Auditor::Restart() {
  merging_.clear();
  persisting_.clear();
  ending_.clear();
  stored_.clear();
  expelled_.clear();
}

void Auditor::CheckNothingIsLeft() {
  for (const auto& [id, stored] : stored_) {
    Require(false, absl::StrCat("never settled: ", id.worker, " fragment=", id.fragment, " round=", id.round));
  }
}

void Auditor::Require(bool condition, const std::string& complaint) {
  if (!condition) complaints_.push_back(complaint);
}

}  // namespace diloco
