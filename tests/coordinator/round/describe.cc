#include "tests/coordinator/round/describe.h"

#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace diloco {
namespace {

std::string RoundName(int fragment, int64_t round) { return absl::StrCat("fragment=", fragment, " round=", round); }

std::string ReasonAfter(const std::string& reason) { return reason.empty() ? "" : absl::StrCat(" (", reason, ")"); }

const char* Describe(Settlement settlement) {
  switch (settlement) {
    case Settlement::kMerged:
      return "merged";
    case Settlement::kDroppedLate:
      return "dropped late";
    case Settlement::kDroppedRefused:
      return "dropped refused";
    case Settlement::kDroppedOutOfOrder:
      return "dropped out of order";
    case Settlement::kDroppedRunEnded:
      return "dropped at the end";
    case Settlement::kDroppedEvicted:
      return "dropped evicted";
  }
  return "?";
}

std::string Describe(const Settled& line) {
  const std::string weight = line.weight == 0 ? "" : absl::StrCat(" weight=", line.weight);
  return absl::StrCat(line.id.worker, "@", line.id.round, " ", Describe(line.settlement), weight);
}

std::string Describe(const std::vector<Settled>& lines) {
  if (lines.empty()) return "nothing";
  return absl::StrJoin(lines, ", ",
                       [](std::string* out, const Settled& line) { absl::StrAppend(out, Describe(line)); });
}

const char* Describe(RefuseWorker::Reason reason) {
  switch (reason) {
    case RefuseWorker::Reason::kIdInUse:
      return "id in use";
    case RefuseWorker::Reason::kRunEnded:
      return "run ended";
    case RefuseWorker::Reason::kTooManyMembers:
      return "too many members";
    case RefuseWorker::Reason::kEvicted:
      return "evicted";
  }
  return "?";
}

struct EffectDescriber {
  std::string operator()(const AdmitWorker& e) const {
    return absl::StrCat("admit ", e.worker, "/", e.incarnation, " first_round=", e.first_round,
                        e.returning ? " returning" : "", e.resumes ? " resumes" : "");
  }
  std::string operator()(const RefuseWorker& e) const {
    return absl::StrCat("refuse ", e.worker, "/", e.incarnation, ": ", Describe(e.reason), ReasonAfter(e.message));
  }
  std::string operator()(const WorkerLost& e) const { return absl::StrCat("lost ", e.worker); }
  std::string operator()(const RecordDeparture& e) const {
    return absl::StrCat("record departure ", e.worker, "/", e.incarnation);
  }
  std::string operator()(const RecordDrain& e) const { return absl::StrCat("record drain ", e.worker); }
  std::string operator()(const RecordEviction& e) const {
    return absl::StrCat("record eviction ", e.worker, ", dropped ", e.dropped);
  }
  std::string operator()(const RecordReadmission& e) const { return absl::StrCat("record readmission ", e.worker); }
  std::string operator()(const AnswerContribution& e) const {
    return absl::StrCat("answer ", e.id.worker, " ", RoundName(e.id.fragment, e.id.round), ": ",
                        diloco::Describe(e.verdict), ReasonAfter(e.reason));
  }
  std::string operator()(const StartMerge& e) const {
    return absl::StrCat("merge ", RoundName(e.fragment, e.round), ": ", Describe(e.merged));
  }
  std::string operator()(const PersistCommit& e) const {
    return absl::StrCat("persist ", RoundName(e.fragment, e.round), ": ", Describe(e.settled),
                        "; participating weight ", e.participating_weight);
  }
  std::string operator()(const PublishGlobalDelta& e) const {
    return absl::StrCat("publish ", RoundName(e.fragment, e.round));
  }
  std::string operator()(const ReleaseContribution& e) const {
    return absl::StrCat("release ", e.id.worker, " ", RoundName(e.id.fragment, e.id.round));
  }
  std::string operator()(const PersistEnd& e) const { return absl::StrCat("persist end: ", Describe(e.settled)); }
  std::string operator()(const PublishEnd&) const { return "publish end"; }
};

const char* Describe(RunPhase phase) {
  switch (phase) {
    case RunPhase::kSeeding:
      return "seeding";
    case RunPhase::kWaitingForWorkers:
      return "waiting for workers";
    case RunPhase::kTraining:
      return "training";
    case RunPhase::kEnded:
      return "ended";
  }
  return "?";
}

const char* Describe(RoundPhase phase) {
  switch (phase) {
    case RoundPhase::kCollecting:
      return "collecting";
    case RoundPhase::kMerging:
      return "merging";
    case RoundPhase::kCommitting:
      return "committing";
    case RoundPhase::kCommitted:
      return "committed";
  }
  return "?";
}

const char* Describe(MemberState state) {
  switch (state) {
    case MemberState::kAlive:
      return "alive";
    case MemberState::kLost:
      return "lost";
    case MemberState::kLeft:
      return "left";
    case MemberState::kEvicted:
      return "evicted";
  }
  return "?";
}

}  // namespace

std::string Describe(const RoundEffect& effect) { return std::visit(EffectDescriber(), effect); }

std::string Describe(Verdict verdict) {
  switch (verdict) {
    case Verdict::kWanted:
      return "wanted";
    case Verdict::kStored:
      return "stored";
    case Verdict::kSettled:
      return "settled";
    case Verdict::kRefused:
      return "refused";
    case Verdict::kTooEarly:
      return "too early";
  }
  return "?";
}

std::vector<std::string> Describe(const RoundMachine& machine, int fragments, MonotonicTime now) {
  std::vector<std::string> out;
  out.push_back(absl::StrCat(Describe(machine.phase()), ": ", machine.Reason(now)));
  if (!machine.Seeder().empty()) out.push_back(absl::StrCat("seeder ", machine.Seeder()));
  if (!machine.Evaluator().empty()) out.push_back(absl::StrCat("evaluator ", machine.Evaluator()));
  for (const MemberView& member : machine.Members()) {
    out.push_back(absl::StrCat("member ", member.worker, "/", member.incarnation, ": ", Describe(member.state),
                               member.draining ? " draining" : "", member.participating ? " participating" : "",
                               ", first round ", member.first_round, ", heard ",
                               absl::FormatDuration(now - member.last_heard), " ago"));
  }
  for (int fragment = 0; fragment < fragments; ++fragment) {
    for (const RoundView& round : machine.OpenRounds(fragment, now)) {
      out.push_back(
          absl::StrCat(RoundName(fragment, round.round), ": ", Describe(round.phase), ReasonAfter(round.reason)));
    }
  }
  if (const std::optional<MonotonicTime> deadline = machine.NextDeadline()) {
    out.push_back(absl::StrCat("next deadline in ", absl::FormatDuration(*deadline - now)));
  }
  return out;
}

}  // namespace diloco
