// Every bound of the service, named in one place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace diloco {

// Version of the wire contract; joining with another one is refused.
inline constexpr uint32_t kProtocolVersion = 2;

inline constexpr int kMaxWorkers = 256;
inline constexpr int64_t kMaxRounds = 1'000'000'000;
// Of the consensus: times that an operator has replaced it.
inline constexpr uint32_t kMaxGeneration = 1'000'000;
inline constexpr int kMaxFragments = 1024;
inline constexpr int kMaxTensors = 65536;
inline constexpr size_t kMaxTensorNameBytes = 256;
inline constexpr size_t kMaxNameBytes = 64;
inline constexpr size_t kMaxConfigBytes = size_t{1} << 20;
inline constexpr int64_t kMaxElements = int64_t{1} << 40;

// Changes of a run's settings that are remembered, each on top of those before; settings in one of them.
inline constexpr int kMaxRunChanges = 64;
inline constexpr int kMaxSettingsPerChange = 32;

// Largest overlap, in rounds, and largest max_late: they bound the rounds of a fragment that are open at once.
inline constexpr int kMaxOverlapRounds = 16;
inline constexpr int kMaxLate = 16;

// Payload of one chunk: uploads, global deltas, snapshots, seeds.
inline constexpr size_t kMaxChunkBytes = size_t{1} << 20;
// Chunks of one contribution.
inline constexpr uint64_t kMaxUploadChunks = 65536;
// One gRPC message, either way: a chunk and what describes it.
inline constexpr int kMaxMessageBytes = 4 << 20;
// Error texts that cross the wire.
inline constexpr size_t kMaxReasonBytes = 256;

// Encoded contributions that the coordinator stages at once, over all workers.
inline constexpr size_t kMaxStagedBytes = size_t{16} << 30;
// Published chunks queued for one subscriber before it is told to resync. All subscribers share their bytes.
inline constexpr size_t kMaxSubscriberQueueBytes = size_t{16} << 30;
// Events waiting for the coordinator's driver.
inline constexpr size_t kMaxDriverQueue = 65536;
// Largest rounds.snapshot_every: global deltas since the snapshot before the newest stay in memory for subscribers.
inline constexpr int kMaxSnapshotEvery = 64;
// Rounds behind the newest snapshot when the disk refuses the next one: then the run is held.
inline constexpr int64_t kMaxRoundsWithoutSnapshot = 128;
// Rounds that a worker which reads a snapshot may fall behind meanwhile before it has to read a newer one.
inline constexpr int64_t kMaxCatchUpRounds = 64;
// Chunks of one upload stream that are taken in and not answered yet; the rest waits in the peer's flow control.
inline constexpr int kMaxUploadsInFlight = 4;
// Initial parameters that a seeder sends, assembled in memory.
inline constexpr uint64_t kMaxSeedBytes = uint64_t{64} << 30;
// Threads that read snapshots for joiners.
inline constexpr int kSnapshotReaders = 2;
// Of one probe, whatever its caller does; one at a time. Bytes count both ways.
inline constexpr absl::Duration kMaxProbeTime = absl::Seconds(20);
inline constexpr uint64_t kMaxProbeBytes = uint64_t{4} << 30;
// Entries of one answer to an administrator: rounds of a worker, checkpoints.
inline constexpr size_t kMaxWorkerRounds = 1024;
inline constexpr size_t kMaxListedCheckpoints = 1000;
// Evaluations kept for status, and in one heartbeat.
inline constexpr int kMaxEvaluations = 64;
inline constexpr int kMaxEvaluationsPerHeartbeat = 16;

// From the disk's refusal (full, read-only) until it is asked again: the first time, and the longest.
inline constexpr absl::Duration kFirstDiskRetry = absl::Milliseconds(500);
inline constexpr absl::Duration kLongestDiskRetry = absl::Seconds(15);

// Deadline of each unary call, and of a stream that makes no progress.
inline constexpr absl::Duration kCallDeadline = absl::Seconds(20);
inline constexpr absl::Duration kStreamProgressDeadline = absl::Seconds(60);
// From the signal to stop until a worker's checkpoint is written.
inline constexpr absl::Duration kSuspendDeadline = absl::Minutes(10);
// From the signal to stop until calls that are still open are cancelled.
inline constexpr absl::Duration kDrainDeadline = absl::Seconds(10);

}  // namespace diloco
