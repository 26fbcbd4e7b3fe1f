// What is shown of committed rounds: in full while their global deltas are retained, as a summary for
// kMaxRoundSummaries. Open rounds are the machine's. Not thread-safe: the driver's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "common/base/clock.h"
#include "coordinator/round/round_machine.h"
#include "coordinator/store/store.h"
#include "diloco/v1/admin.pb.h"

namespace diloco {

// Newest committed rounds whose summary is kept; also the most that one listing returns.
inline constexpr size_t kMaxRoundSummaries = 1000;
// Rounds in a listing that asks for no number.
inline constexpr size_t kDefaultListedRounds = 20;

class RoundLog {
 public:
  RoundLog(int fragments, int quorum) : fragments_(fragments), quorum_(quorum) {}

  // A fragment's round has committed: `view` is what the machine last said of it, `norm` of its average.
  void Add(const PublishedDelta& delta, const RoundView& view, double norm, MonotonicTime now);
  // As read from the store, without what only the running process knew.
  void AddRecovered(const PublishedDelta& delta);
  // Rounds before this one keep their summary alone.
  void DropDetailsBefore(int64_t round);

  // `open`: the machine's rounds of all fragments. Newest first.
  std::vector<v1::RoundSummary> List(const std::vector<RoundView>& open, MonotonicTime now, size_t limit) const;
  // Of a round that every fragment has committed; its summary is retained.
  v1::RoundSummary SummaryOf(int64_t round, MonotonicTime now) const;
  // nullopt: neither open nor retained.
  std::optional<v1::DescribeRoundResponse> Describe(const std::vector<RoundView>& open, int64_t round,
                                                    MonotonicTime now) const;

 private:
  struct Record {
    std::map<int, v1::FragmentRound> details;      // By fragment; emptied by DropDetailsBefore.
    std::optional<std::set<std::string>> present;  // In every fragment so far; nullopt: no fragment yet.
    std::optional<MonotonicTime> opened;
    MonotonicTime committed;
    std::string reason;         // Of the fragment that committed last.
    std::optional<int> quorum;  // Likewise; nullopt: not known any more.
    uint32_t fragments = 0;
    uint32_t merged = 0;
    uint32_t merged_late = 0;
    uint32_t dropped = 0;
  };

  Record* Take(const PublishedDelta& delta, const v1::FragmentRound& detail);
  v1::RoundSummary Summarise(int64_t round, const Record* record, const std::vector<const RoundView*>& open,
                             MonotonicTime now) const;

  const int fragments_;
  const int quorum_;
  std::map<int64_t, Record> records_;
  int64_t details_from_ = 0;
};

}  // namespace diloco
