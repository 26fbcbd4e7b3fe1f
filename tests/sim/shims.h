// Rules broken on purpose, at the seams between the nodes of a simulated cluster, to see that the checkers find it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace diloco::sim {

enum class Shim {
  kNone,
  kPublishBeforeSync,  // Syncs of the journal say OK and do nothing.
  kUncommittedState,   // Subscribers are sent what is being written to the journal, before it is synced.
  kCountDuplicate,     // The bytes of a contribution are taken again, as that of the next round.
  kForgetIncarnation,  // Late bytes of a process that was replaced are taken for its successor's.
  kSettledListDrops,   // A line of the settled list is left out.
  kSettledListAdds,    // A line is there that nobody settled.
  kShortGrace,         // The coordinator waits half as long for the rest of a round.
  kKeepDownloads,      // Workers keep every message of a global delta that they are sent.
  kForgetHeld,         // A coordinator that has lost its disk is not told what workers hold.
};

struct NamedShim {
  std::string_view name;
  Shim shim;
};
inline constexpr NamedShim kShims[] = {
    {"publish-before-sync", Shim::kPublishBeforeSync},
    {"uncommitted-state", Shim::kUncommittedState},
    {"count-duplicate", Shim::kCountDuplicate},
    {"forget-incarnation", Shim::kForgetIncarnation},
    {"settled-list-drops", Shim::kSettledListDrops},
    {"settled-list-adds", Shim::kSettledListAdds},
    {"keep-downloads", Shim::kKeepDownloads},
    {"short-grace", Shim::kShortGrace},
    {"forget-held", Shim::kForgetHeld},
};

// What the settled-list shims make of the messages of global deltas, in their order: the list changed, and the commit
// record with it, so that nothing but the truth is missing.
class SettledLie {
 public:
  std::string Tell(Shim shim, std::string_view message);

 private:
  std::string digest_;  // Of the list that was changed last.
  uint32_t merged_count_ = 0;
};

}  // namespace diloco::sim
