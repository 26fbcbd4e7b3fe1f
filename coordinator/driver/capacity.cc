#include "coordinator/driver/capacity.h"

#include <cstdint>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/codec/codec.h"

namespace diloco {
namespace {

uint64_t EncodedBytes(const Codec& codec, const Layout& layout) {
  uint64_t bytes = 0;
  for (const FragmentRange& fragment : layout.fragments()) {
    bytes += codec.encoded_bytes(static_cast<uint64_t>(fragment.count));
  }
  return bytes;
}

// At most so much of one message goes to a contribution that it lists: in the end record, or in a round's description.
constexpr uint64_t kListedContributionBytes = 200;

}  // namespace

absl::Status CheckCapacity(const RunConfig& config, const Layout& layout) {
  const uint64_t up = EncodedBytes(*FindCodec(config.wire.uplink), layout);
  const auto workers = static_cast<uint64_t>(config.run.workers);
  const auto rounds = static_cast<uint64_t>(config.OpenRounds());
  if (up * workers * rounds > kMaxStagedBytes) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "a model of %d parameters is too large for this run: %d workers x %d open rounds x %d bytes of %s are more "
        "than the %d bytes that the coordinator stages; use an uplink codec of fewer bits, fewer workers, or less "
        "overlap or max_late",
        layout.element_count(), workers, rounds, up, config.wire.uplink, kMaxStagedBytes));
  }
  const uint64_t down = EncodedBytes(*FindCodec(config.wire.downlink), layout);
  if (2 * down > kMaxSubscriberQueueBytes) {
    return absl::FailedPreconditionError(
        absl::StrFormat("a model of %d parameters is too large for this run: two rounds of %d bytes of %s are more "
                        "than the %d bytes that wait for one subscriber; use a downlink codec of fewer bits",
                        layout.element_count(), down, config.wire.downlink, kMaxSubscriberQueueBytes));
  }
  const auto fragments = static_cast<uint64_t>(layout.fragment_count());
  if (workers * rounds * fragments * kListedContributionBytes > uint64_t{kMaxMessageBytes}) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%d workers x %d open rounds x %d fragments are more contributions than one message of %d bytes can list; use "
        "fewer fragments, fewer workers, or less overlap or max_late",
        workers, rounds, fragments, kMaxMessageBytes));
  }
  return absl::OkStatus();
}

}  // namespace diloco
