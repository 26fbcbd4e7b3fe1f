#include "coordinator/ctl/worker_views.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "coordinator/ctl/format.h"
#include "coordinator/ctl/table.h"

namespace diloco {
namespace {

using Field = std::pair<std::string, Cell>;

std::string Number(int64_t value) { return absl::StrFormat("%d", value); }
std::string YesNo(bool value) { return value ? "yes" : "no"; }
std::string Heard(const v1::WorkerSummary& worker) {
  return absl::StrFormat("%s ago", HumanDuration(ToSeconds(worker.last_heard())));
}
std::string Incarnation(const v1::WorkerSummary& worker) { return absl::StrFormat("%016x", worker.incarnation()); }

std::vector<Table::Column> Columns(bool wide) {
  std::vector<Table::Column> columns = {{"WORKER"},
                                        {"STATE"},
                                        {"HEARD", Align::kRight},
                                        {"PARTICIPATING"},
                                        {"EVALUATOR"},
                                        {"STEP", Align::kRight},
                                        {"ROUND", Align::kRight},
                                        {"STALENESS (ROUNDS)", Align::kRight},
                                        {"LOSS (NATS)", Align::kRight},
                                        {"TOKENS/S", Align::kRight},
                                        {"UTILIZATION (%)", Align::kRight},
                                        {"BLOCKED (S)", Align::kRight}};
  if (wide) {
    for (const char* name : {"CONSENSUS VERSION", "TOKENS", "SKIPPED (ROUNDS)", "UPLOADED", "DOWNLOADED"}) {
      columns.push_back({name, Align::kRight});
    }
    columns.push_back({"INCARNATION"});
  }
  columns.push_back({"VERSION"});
  return columns;
}

std::vector<Cell> RowOf(const v1::WorkerSummary& worker, bool wide) {
  const v1::WorkerProgress& progress = worker.progress();
  std::vector<Cell> reported = {Number(progress.step()),
                                Number(progress.round()),
                                Number(progress.staleness()),
                                LossText(progress.loss()),
                                absl::StrFormat("%.0f", progress.tokens_per_second()),
                                UtilizationText(progress),
                                absl::StrFormat("%.1f", progress.blocked_seconds())};
  if (wide) {
    for (std::string text :
         {Number(progress.version()), absl::StrFormat("%d", progress.tokens()), Number(progress.rounds_skipped()),
          HumanBytes(progress.uploaded_bytes()), HumanBytes(progress.downloaded_bytes())}) {
      reported.emplace_back(std::move(text));
    }
  }
  if (!worker.has_progress()) reported.assign(reported.size(), "");
  std::vector<Cell> row = {worker.worker_id(), StateCell(worker.state()), Heard(worker), YesNo(worker.participating()),
                           YesNo(worker.evaluator())};
  row.insert(row.end(), reported.begin(), reported.end());
  if (wide) row.emplace_back(Incarnation(worker));
  row.emplace_back(worker.software_version());
  return row;
}

void AddProgress(const v1::WorkerProgress& progress, std::vector<Field>& fields) {
  const std::vector<Field> reported = {
      {"position", absl::StrFormat("step %d, round %d, consensus version %d, staleness %d rounds", progress.step(),
                                   progress.round(), progress.version(), progress.staleness())},
      {"loss", absl::StrFormat("%s nats a token, %s when its session began", LossText(progress.loss()),
                               LossText(progress.first_loss()))},
      {"throughput", absl::StrFormat("%.0f tokens/s; %d steps in this session, %d tokens in all",
                                     progress.tokens_per_second(), progress.session_steps(), progress.tokens())},
      {"utilization", absl::StrFormat("%s %%: blocked %.1f s of %s, evaluating %.1f s", UtilizationText(progress),
                                      progress.blocked_seconds(), HumanDuration(progress.wall_seconds()),
                                      progress.evaluation_seconds())},
      {"traffic", absl::StrFormat("%s uploaded, %s downloaded", HumanBytes(progress.uploaded_bytes()),
                                  HumanBytes(progress.downloaded_bytes()))},
      {"not sent", absl::StrFormat("%d rounds skipped, %d outer gradients not finite", progress.rounds_skipped(),
                                   progress.outer_gradients_not_finite())}};
  fields.insert(fields.end(), reported.begin(), reported.end());
}

std::string Received(uint64_t received, uint64_t total) {
  return total == 0 ? "" : absl::StrFormat("%s of %s", HumanBytes(received), HumanBytes(total));
}

std::string RoundTable(const v1::DescribeWorkerResponse& worker, Colors colors) {
  Table table({{"ROUND", Align::kRight}, {"FRAGMENTS", Align::kRight}, {"STATE"}, {"RECEIVED", Align::kRight}}, colors);
  for (int i = 0; i < worker.rounds_size();) {
    const v1::WorkerRound& first = worker.rounds(i);
    uint64_t received = 0;
    uint64_t total = 0;
    uint32_t last = first.fragment();
    for (; i < worker.rounds_size(); ++i) {
      const v1::WorkerRound& round = worker.rounds(i);
      const bool follows = &round == &first || round.fragment() == last + 1;
      if (!follows || round.round() != first.round() || round.state() != first.state()) break;
      last = round.fragment();
      received += round.received_bytes();
      total += round.total_bytes();
    }
    table.AddRow({Number(first.round()),
                  last == first.fragment() ? Number(last) : absl::StrFormat("%d-%d", first.fragment(), last),
                  StateCell(first.state()), Received(received, total)});
  }
  return table.ToString();
}

}  // namespace

std::string WorkerListText(const v1::ListWorkersResponse& workers, const ViewOptions& options) {
  Table table(Columns(options.wide), options.colors);
  for (const v1::WorkerSummary& worker : workers.workers()) table.AddRow(RowOf(worker, options.wide));
  return table.ToString();
}

std::string WorkerText(const v1::DescribeWorkerResponse& worker, const ViewOptions& options) {
  const v1::WorkerSummary& summary = worker.summary();
  std::vector<Field> fields = {
      {"worker", summary.worker_id()},
      {"state", StateCell(summary.state(), absl::StrFormat(", heard %s; lost after %s of silence", Heard(summary),
                                                           HumanDuration(ToSeconds(worker.lease()))))},
      {"incarnation", absl::StrFormat("%s, version %s", Incarnation(summary), summary.software_version())},
      {"participating", absl::StrFormat("%s, from round %d on", YesNo(summary.participating()), worker.first_round())},
      {"evaluator", YesNo(summary.evaluator())},
      {"settled", worker.settled_round() < 0 ? "nothing" : absl::StrFormat("up to round %d", worker.settled_round())}};
  if (summary.has_progress()) {
    AddProgress(summary.progress(), fields);
  } else {
    fields.emplace_back("progress", "not reported yet");
  }
  return absl::StrFormat("%s\n%s", Fields(fields, options.colors), RoundTable(worker, options.colors));
}

}  // namespace diloco
