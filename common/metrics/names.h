// Every metric of both programs: name and help text, in one place, so that dashboards and alerts can be checked against
// it. Base units; counters end in `_total`; label values are few and bounded (a worker id is, by kMaxWorkers).
#pragma once

namespace diloco {

struct MetricName {
  const char* name;
  const char* help;
};

// ---- Both programs ----
inline constexpr MetricName kBuildInfo = {"diloco_build_info",
                                          "1, labelled with the version and the commit of the program"};

// ---- Coordinator: the run and its members ----
inline constexpr MetricName kRunPhase = {"diloco_run_phase", "1 for the phase that the run is in, 0 for the others"};
inline constexpr MetricName kWorkersExpected = {"diloco_workers_expected", "Workers that the run starts with"};
inline constexpr MetricName kWorkers = {"diloco_workers", "Members of the run by state"};
inline constexpr MetricName kWorkersParticipating = {
    "diloco_workers_participating", "Members whose contribution the oldest open round holds or waits for"};
inline constexpr MetricName kWorkerJoins = {"diloco_worker_joins_total",
                                            "Joins by kind: new incarnations, and reconnects of the same one"};
inline constexpr MetricName kWorkerLosses = {"diloco_worker_losses_total", "Members whose lease ended without a word"};
inline constexpr MetricName kWorkerHeartbeat = {"diloco_worker_last_heartbeat_timestamp_seconds",
                                                "Unix time of a member's last heartbeat"};
inline constexpr MetricName kWorkerStep = {"diloco_worker_inner_steps", "Inner steps that a member has finished"};
inline constexpr MetricName kWorkerRound = {"diloco_worker_round", "Round that a member is training in"};
inline constexpr MetricName kWorkerStaleness = {
    "diloco_worker_staleness_rounds", "Rounds between a member's round and the averages that its parameters contain"};
inline constexpr MetricName kWorkerLoss = {"diloco_worker_train_loss",
                                           "Training loss of a member's last step, nats a token"};
inline constexpr MetricName kWorkerTokenRate = {"diloco_worker_tokens_per_second",
                                                "Tokens a second that a member trains on"};
inline constexpr MetricName kWorkerUtilization = {
    "diloco_worker_utilization_ratio", "Share of a member's session that its training thread was not blocked"};

// ---- Coordinator: contributions, rounds, publication ----
inline constexpr MetricName kContributionChunks = {
    "diloco_contribution_chunks_total", "Chunks of contributions by outcome; a corrupt one is not acknowledged"};
inline constexpr MetricName kReceivedBytes = {"diloco_received_bytes_total", "Payload bytes of contributions received"};
inline constexpr MetricName kContributions = {"diloco_contributions_total",
                                              "Contributions by the verdict that their worker was given"};
inline constexpr MetricName kContributionsSettled = {"diloco_contributions_settled_total",
                                                     "Contributions that global deltas settled, by outcome"};
inline constexpr MetricName kFragmentRounds = {"diloco_fragment_rounds_total",
                                               "Rounds committed, counted once for each fragment"};
inline constexpr MetricName kRoundNewest = {"diloco_round_newest_committed",
                                            "Newest round that any fragment has committed; -1: none"};
inline constexpr MetricName kRoundDuration = {"diloco_round_duration_seconds",
                                              "From the opening of a fragment's round to its commit"};
inline constexpr MetricName kMergeDuration = {"diloco_merge_duration_seconds",
                                              "Averaging and encoding one fragment's round"};
inline constexpr MetricName kAverageNorm = {"diloco_average_norm", "L2 norm of the newest average of any fragment"};
inline constexpr MetricName kPublishedBytes = {"diloco_published_bytes_total",
                                               "Payload bytes of global deltas, times the subscribers of each"};
inline constexpr MetricName kSubscribers = {"diloco_subscribers", "Subscribers of the newest global delta"};
inline constexpr MetricName kEvaluationLoss = {"diloco_evaluation_loss",
                                               "Held-out loss of the newest evaluated consensus, nats a token"};
inline constexpr MetricName kEvaluationVersion = {"diloco_evaluation_version", "Newest evaluated version"};
inline constexpr MetricName kSnapshotDuration = {"diloco_snapshot_write_duration_seconds",
                                                 "Writing one snapshot of the consensus"};
inline constexpr MetricName kSnapshotVersion = {"diloco_snapshot_version", "Version of the newest durable snapshot"};
inline constexpr MetricName kSnapshotSuccess = {"diloco_snapshot_last_success_timestamp_seconds",
                                                "Unix time of the newest durable snapshot"};
inline constexpr MetricName kCheckpoints = {"diloco_checkpoints_total", "Checkpoints of the consensus written"};
inline constexpr MetricName kDiskRefusals = {
    "diloco_disk_refusals_total", "Writes that a full or read-only disk did not take, by what they were for"};

// ---- Coordinator: calls ----
inline constexpr MetricName kCalls = {"diloco_rpc_server_handled_total", "Calls that ended, by method and code"};
inline constexpr MetricName kCallDuration = {"diloco_rpc_server_handling_seconds",
                                             "Time from start to end of a call, by method; of a stream, its life"};
inline constexpr MetricName kCallsOpen = {"diloco_rpc_server_open", "Calls that are open, by method"};

// ---- Worker ----
inline constexpr MetricName kInnerSteps = {"diloco_inner_steps_total", "Inner steps finished by this process"};
inline constexpr MetricName kTokens = {"diloco_tokens_total", "Tokens trained on by this process"};
inline constexpr MetricName kTokenRate = {"diloco_tokens_per_second", "Tokens a second over the last steps"};
inline constexpr MetricName kTrainLoss = {"diloco_train_loss", "Training loss of the last step, nats a token"};
inline constexpr MetricName kRoundCurrent = {"diloco_round_current", "Round that this worker is training in"};
inline constexpr MetricName kConsensusVersion = {"diloco_consensus_version",
                                                 "Newest version that all fragments of the consensus have reached"};
inline constexpr MetricName kStaleness = {"diloco_staleness_rounds",
                                          "Rounds between this worker's round and the averages in its parameters"};
inline constexpr MetricName kBlockedSeconds = {"diloco_blocked_seconds_total",
                                               "Seconds that the training thread waited for the network"};
inline constexpr MetricName kWallSeconds = {"diloco_wall_seconds_total",
                                            "Seconds since training began, evaluation excluded"};
inline constexpr MetricName kEvaluationSeconds = {"diloco_evaluation_seconds_total",
                                                  "Seconds spent on evaluating the consensus"};
inline constexpr MetricName kUtilization = {"diloco_utilization_ratio", "1 - blocked seconds / wall seconds"};
inline constexpr MetricName kRoundsSkipped = {"diloco_rounds_skipped_total",
                                              "Rounds that had closed before this worker's boundary"};
inline constexpr MetricName kNotFinite = {"diloco_outer_gradients_not_finite_total",
                                          "Outer gradients that were not finite and not sent"};
inline constexpr MetricName kUploadedBytes = {"diloco_uploaded_bytes_total", "Payload bytes of contributions uploaded"};
inline constexpr MetricName kDownloadedBytes = {"diloco_downloaded_bytes_total",
                                                "Payload bytes of global deltas downloaded"};
inline constexpr MetricName kConnected = {"diloco_connected", "1 while the session with the coordinator is open"};
inline constexpr MetricName kWorkerCheckpoints = {
    "diloco_worker_checkpoints_total", "Resumable checkpoints of this worker by outcome: written, or failed"};
inline constexpr MetricName kWorkerCheckpointStep = {
    "diloco_worker_checkpoint_step", "Inner step of the newest checkpoint that this process wrote; -1: none yet"};
inline constexpr MetricName kReconnects = {"diloco_reconnects_total", "Sessions that had to be opened again"};

}  // namespace diloco
