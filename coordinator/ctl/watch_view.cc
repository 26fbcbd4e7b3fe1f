#include "coordinator/ctl/watch_view.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

#include "coordinator/ctl/format.h"
#include "coordinator/ctl/table.h"
#include "coordinator/ctl/views.h"

namespace diloco {
namespace {

std::string RunLine(const v1::GetStatusResponse& status, std::optional<absl::Duration> eta) {
  const std::string held_out =
      status.evaluations().empty() ? "" : absl::StrFormat(", held-out loss %s", EvaluationText(status.evaluations(0)));
  std::string state = StateText(status.state());
  if (status.state() == v1::RUN_STATE_HOLDING) state += ": " + Printable(status.reason());
  return absl::StrFormat("run %s: %s, %d of %d rounds%s, ETA %s\n", Printable(status.run_id()), state,
                         status.rounds_committed(), status.rounds_total(), held_out,
                         eta.has_value() ? HumanDuration(absl::ToDoubleSeconds(*eta)) : "-");
}

// What float32 gradients, sent and received as a sum at every step, would have moved.
uint64_t EveryStepBytes(const v1::GetStatusResponse& status, uint64_t steps) {
  constexpr uint64_t kDirections = 2;
  return status.parameters() * sizeof(float) * kDirections * steps;
}

}  // namespace

void EtaEstimator::Observe(MonotonicTime now, int64_t rounds_committed) {
  if (!before_.has_value()) before_ = rounds_committed;
  const int64_t known = newest_.has_value() ? newest_->rounds : *before_;
  if (rounds_committed <= known) return;
  newest_ = Sight{now, rounds_committed};
  if (!first_.has_value()) first_ = newest_;
}

std::optional<absl::Duration> EtaEstimator::Remaining(MonotonicTime now, int64_t rounds_total) const {
  if (!first_.has_value() || newest_->rounds == first_->rounds) return std::nullopt;
  const absl::Duration per_round =
      (newest_->time - first_->time) / static_cast<double>(newest_->rounds - first_->rounds);
  const absl::Duration left = per_round * static_cast<double>(rounds_total - newest_->rounds) - (now - newest_->time);
  return std::max(left, absl::ZeroDuration());
}

bool HasEnded(const v1::GetStatusResponse& status, const v1::ListWorkersResponse& workers) {
  const bool saved = !status.checkpoint_path().empty() && status.checkpoint_version() >= status.rounds_total();
  return status.state() == v1::RUN_STATE_ENDED && saved &&
         std::none_of(workers.workers().begin(), workers.workers().end(),
                      [](const auto& worker) { return worker.state() == v1::WORKER_STATE_ALIVE; });
}

std::string WatchTable(const v1::GetStatusResponse& status, const v1::ListWorkersResponse& workers,
                       std::optional<absl::Duration> eta, Colors colors) {
  Table table({{"WORKER"},
               {"STATE"},
               {"STEP", Align::kRight},
               {"LOSS (NATS)", Align::kRight},
               {"TOKENS/S", Align::kRight},
               {"UTILIZATION (%)", Align::kRight},
               {"BLOCKED (S)", Align::kRight},
               {"ROUND", Align::kRight},
               {"STALENESS (ROUNDS)", Align::kRight}},
              colors);
  for (const v1::WorkerSummary& worker : workers.workers()) {
    const v1::WorkerProgress& progress = worker.progress();
    if (!worker.has_progress()) {
      table.AddRow({worker.worker_id(), StateCell(worker.state()), "", "", "", "", "", "", ""});
      continue;
    }
    table.AddRow({worker.worker_id(), StateCell(worker.state()), absl::StrFormat("%d", progress.step()),
                  LossText(progress.loss()), absl::StrFormat("%.0f", progress.tokens_per_second()),
                  UtilizationText(progress), absl::StrFormat("%.1f", progress.blocked_seconds()),
                  absl::StrFormat("%d", progress.round()), absl::StrFormat("%d", progress.staleness())});
  }
  return absl::StrFormat("%s%s\n%s", RunLine(status, eta), Printable(status.reason()), table.ToString());
}

std::string WatchLines(const v1::GetStatusResponse& status, const v1::ListWorkersResponse& workers,
                       std::optional<absl::Duration> eta) {
  std::string text = RunLine(status, eta);
  for (const v1::WorkerSummary& worker : workers.workers()) {
    const v1::WorkerProgress& progress = worker.progress();
    absl::StrAppendFormat(&text, "  %s %s", Printable(worker.worker_id()), StateText(worker.state()));
    if (worker.has_progress()) {
      absl::StrAppendFormat(
          &text, ": step %d, loss %s, %.0f tokens/s, utilization %s %%, blocked %.1f s, round %d, staleness %d",
          progress.step(), LossText(progress.loss()), progress.tokens_per_second(), UtilizationText(progress),
          progress.blocked_seconds(), progress.round(), progress.staleness());
    }
    text += "\n";
  }
  return text;
}

std::string SummaryText(const v1::GetStatusResponse& status, const v1::ListWorkersResponse& workers) {
  Table table({{"WORKER"},
               {"STEPS", Align::kRight},
               {"TOKENS", Align::kRight},
               {"FIRST LOSS (NATS)", Align::kRight},
               {"LAST LOSS (NATS)", Align::kRight},
               {"UTILIZATION (%)", Align::kRight},
               {"BLOCKED (S)", Align::kRight},
               {"UPLOADED", Align::kRight},
               {"DOWNLOADED", Align::kRight}});
  uint64_t moved = 0;
  uint64_t steps = 0;
  for (const v1::WorkerSummary& worker : workers.workers()) {
    const v1::WorkerProgress& progress = worker.progress();
    moved += progress.uploaded_bytes() + progress.downloaded_bytes();
    steps += static_cast<uint64_t>(std::max<int64_t>(0, progress.session_steps()));
    table.AddRow({worker.worker_id(), absl::StrFormat("%d", progress.session_steps()),
                  absl::StrFormat("%d", progress.tokens()), LossText(progress.first_loss()), LossText(progress.loss()),
                  UtilizationText(progress), absl::StrFormat("%.1f", progress.blocked_seconds()),
                  HumanBytes(progress.uploaded_bytes()), HumanBytes(progress.downloaded_bytes())});
  }
  const uint64_t every_step = EveryStepBytes(status, steps);
  std::string bytes = absl::StrFormat("%s; float32 gradients at every step would have moved %s", HumanBytes(moved),
                                      HumanBytes(every_step));
  if (moved > 0) {
    absl::StrAppendFormat(&bytes, ", %.0f times as much", static_cast<double>(every_step) / static_cast<double>(moved));
  }
  const auto& evaluations = status.evaluations();  // Newest first.
  const std::string held_out =
      evaluations.empty() ? "-"
                          : absl::StrFormat("first %s, last %s", EvaluationText(evaluations[evaluations.size() - 1]),
                                            EvaluationText(evaluations[0]));
  return absl::StrFormat(
      "\n%s\n%s", table.ToString(),
      Fields({{"rounds", absl::StrFormat("%d of %d", status.rounds_committed(), status.rounds_total())},
              {"held-out loss", held_out},
              {"bytes moved", bytes},
              {"checkpoint", status.checkpoint_path().empty() ? "-" : status.checkpoint_path()}}));
}

}  // namespace diloco
