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
// Names that every Prometheus client library gives to what the operating system says of a process.
inline constexpr MetricName kProcessCpu = {"process_cpu_seconds_total", "User and system CPU time of this process"};
inline constexpr MetricName kProcessMemory = {"process_resident_memory_bytes", "Resident memory of this process"};
inline constexpr MetricName kProcessFiles = {"process_open_fds", "Open file descriptors of this process"};
inline constexpr MetricName kProcessMaxFiles = {"process_max_fds", "File descriptors that this process may open"};
inline constexpr MetricName kProcessThreads = {"process_threads", "Threads of this process"};
inline constexpr MetricName kProcessStart = {"process_start_time_seconds", "Unix time at which this process started"};

// ---- Coordinator: the run and its members ----
inline constexpr MetricName kRunPhase = {"diloco_run_phase", "1 for the phase that the run is in, 0 for the others"};
inline constexpr MetricName kRunHeld = {"diloco_run_held", "1 for the cause that holds the run, 0 for the others"};
inline constexpr MetricName kRunInfo = {"diloco_run_info", "1, labelled with the run's method and outer optimizer"};
inline constexpr MetricName kRunRounds = {"diloco_run_rounds", "Rounds that the run has"};
inline constexpr MetricName kRunInnerSteps = {"diloco_run_inner_steps", "Inner steps of a round (H)"};
inline constexpr MetricName kRunOverlap = {"diloco_run_overlap_rounds",
                                           "Rounds after its boundary that an average is applied, rounded up"};
inline constexpr MetricName kRunSnapshotEvery = {"diloco_run_snapshot_every_rounds",
                                                 "Rounds from one snapshot to the next"};
inline constexpr MetricName kCompression = {"diloco_codec_compression_ratio",
                                            "Bytes of float32 for each byte on the wire, by direction and codec"};
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
// What a member reported of its session; each starts at 0 with the session.
inline constexpr MetricName kWorkerTokens = {"diloco_worker_tokens_total", "Tokens that a member trained on"};
inline constexpr MetricName kWorkerBlocked = {"diloco_worker_blocked_seconds_total",
                                              "Seconds that a member's training thread waited for the network"};
inline constexpr MetricName kWorkerWall = {"diloco_worker_wall_seconds_total",
                                           "Seconds since a member's training began, evaluation excluded"};
inline constexpr MetricName kWorkerSkipped = {"diloco_worker_rounds_skipped_total",
                                              "Rounds that had closed before a member's boundary"};
inline constexpr MetricName kWorkerNotFinite = {"diloco_worker_outer_gradients_not_finite_total",
                                                "Outer gradients of a member that were not finite and not sent"};
inline constexpr MetricName kWorkerUploaded = {"diloco_worker_uploaded_bytes_total",
                                               "Payload bytes of contributions that a member uploaded"};
inline constexpr MetricName kWorkerDownloaded = {"diloco_worker_downloaded_bytes_total",
                                                 "Payload bytes of global deltas that a member downloaded"};

// ---- Coordinator: contributions, rounds, publication ----
inline constexpr MetricName kContributionChunks = {
    "diloco_contribution_chunks_total", "Chunks of contributions by outcome; a corrupt one is not acknowledged"};
inline constexpr MetricName kReceivedBytes = {"diloco_received_bytes_total", "Payload bytes of contributions received"};
inline constexpr MetricName kStagedBytes = {"diloco_staged_bytes",
                                            "Encoded bytes of contributions that are held in memory"};
inline constexpr MetricName kContributions = {"diloco_contributions_total",
                                              "Contributions by the verdict that their worker was given"};
inline constexpr MetricName kContributionsSettled = {"diloco_contributions_settled_total",
                                                     "Contributions that were settled, by outcome"};
inline constexpr MetricName kFragmentRounds = {"diloco_fragment_rounds_total",
                                               "Rounds committed, counted once for each fragment"};
inline constexpr MetricName kRoundNewest = {"diloco_round_newest_committed",
                                            "Newest round that any fragment has committed; -1: none"};
inline constexpr MetricName kRoundOldest = {"diloco_round_oldest_open", "Oldest round that is open; -1: none"};
inline constexpr MetricName kRoundOpened = {"diloco_round_oldest_opened_timestamp_seconds",
                                            "Unix time at which this process opened the oldest open round; 0: none"};
inline constexpr MetricName kRoundQuorum = {"diloco_round_quorum_workers",
                                            "Distinct workers that the oldest open round needs; 0: none is open"};
inline constexpr MetricName kRoundPresent = {"diloco_round_present_workers",
                                             "Distinct workers that have contributed to the oldest open round"};
inline constexpr MetricName kRoundGrace = {"diloco_round_grace_window_seconds",
                                           "How long the oldest open round waits for the rest after its quorum is met"};
inline constexpr MetricName kRoundDuration = {"diloco_round_duration_seconds",
                                              "From the opening of a fragment's round to its commit"};
inline constexpr MetricName kMergeDuration = {"diloco_merge_duration_seconds",
                                              "Averaging and encoding one fragment's round"};
inline constexpr MetricName kAverageNorm = {"diloco_average_norm",
                                            "L2 norm of the newest average of a fragment, of the first 64"};
inline constexpr MetricName kPublishedBytes = {"diloco_published_bytes_total",
                                               "Payload bytes of global deltas, times the subscribers of each"};
inline constexpr MetricName kSubscribers = {"diloco_subscribers", "Subscribers of the newest global delta"};
inline constexpr MetricName kEvaluationLoss = {"diloco_evaluation_loss",
                                               "Held-out loss of the newest evaluated consensus, nats a token"};
inline constexpr MetricName kEvaluationVersion = {"diloco_evaluation_version", "Newest evaluated version"};
inline constexpr MetricName kSnapshotDuration = {"diloco_snapshot_write_duration_seconds",
                                                 "Writing one snapshot of the consensus"};
inline constexpr MetricName kSnapshotBytes = {"diloco_snapshot_bytes",
                                              "Size of the newest durable snapshot's consensus"};
inline constexpr MetricName kSnapshotVersion = {"diloco_snapshot_version", "Version of the newest durable snapshot"};
inline constexpr MetricName kSnapshotSuccess = {"diloco_snapshot_last_success_timestamp_seconds",
                                                "Unix time of the newest durable snapshot"};
inline constexpr MetricName kCheckpoints = {"diloco_checkpoints_total",
                                            "Checkpoints of the consensus by outcome: written, or failed"};
inline constexpr MetricName kCheckpointDuration = {"diloco_checkpoint_write_duration_seconds",
                                                   "Writing one checkpoint of the consensus"};
inline constexpr MetricName kCheckpointSuccess = {
    "diloco_checkpoint_last_success_timestamp_seconds",
    "Unix time of the newest checkpoint that this process wrote; 0: none"};
inline constexpr MetricName kJournalDuration = {"diloco_journal_write_duration_seconds",
                                                "From handing a record to the disk's thread until it is durable"};
inline constexpr MetricName kJournalBytes = {"diloco_journal_bytes", "Size of the journal behind the newest snapshot"};
inline constexpr MetricName kDiskFree = {"diloco_disk_free_bytes", "Bytes that the data folder's disk can still take"};
inline constexpr MetricName kDiskRefusals = {
    "diloco_disk_refusals_total", "Writes that a full or read-only disk did not take, by what they were for"};

// ---- Coordinator: calls ----
inline constexpr MetricName kCalls = {"diloco_rpc_server_handled_total", "Calls that ended, by method and code"};
inline constexpr MetricName kCallDuration = {"diloco_rpc_server_handling_seconds",
                                             "Time from start to end of a call, by method; of a stream, its life"};
inline constexpr MetricName kAuthenticationFailures = {
    "diloco_authentication_failures_total", "Connections and calls refused for the certificate shown, by reason"};
inline constexpr MetricName kCallsLimited = {
    "diloco_calls_limited_total", "Calls refused because their caller was over a limit of its own, by limit"};
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
inline constexpr MetricName kUploads = {"diloco_uploads_total", "Contributions that the coordinator took whole"};
inline constexpr MetricName kUploadSeconds = {"diloco_upload_seconds_total",
                                              "Seconds from a contribution's boundary until the coordinator held it"};
inline constexpr MetricName kDownloads = {"diloco_downloads_total", "Global deltas received whole"};
inline constexpr MetricName kDownloadSeconds = {"diloco_download_seconds_total",
                                                "Seconds from the first chunk of a global delta to its last"};
inline constexpr MetricName kUploadQueue = {"diloco_upload_queue_contributions",
                                            "Contributions that the coordinator does not hold yet"};
inline constexpr MetricName kResyncs = {"diloco_resyncs_total", "Snapshots taken after the first"};
inline constexpr MetricName kConnected = {"diloco_connected", "1 while the session with the coordinator is open"};
inline constexpr MetricName kWorkerCheckpoints = {
    "diloco_worker_checkpoints_total", "Resumable checkpoints of this worker by outcome: written, or failed"};
inline constexpr MetricName kWorkerCheckpointStep = {
    "diloco_worker_checkpoint_step", "Inner step of the newest checkpoint that this process wrote; -1: none yet"};
inline constexpr MetricName kWorkerCheckpointSeconds = {"diloco_worker_checkpoint_write_seconds_total",
                                                        "Seconds spent on writing this worker's checkpoints"};
inline constexpr MetricName kReconnects = {"diloco_reconnects_total", "Sessions that had to be opened again"};

}  // namespace diloco
