// What of a run's configuration may change in mid-run, and which values hold in which round. The coordinator, every
// worker and whoever replays the journal build the same RunSettings from the same file and changes, and so come to the
// same rate for the same step.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/config/run_config.h"

namespace diloco {

// As in the configuration file: "outer.rate" and "0.2".
struct Setting {
  std::string key;
  std::string value;
  friend bool operator==(const Setting&, const Setting&) = default;
};

// See RunChange in proto/diloco/v1/types.proto.
struct RunChange {
  int64_t from_round = 0;
  std::vector<Setting> settings;
  friend bool operator==(const RunChange&, const RunChange&) = default;
};

// Where a setting's new value begins to hold.
enum class Reach {
  kByRound,  // In rounds from RunChange::from_round on: rates, which workers must agree on step by step.
  kAtOnce,   // For everything that is not over: rules of the coordinator, and when to evaluate.
};

inline constexpr std::string_view kLengthKey = "run.rounds";

// What `run set` takes: kLengthKey, which has verbs of its own, is not among them.
std::vector<std::string> ChangeableKeys();
// Errors, kInvalidArgument: not one of ChangeableKeys() or kLengthKey; the message names those.
absl::StatusOr<Reach> ReachOf(std::string_view key);

// `config` with these values in the place of its own. Errors, kInvalidArgument, one sentence: as of ReachOf; a key
// twice; a value out of range, or one that contradicts the others.
absl::StatusOr<RunConfig> WithSettings(const RunConfig& config, absl::Span<const Setting> settings);

// Every setting that may change, kLengthKey among them, and has a meaning in `config`, with its value there.
std::vector<Setting> CurrentSettings(const RunConfig& config);
// Those of them whose value in `is` is another than in `was`.
std::vector<Setting> DifferingSettings(const RunConfig& was, const RunConfig& is);

// The first round that no worker can have begun to train in while every fragment of the layout, whose offsets these are
// (FragmentOffsets), has published the averages of `published` rounds at most.
int64_t FirstRoundNotBegun(const RunConfig& config, absl::Span<const int64_t> offsets, int64_t published);

class RunSettings {
 public:
  // As the file says. (Implicit: it is a run to which nothing has happened.)
  RunSettings(const RunConfig& config);  // NOLINT(google-explicit-constructor)
  // Errors, kInvalidArgument: as of WithSettings.
  static absl::StatusOr<RunSettings> Make(const RunConfig& config, std::vector<RunChange> changes);

  // With every change: what holds at once, and the run's length.
  const RunConfig& newest() const { return phases_.back().config; }
  // With the changes that hold in `round`, >= 0: for rates, and the length that the inner schedule runs over.
  const RunConfig& At(int64_t round) const;
  // As they were made.
  const std::vector<RunChange>& changes() const { return changes_; }

 private:
  struct Phase {
    int64_t from_round = 0;
    RunConfig config;
  };
  std::vector<RunChange> changes_;
  std::vector<Phase> phases_;  // from_round ascends; the first one's is 0 or it is the file's.
};

// The file with the newest values written into it; without changes, the file itself. `file_yaml` is what `settings`
// were made of. Comments are lost.
std::string EffectiveYaml(const std::string& file_yaml, const RunSettings& settings);

}  // namespace diloco
