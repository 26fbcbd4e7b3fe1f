#include "tests/sim/check/memory_bound.h"

#include <algorithm>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/codec/codec.h"
#include "common/outer/outer_optimizer.h"

namespace diloco::sim {
namespace {

// What one of each costs besides the bytes of tensors in it: objects, nodes, names, messages.
constexpr int64_t kCoordinator = 48 << 10;
constexpr int64_t kWorker = 20 << 10;
constexpr int64_t kMember = 6 << 10;        // With its session, its streams and its progress.
constexpr int64_t kContribution = 1 << 10;  // Known of one: its entry, its place in a round, its settled line.
constexpr int64_t kDelta = 3 << 10;         // A global delta as messages, as parsed, and in the round log.
constexpr int64_t kSettledLine = 512;       // Of that, for each contribution that it settles.
constexpr int64_t kChunk = 512;             // Of an upload, on its way in or out.
constexpr int64_t kEvaluation = 256;
constexpr int64_t kChange = 8 << 10;       // Of the settings, which are kept as they are after each.
constexpr int64_t kCheckpoint = 16 << 10;  // With the run's settings as text.
// Of UploadMachine: in flight on one stream.
constexpr int64_t kWindowChunks = 64;

// The sizes that the terms are made of.
struct Sizes {
  Sizes(const RunConfig& config, const Layout& layout, const ClusterSize& size)
      : workers(size.workers),
        changes(size.changes),
        fragments(layout.fragment_count()),
        open_rounds(config.OpenRounds()) {
    const Codec& uplink = *FindCodec(config.wire.uplink);
    const Codec& downlink = *FindCodec(config.wire.downlink);
    for (const FragmentRange& fragment : layout.fragments()) {
      up += static_cast<int64_t>(uplink.encoded_bytes(static_cast<uint64_t>(fragment.count)));
      down += static_cast<int64_t>(downlink.encoded_bytes(static_cast<uint64_t>(fragment.count)));
    }
    parameters = layout.element_count() * static_cast<int64_t>(sizeof(float));
    consensus = parameters * (1 + FindOuterOptimizer(config.outer.optimizer)->state_arrays);
    // Since the snapshot before the newest, while the next one is written; longer for who still reads an older one.
    retained_rounds = std::min<int64_t>(size.rounds, 3 * config.rounds.snapshot_every + kMaxCatchUpRounds);
  }
  // Of one fragment in that many rounds. A contribution settles in the round after it came in, or earlier.
  int64_t SettledLines(int64_t rounds) const {
    return std::min(workers * open_rounds * rounds, workers * (rounds + open_rounds));
  }
  // Of all uploads at once, on one connection.
  int64_t ChunksInFlight(int64_t chunk_bytes) const {
    return std::min(kWindowChunks, fragments * open_rounds * (1 + up / std::max<int64_t>(1, chunk_bytes)));
  }
  int64_t workers;
  int64_t changes;
  int64_t fragments;
  int64_t open_rounds;
  int64_t up = 0;    // Encoded, all fragments.
  int64_t down = 0;  // Likewise.
  int64_t parameters = 0;
  int64_t consensus = 0;
  int64_t retained_rounds = 0;
};

}  // namespace

std::vector<HeldThing> CoordinatorBound(const RunConfig& config, const Layout& layout, const ClusterSize& size) {
  const Sizes sizes(config, layout, size);
  const int64_t contributions = sizes.workers * sizes.open_rounds * sizes.fragments;
  const int64_t chunk = std::min(static_cast<int64_t>(size.chunk_bytes), sizes.up);
  return {
      {"the process", kCoordinator},
      {"members", sizes.workers * kMember},
      {"staged: workers x open rounds x (encoded + known of each)",
       sizes.workers * sizes.open_rounds * sizes.up + contributions * kContribution},
      {"checks and merges: decoded, twice, of each fragment", 4 * sizes.parameters},
      {"chunks that came in at once: workers x connections x window",
       sizes.workers * config.wire.connections * sizes.ChunksInFlight(chunk) * (chunk + kChunk)},
      {"retained: rounds x fragments x (encoded average, twice, + settled lines)",
       sizes.retained_rounds * (2 * sizes.down + sizes.fragments * kDelta) +
           sizes.fragments * sizes.SettledLines(sizes.retained_rounds) * kSettledLine},
      {"subscribers' queues", sizes.workers * static_cast<int64_t>(size.subscriber_queue_bytes)},
      {"the consensus: itself, as seeded, in a snapshot, in a checkpoint", 4 * sizes.consensus},
      {"snapshots for readers", sizes.workers * sizes.consensus},
      {"evaluations", kMaxEvaluations * kEvaluation},
      {"changes of the settings", sizes.changes * kChange},
  };
}

std::vector<HeldThing> WorkerBound(const RunConfig& config, const Layout& layout, const ClusterSize& size) {
  const Sizes sizes(config, layout, size);
  const int64_t own = sizes.open_rounds * sizes.fragments;
  const int64_t chunk = std::min(static_cast<int64_t>(size.chunk_bytes), sizes.up);
  return {
      {"the process", kWorker},
      {"the model in training: as the trainer has it, twice, theta, anchors, one outer gradient", 8 * sizes.parameters},
      {"the consensus: public, private, staged, to be evaluated, from a snapshot", 8 * sizes.consensus},
      {"unsettled: open rounds x (encoded + decoded)",
       sizes.open_rounds * (2 * sizes.up + 2 * sizes.parameters) + own * 2 * kContribution},
      {"averages that are held back: open rounds x encoded",
       2 * (sizes.open_rounds + 1) * sizes.down +
           sizes.fragments *
               ((sizes.open_rounds + 1) * kDelta + sizes.SettledLines(sizes.open_rounds + 1) * kSettledLine)},
      {"a checkpoint, being written or read: the model and the consensus once more, and what is unsettled",
       kCheckpoint + 6 * sizes.parameters + 4 * sizes.consensus +
           sizes.open_rounds * (2 * sizes.up + sizes.parameters) + own * kContribution},
      {"uploads: connections x window", config.wire.connections * sizes.ChunksInFlight(chunk) * kChunk},
      {"changes of the settings", sizes.changes * kChange},
  };
}

int64_t TotalBytes(const std::vector<HeldThing>& held) {
  int64_t bytes = 0;
  for (const HeldThing& thing : held) bytes += thing.bytes;
  return bytes;
}

std::string DescribeBound(const std::vector<HeldThing>& held) {
  std::string text;
  for (const HeldThing& thing : held) absl::StrAppendFormat(&text, "%10d  %s\n", thing.bytes, thing.what);
  return text;
}

}  // namespace diloco::sim
