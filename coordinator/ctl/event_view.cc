#include "coordinator/ctl/event_view.h"

#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "coordinator/ctl/format.h"
#include "coordinator/ctl/table.h"

namespace diloco {
namespace {

constexpr std::string_view kKindPrefix = "EVENT_KIND_";

std::string Line(const std::string& number, const std::string& since, const std::string& kind,
                 const std::string& worker, const std::string& text) {
  return absl::StrFormat("%6s  %11s  %-16s  %-10s  %s\n", number, since, kind, worker.empty() ? "-" : worker, text);
}

std::string Row(const std::string& round, const std::string& workers, const std::string& quorum,
                const std::string& elapsed, const std::string& merged, const std::string& late,
                const std::string& dropped, const std::string& reason) {
  return absl::StrFormat("%6s  %7s  %6s  %7s  %6s  %4s  %7s  %s\n", round, workers, quorum, elapsed, merged, late,
                         dropped, reason);
}

std::string Number(uint64_t value) { return absl::StrFormat("%d", value); }

}  // namespace

std::string EventHeader() { return Line("EVENT", "SINCE START", "KIND", "WORKER", "TEXT"); }

std::string RoundHeader() {
  return Row("ROUND", "WORKERS", "QUORUM", "ELAPSED", "MERGED", "LATE", "DROPPED", "REASON");
}

std::string EventLine(const v1::WatchEventsResponse& response) {
  const v1::Event& event = response.event();
  std::string text = event.text();
  if (event.has_round()) text = absl::StrFormat("round %d: %s", event.round().round(), text);
  const std::string gap = response.missed() == 0 ? ""
                                                 : absl::StrFormat("%6s  %d events before the next are not kept\n",
                                                                   "...", response.missed());
  return gap + Line(Number(event.number()), HumanDuration(ToSeconds(event.at())), EventKindText(event.kind()),
                    Printable(event.worker_id()), Printable(text));
}

std::string RoundLine(const v1::RoundSummary& round) {
  return Row(absl::StrFormat("%d", round.round()), Number(round.workers_present()), Number(round.quorum()),
             HumanDuration(ToSeconds(round.elapsed())), Number(round.merged()), Number(round.merged_late()),
             Number(round.dropped()), Printable(round.reason()));
}

std::string ChangesText(const google::protobuf::RepeatedPtrField<v1::RunChange>& changes) {
  Table table({{"SETTING"}, {"VALUE"}, {"FROM ROUND", Align::kRight}});
  for (const v1::RunChange& change : changes) {
    for (const v1::Setting& setting : change.settings()) {
      table.AddRow({setting.key(), setting.value(), absl::StrFormat("%d", change.from_round())});
    }
  }
  return table.ToString();
}

std::string EventKindText(v1::EventKind kind) {
  std::string name = v1::EventKind_Name(kind);
  if (name.empty()) return absl::StrFormat("kind %d", static_cast<int>(kind));
  return absl::StrReplaceAll(absl::AsciiStrToLower(name.substr(kKindPrefix.size())), {{"_", " "}});
}

}  // namespace diloco
