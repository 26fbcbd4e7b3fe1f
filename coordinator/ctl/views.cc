#include "coordinator/ctl/views.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/base/digest.h"
#include "coordinator/ctl/format.h"
#include "coordinator/ctl/table.h"

namespace diloco {
namespace {

std::string Count(uint64_t value) { return absl::StrFormat("%d", value); }

}  // namespace

std::string EvaluationText(const v1::Evaluation& evaluation) {
  return absl::StrFormat("%s nats a token at version %d", LossText(evaluation.loss()), evaluation.version());
}

std::optional<std::string> Held(const v1::GetStatusResponse& status) {
  if (status.state() == v1::RUN_STATE_HOLDING || status.state() == v1::RUN_STATE_PAUSED) return status.reason();
  if (status.state() != v1::RUN_STATE_TRAINING || status.workers_alive() >= status.quorum()) return std::nullopt;
  return absl::StrFormat("%d workers are alive and a round needs %d; start workers", status.workers_alive(),
                         status.quorum());
}

std::string StatusText(const v1::GetStatusResponse& status, const ViewOptions& options) {
  const std::vector<std::pair<std::string, Cell>> fields = {
      {"run", status.run_id()},
      {"state", StateCell(status.state(), ": " + status.reason())},
      {"method", status.method()},
      {"rounds", absl::StrFormat("%d of %d committed", status.rounds_committed(), status.rounds_total())},
      {"workers",
       absl::StrFormat("%d alive, %d participating, %d expected, %d needed for a round", status.workers_alive(),
                       status.workers_participating(), status.workers_expected(), status.quorum())},
      {"model", status.parameters() == 0
                    ? "-"
                    : absl::StrFormat("%d parameters in %d fragments", status.parameters(), status.fragments())},
      {"held-out loss", status.evaluations().empty() ? "-" : EvaluationText(status.evaluations(0))},
      {"traffic",
       absl::StrFormat("%s received, %s sent", HumanBytes(status.received_bytes()), HumanBytes(status.sent_bytes()))},
      {"snapshot", status.snapshot_version() < 0 ? "-" : absl::StrFormat("version %d", status.snapshot_version())},
      {"checkpoint", status.checkpoint_path().empty() ? "-" : status.checkpoint_path()},
      {"coordinator",
       absl::StrFormat("%s, up %s", status.software_version(), HumanDuration(ToSeconds(status.uptime())))}};
  return Fields(fields, options.colors);
}

std::string RoundListText(const v1::ListRoundsResponse& rounds, const ViewOptions& options) {
  Table table({{"ROUND", Align::kRight},
               {"STATE"},
               {"FRAGMENTS", Align::kRight},
               {"WORKERS", Align::kRight},
               {"QUORUM", Align::kRight},
               {"ELAPSED", Align::kRight},
               {"MERGED", Align::kRight},
               {"LATE", Align::kRight},
               {"DROPPED", Align::kRight},
               {"REASON"}},
              options.colors);
  for (const v1::RoundSummary& round : rounds.rounds()) {
    table.AddRow({absl::StrFormat("%d", round.round()), StateCell(round.state()),
                  absl::StrFormat("%d/%d", round.fragments_committed(), round.fragments_total()),
                  Count(round.workers_present()), Count(round.quorum()), HumanDuration(ToSeconds(round.elapsed())),
                  Count(round.merged()), Count(round.merged_late()), Count(round.dropped()), round.reason()});
  }
  return table.ToString();
}

std::string RoundText(const v1::DescribeRoundResponse& response, const ViewOptions& options) {
  const v1::RoundSummary& round = response.summary();
  std::string text =
      Fields({{"round", absl::StrFormat("%d", round.round())},
              {"state", StateCell(round.state(), ": " + round.reason())},
              {"elapsed", HumanDuration(ToSeconds(round.elapsed()))},
              {"workers", absl::StrFormat("%d present, quorum %d", round.workers_present(), round.quorum())},
              {"contributions", absl::StrFormat("%d merged (%d of them late), %d dropped", round.merged(),
                                                round.merged_late(), round.dropped())}},
             options.colors);
  Table fragments({{"FRAGMENT", Align::kRight},
                   {"STATE"},
                   {"PRESENT"},
                   {"AWAITED"},
                   {"ABSTAINED"},
                   {"AVERAGE NORM", Align::kRight},
                   {"CONSENSUS VERSION", Align::kRight},
                   {"CONSENSUS DIGEST"},
                   {"REASON"}},
                  options.colors);
  Table settled(
      {{"FRAGMENT", Align::kRight}, {"WORKER"}, {"ROUND", Align::kRight}, {"WEIGHT", Align::kRight}, {"SETTLEMENT"}});
  bool any_settled = false;
  for (const v1::FragmentRound& fragment : response.fragments()) {
    const bool has_digest = !fragment.consensus_digest().value().empty();
    fragments.AddRow({Count(fragment.fragment()), StateCell(fragment.state()), absl::StrJoin(fragment.present(), " "),
                      absl::StrJoin(fragment.awaited(), " "), absl::StrJoin(fragment.abstained(), " "),
                      absl::StrFormat("%.4g", fragment.average_norm()),
                      has_digest ? absl::StrFormat("%d", fragment.consensus_version()) : "",
                      has_digest ? Digest::FromBytes(fragment.consensus_digest().value()).Hex() : "",
                      fragment.reason()});
    for (const v1::SettledContribution& line : fragment.settled()) {
      any_settled = true;
      settled.AddRow({Count(fragment.fragment()), line.id().worker_id(), absl::StrFormat("%d", line.id().round()),
                      absl::StrFormat("%g", line.weight()), SettlementText(line.settlement())});
    }
  }
  text += "\n" + fragments.ToString();
  if (any_settled) text += "\n" + settled.ToString();
  return text;
}

std::string RunningConfigText(const v1::GetConfigResponse& config) {
  std::string text;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(config.config_yaml(), "\n"), '\n')) {
    // What a file may hold between its words stays what it is.
    std::vector<std::string> words;
    for (const absl::string_view word : absl::StrSplit(absl::StripSuffix(line, "\r"), '\t')) {
      words.push_back(Printable({word.data(), word.size()}));
    }
    absl::StrAppend(&text, absl::StrJoin(words, "\t"), "\n");
  }
  for (const v1::RunChange& change : config.changes()) {
    for (const v1::Setting& setting : change.settings()) {
      absl::StrAppendFormat(&text, "# from round %d on: %s: %s\n", change.from_round(), Printable(setting.key()),
                            Printable(setting.value()));
    }
  }
  return text;
}

std::string CheckpointListText(const v1::ListCheckpointsResponse& checkpoints) {
  Table table({{"VERSION", Align::kRight}, {"SIZE", Align::kRight}, {"AGE", Align::kRight}, {"PATH"}});
  for (const v1::CheckpointSummary& checkpoint : checkpoints.checkpoints()) {
    table.AddRow({absl::StrFormat("%d", checkpoint.version()), HumanBytes(checkpoint.size_bytes()),
                  HumanDuration(ToSeconds(checkpoint.age())), checkpoint.path()});
  }
  return table.ToString();
}

std::string CheckpointText(const v1::SaveCheckpointResponse& checkpoint) {
  return Fields({{"checkpoint", checkpoint.path()},
                 {"version", absl::StrFormat("%d", checkpoint.version())},
                 {"size", HumanBytes(checkpoint.size_bytes())}});
}

std::string DrainText(const v1::DrainWorkerResponse& drained) {
  return Fields({{"worker", drained.worker_id()},
                 {"state", "draining: it finishes its round, waits until what it sent is settled, and leaves"}});
}

std::string EvictText(const v1::EvictWorkerResponse& evicted) {
  return Fields(
      {{"worker", evicted.worker_id()},
       {"state", absl::StrFormat("evicted: `dilococtl worker admit %s` lets it join again", evicted.worker_id())},
       {"dropped", absl::StrFormat("%d contributions", evicted.contributions_dropped())}});
}

std::string AdmitText(const v1::AdmitWorkerResponse& admitted) {
  return Fields({{"worker", admitted.worker_id()}, {"state", "left: it may join again"}});
}

std::string RecoverSentence(const v1::RecoverConsensusRequest& request, const v1::RecoverConsensusResponse& response) {
  const auto version = [](int64_t number) {
    return number < 0 ? std::string("nothing") : absl::StrFormat("version %d", number);
  };
  if (request.discard_workers()) {
    return absl::StrFormat(
        "the run goes on from the data folder, which has %s, and what workers hold beyond it is lost",
        version(response.version()));
  }
  return absl::StrFormat(
      "the run goes on from %s of the consensus, which worker %s holds, and the data folder's %s is no more",
      version(response.version()), request.worker_id(), version(response.folder_version()));
}

}  // namespace diloco
