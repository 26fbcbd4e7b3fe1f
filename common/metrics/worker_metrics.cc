#include "common/metrics/worker_metrics.h"

namespace diloco {

void RaiseTo(prometheus::Counter& counter, double total) {
  if (total > counter.Value()) counter.Increment(total - counter.Value());
}

WorkerMetrics::WorkerMetrics(prometheus::Registry& registry)
    : inner_steps(OneCounter(registry, kInnerSteps)),
      tokens(OneCounter(registry, kTokens)),
      tokens_per_second(OneGauge(registry, kTokenRate)),
      train_loss(OneGauge(registry, kTrainLoss)),
      round(OneGauge(registry, kRoundCurrent)),
      consensus_version(OneGauge(registry, kConsensusVersion)),
      staleness_rounds(OneGauge(registry, kStaleness)),
      blocked_seconds(OneCounter(registry, kBlockedSeconds)),
      wall_seconds(OneCounter(registry, kWallSeconds)),
      evaluation_seconds(OneCounter(registry, kEvaluationSeconds)),
      utilization_ratio(OneGauge(registry, kUtilization)),
      rounds_skipped(OneCounter(registry, kRoundsSkipped)),
      outer_gradients_not_finite(OneCounter(registry, kNotFinite)),
      uploaded_bytes(OneCounter(registry, kUploadedBytes)),
      downloaded_bytes(OneCounter(registry, kDownloadedBytes)),
      uploads(OneCounter(registry, kUploads)),
      upload_seconds(OneCounter(registry, kUploadSeconds)),
      downloads(OneCounter(registry, kDownloads)),
      download_seconds(OneCounter(registry, kDownloadSeconds)),
      upload_queue_contributions(OneGauge(registry, kUploadQueue)),
      resyncs(OneCounter(registry, kResyncs)),
      connected(OneGauge(registry, kConnected)),
      reconnects(OneCounter(registry, kReconnects)),
      evaluation_loss(OneGauge(registry, kEvaluationLoss)),
      evaluation_version(OneGauge(registry, kEvaluationVersion)),
      checkpoints_written(CounterFamily(registry, kWorkerCheckpoints).Add({{"outcome", "written"}})),
      checkpoints_failed(CounterFamily(registry, kWorkerCheckpoints).Add({{"outcome", "failed"}})),
      checkpoint_write_seconds(OneCounter(registry, kWorkerCheckpointSeconds)),
      checkpoint_step(OneGauge(registry, kWorkerCheckpointStep)) {
  RegisterBuildInfo(registry);
}

void WorkerMetrics::Report(const v1::WorkerProgress& progress) {
  RaiseTo(inner_steps, static_cast<double>(progress.session_steps()));
  RaiseTo(tokens, static_cast<double>(progress.tokens()));
  tokens_per_second.Set(progress.tokens_per_second());
  train_loss.Set(progress.loss());
  round.Set(static_cast<double>(progress.round()));
  consensus_version.Set(static_cast<double>(progress.version()));
  staleness_rounds.Set(static_cast<double>(progress.staleness()));
  RaiseTo(blocked_seconds, progress.blocked_seconds());
  RaiseTo(wall_seconds, progress.wall_seconds());
  RaiseTo(evaluation_seconds, progress.evaluation_seconds());
  utilization_ratio.Set(progress.wall_seconds() > 0 ? 1 - progress.blocked_seconds() / progress.wall_seconds() : 1);
  RaiseTo(rounds_skipped, static_cast<double>(progress.rounds_skipped()));
  RaiseTo(outer_gradients_not_finite, static_cast<double>(progress.outer_gradients_not_finite()));
  RaiseTo(uploaded_bytes, static_cast<double>(progress.uploaded_bytes()));
  RaiseTo(downloaded_bytes, static_cast<double>(progress.downloaded_bytes()));
}

}  // namespace diloco
