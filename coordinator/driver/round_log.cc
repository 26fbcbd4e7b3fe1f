#include "coordinator/driver/round_log.h"

#include <algorithm>
#include <utility>

#include "coordinator/driver/wire.h"

namespace diloco {
namespace {

v1::FragmentRound Committed(const PublishedDelta& delta) {
  v1::FragmentRound detail;
  detail.set_fragment(static_cast<uint32_t>(delta.fragment));
  detail.set_state(v1::ROUND_STATE_COMMITTED);
  *detail.mutable_settled() = delta.settled.settled();
  detail.set_consensus_version(delta.commit.consensus_version());
  *detail.mutable_consensus_digest() = delta.commit.consensus_digest();
  *detail.mutable_payload_digest() = delta.commit.payload_digest();
  for (const v1::SettledContribution& line : delta.settled.settled()) {
    if (line.settlement() == v1::SETTLEMENT_MERGED && line.id().round() == delta.round) {
      detail.add_present(line.id().worker_id());
    }
  }
  return detail;
}

v1::FragmentRound Open(const RoundView& view) {
  v1::FragmentRound detail;
  detail.set_fragment(static_cast<uint32_t>(view.fragment));
  detail.set_state(RoundStateToProto(view.phase));
  detail.set_reason(view.reason);
  detail.mutable_present()->Assign(view.present.begin(), view.present.end());
  detail.mutable_awaited()->Assign(view.awaited.begin(), view.awaited.end());
  detail.mutable_abstained()->Assign(view.abstained.begin(), view.abstained.end());
  return detail;
}

template <typename Names>
void Intersect(const Names& names, std::optional<std::set<std::string>>* all) {
  const std::set<std::string> other(names.begin(), names.end());
  if (!all->has_value()) {
    *all = other;
    return;
  }
  std::erase_if(**all, [&other](const std::string& name) { return !other.contains(name); });
}

}  // namespace

RoundLog::Record* RoundLog::Take(const PublishedDelta& delta, const v1::FragmentRound& detail) {
  Record& record = records_[delta.round];
  Intersect(detail.present(), &record.present);
  ++record.fragments;
  for (const v1::SettledContribution& line : delta.settled.settled()) {
    if (line.settlement() != v1::SETTLEMENT_MERGED) {
      ++record.dropped;
      continue;
    }
    ++record.merged;
    if (line.id().round() < delta.round) {
      ++record.merged_late;
    }
  }
  if (delta.round >= details_from_) {
    record.details[delta.fragment] = detail;
  }
  while (records_.size() > kMaxRoundSummaries) {
    records_.erase(records_.begin());
  }
  return &record;
}

void RoundLog::Add(const PublishedDelta& delta, const RoundView& view, double norm, MonotonicTime now) {
  v1::FragmentRound detail = Committed(delta);
  detail.set_reason(view.reason);
  detail.mutable_abstained()->Assign(view.abstained.begin(), view.abstained.end());
  detail.set_average_norm(norm);
  Record* record = Take(delta, detail);
  record->opened = std::min(record->opened.value_or(view.opened), view.opened);
  record->committed = now;
  record->reason = view.reason;
  record->quorum = view.quorum;
}

void RoundLog::AddRecovered(const PublishedDelta& delta) {
  v1::FragmentRound detail = Committed(delta);
  detail.set_reason("committed before the coordinator was started again");
  Take(delta, detail)->reason = detail.reason();
}

void RoundLog::DropDetailsBefore(int64_t round) {
  details_from_ = std::max(details_from_, round);
  for (auto it = records_.begin(); it != records_.end() && it->first < details_from_; ++it) {
    it->second.details.clear();
  }
}

v1::RoundSummary RoundLog::Summarise(int64_t round, const Record* record, const std::vector<const RoundView*>& open,
                                     MonotonicTime now) const {
  v1::RoundSummary summary;
  summary.set_round(round);
  summary.set_state(v1::ROUND_STATE_COMMITTED);
  summary.set_quorum(static_cast<uint32_t>(quorum_));
  summary.set_fragments_total(static_cast<uint32_t>(fragments_));
  std::optional<std::set<std::string>> present;
  std::optional<MonotonicTime> opened;
  if (record != nullptr) {
    present = record->present;
    opened = record->opened;
    summary.set_reason(record->reason);
    summary.set_quorum(static_cast<uint32_t>(record->quorum.value_or(quorum_)));
    summary.set_fragments_committed(record->fragments);
    summary.set_merged(record->merged);
    summary.set_merged_late(record->merged_late);
    summary.set_dropped(record->dropped);
  }
  for (const RoundView* view : open) {
    Intersect(view->present, &present);
    opened = std::min(opened.value_or(view->opened), view->opened);
    if (const v1::RoundState state = RoundStateToProto(view->phase); state < summary.state()) {
      summary.set_state(state);
      summary.set_reason(view->reason);
      summary.set_quorum(static_cast<uint32_t>(view->quorum));
    }
  }
  summary.set_workers_present(present ? static_cast<uint32_t>(present->size()) : 0);
  if (opened) {
    *summary.mutable_elapsed() = DurationToProto((open.empty() ? record->committed : now) - *opened);
  }
  return summary;
}

std::vector<v1::RoundSummary> RoundLog::List(const std::vector<RoundView>& open, MonotonicTime now,
                                             size_t limit) const {
  std::map<int64_t, std::vector<const RoundView*>> by_round;
  for (const auto& [round, record] : records_) {
    by_round[round];
  }
  for (const RoundView& view : open) {
    by_round[view.round].push_back(&view);
  }
  std::vector<v1::RoundSummary> rounds;
  for (auto it = by_round.rbegin(); it != by_round.rend() && rounds.size() < limit; ++it) {
    const auto record = records_.find(it->first);
    rounds.push_back(Summarise(it->first, record == records_.end() ? nullptr : &record->second, it->second, now));
  }
  return rounds;
}

v1::RoundSummary RoundLog::SummaryOf(int64_t round, MonotonicTime now) const {
  return Summarise(round, &records_.at(round), {}, now);
}

std::optional<v1::DescribeRoundResponse> RoundLog::Describe(const std::vector<RoundView>& open, int64_t round,
                                                            MonotonicTime now) const {
  std::vector<const RoundView*> views;
  for (const RoundView& view : open) {
    if (view.round == round) {
      views.push_back(&view);
    }
  }
  const auto it = records_.find(round);
  const Record* record = it == records_.end() ? nullptr : &it->second;
  if (views.empty() && (record == nullptr || record->details.empty())) {
    return std::nullopt;
  }
  v1::DescribeRoundResponse response;
  *response.mutable_summary() = Summarise(round, record, views, now);
  std::map<int, v1::FragmentRound> fragments = record == nullptr ? std::map<int, v1::FragmentRound>{} : record->details;
  for (const RoundView* view : views) {
    fragments[view->fragment] = Open(*view);
  }
  for (auto& [fragment, detail] : fragments) {
    *response.add_fragments() = std::move(detail);
  }
  return response;
}

}  // namespace diloco
