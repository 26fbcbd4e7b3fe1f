#include "coordinator/round/decide.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace diloco {
namespace {

// A reason stays one line, however many workers there are.
constexpr size_t kMaxNamesInReason = 3;

std::string Names(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMaxNamesInReason); ++i) {
    absl::StrAppend(&out, i == 0 ? "" : ", ", "\"", names[i], "\"");
  }
  if (names.size() > kMaxNamesInReason) {
    absl::StrAppend(&out, " and ", names.size() - kMaxNamesInReason, " more");
  }
  return out;
}

// What else there is to say about members: who has nothing, who is lost, who is through, who comes later.
std::string Asides(const RoundFacts& facts) {
  std::string out;
  if (!facts.abstained.empty()) absl::StrAppend(&out, "; nothing from ", Names(facts.abstained));
  if (!facts.lost.empty()) absl::StrAppend(&out, "; lost ", Names(facts.lost));
  if (!facts.done.empty()) absl::StrAppend(&out, "; nothing more from ", Names(facts.done));
  if (!facts.later.empty()) absl::StrAppend(&out, "; not before a later round ", Names(facts.later));
  return out;
}

std::string LiveWorkers(int live) { return absl::StrCat(live, live == 1 ? " live worker" : " live workers"); }

// The rule that ends the wait, and when: the grace window or, where that is earlier, the timeout.
struct WaitEnd {
  MonotonicTime time;
  std::string rule;
};

WaitEnd EndOfWait(const RoundFacts& facts, MonotonicTime now) {
  const MonotonicTime grace_end = facts.quorum_since.value_or(now) + facts.grace_window.length;
  if (facts.timeout && facts.opened + *facts.timeout < grace_end) {
    return {facts.opened + *facts.timeout, absl::StrCat("timeout of ", SecondsText(*facts.timeout))};
  }
  const std::string& basis = facts.grace_window.basis;
  return {grace_end, absl::StrCat("grace window of ", SecondsText(facts.grace_window.length),
                                  basis.empty() ? "" : absl::StrCat(" (", basis, ")"))};
}

}  // namespace

std::string SecondsText(absl::Duration duration) {
  const double tenths = static_cast<double>(absl::ToInt64Milliseconds(absl::Ceil(duration, absl::Milliseconds(100))));
  return absl::StrFormat("%.1fs", tenths / 1000);
}

int QuorumNeeded(const RoundFacts& facts) {
  const int coming = static_cast<int>(facts.present.size() + facts.awaited.size());
  int needed = facts.quorum - static_cast<int>(facts.abstained.size());
  const int shortage = std::max(0, needed - coming);
  needed -= std::min(shortage, static_cast<int>(facts.later.size()));
  return std::max(needed, facts.awaited.empty() ? 0 : 1);
}

Decision Decide(const RoundFacts& facts, MonotonicTime now) {
  const int needed = QuorumNeeded(facts);
  const int present = static_cast<int>(facts.present.size());
  if (present < needed) {
    const std::string awaited = facts.awaited.empty() ? "" : absl::StrCat("; waiting for ", Names(facts.awaited));
    return {
        .close = false,
        .reason = absl::StrCat("need ", needed - present, " more of ", LiveWorkers(facts.live), awaited, Asides(facts)),
        .next_check = std::nullopt};
  }
  if (facts.awaited.empty()) {
    const std::string all = present == 0 ? "nobody has anything to merge" : absl::StrCat("all ", present, " present");
    return {.close = true, .reason = absl::StrCat(all, Asides(facts)), .next_check = std::nullopt};
  }
  const std::string quorum = absl::StrCat("quorum ", present, "/", needed);
  const WaitEnd end = EndOfWait(facts, now);
  if (now >= end.time) {
    return {.close = true,
            .reason = absl::StrCat(quorum, ", ", end.rule, " over without ", Names(facts.awaited), Asides(facts)),
            .next_check = std::nullopt};
  }
  return {.close = false,
          .reason = absl::StrCat(quorum, " reached, waiting ", SecondsText(end.time - now), " more for ",
                                 Names(facts.awaited), ": ", end.rule, Asides(facts)),
          .next_check = end.time};
}

}  // namespace diloco
