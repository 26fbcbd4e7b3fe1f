// The run's configuration: one YAML file, read by the coordinator and handed verbatim to every worker at join. It is
// the only place for model, inner, outer, wire and round settings; flags hold what differs by machine.
//
// Every struct below is plain data, filled and checked by ParseRunConfig; defaults are written here, but for those that
// the method (common/outer/method.h) or the outer optimizer (common/outer/outer_optimizer.h) has in its row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/base/digest.h"
#include "common/layout/cut_rule.h"

namespace diloco {

struct RunSection {
  std::string id;      // Required. See ValidateName.
  int workers = 0;     // Required. Round 0 opens when this many have joined. [1, kMaxWorkers].
  int64_t rounds = 0;  // Required. Outer steps of the run. [1, 1e9].
  uint64_t seed = 1;   // Of initial parameters and data order.
};

// lambda: how much of its own, not yet averaged contribution a worker looks ahead with (method `eager`).
struct LookaheadSection {
  // A number, [0, 4]; default 1, with which a worker expects of the average what it sends itself. Or `share` (nullopt),
  // own weight / participating weight, as published. tests/quality/RESULTS.md compares them.
  std::optional<double> lambda = 1.0;
  bool shared_momentum = false;  // `momentum: own` (default, the published method) or `shared`.
};

// alpha: how much of its own contributions a worker steps on in place of averages (method `blend`).
struct BlendSection {
  double alpha = 0.5;  // [0, 1].
};

enum class Weights { kUniform, kByTokens };

// Defaults that are not here: the optimizer's presets. A number that the optimizer has no preset for is not a key, and
// 0. With `data-parallel` rate, betas and epsilon are not keys: they are those of `inner`.
struct OuterSection {
  std::string optimizer = "nesterov";  // A name of common/outer/outer_optimizer.h; default by method.
  double rate = 0;                     // (0, 10].
  double momentum = 0;                 // [0, 1).
  double beta1 = 0;                    // [0, 1).
  double beta2 = 0;                    // [0, 1).
  double epsilon = 0;                  // (0, 1].
  // Of a contribution in the average: 1 (`uniform`), or the tokens that the worker trained on for it (`tokens`).
  Weights weights = Weights::kUniform;
};

enum class InnerAlgorithm { kAdamW, kSgd };

struct InnerSection {
  InnerAlgorithm optimizer = InnerAlgorithm::kAdamW;  // `adamw`; or `sgd`, plain, with none of what says AdamW below.

  double rate = 1e-3;          // Peak learning rate, (0, 1].
  double final_ratio = 0.05;   // The cosine ends at rate * final_ratio, [0, 1].
  int64_t warmup_steps = 100;  // Linear from 0. [0, 1e9].
  double beta1 = 0.9;          // AdamW. [0, 1).
  double beta2 = 0.99;         // AdamW. [0, 1).
  double epsilon = 1e-8;       // AdamW. (0, 1].
  double weight_decay = 0.1;   // AdamW. Decoupled, on tensors whose decay flag is set. [0, 1].
  double clip = 1.0;           // Global gradient norm; 0 turns clipping off. [0, 1e6].
  int batch_size = 16;         // Sequences in one inner step of one worker. [1, 65536].
  int accumulation = 1;        // Micro-batches that batch_size is cut into; divides it. [1, 4096].
};

enum class Precision { kFp32, kBf16 };

// Decoder-only transformer: pre-norm, rotary positions, QK-norm, no biases.
struct ModelSection {
  int layers = 0;        // Required. [1, 1024].
  int width = 0;         // Required; divisible by 2 * heads. [2, 65536].
  int heads = 0;         // Required. [1, 1024].
  int ffn = 0;           // Hidden width of the feed-forward block; default 4 * width. [1, 262144].
  int vocabulary = 256;  // 256 for bytes. [2, 65536].
  int sequence = 0;      // Required. Tokens a sequence. [1, 131072].
  double z_loss = 1e-4;  // Coefficient of the squared log-partition. [0, 1].
  // Of the products of matrices, `fp32` or `bf16`. Parameters, norms, softmax, loss and optimizer stay float32.
  Precision precision = Precision::kFp32;
};

// How the model is cut into fragments, and when each of them sends: fragment f ends its rounds offsets[f] inner steps
// after those of offset 0.
struct FragmentsSection {
  // One of three ways: `count: 8` (the default, but for `streaming`), `layers_each: 3` (the default of `streaming`;
  // with `pattern: strided` or `sequential`), or `layers: [[0, 2], [1, 3]]`. See CutRule.
  CutRule cut;
  // `together`: all at once (the default, but for `streaming`). `spread`: fragment f of P at f * inner_steps / P (the
  // default of `streaming`). "": `offset_list`, one of [0, inner_steps) for each fragment.
  std::string offsets = "together";
  std::vector<int64_t> offset_list;

  friend bool operator==(const FragmentsSection&, const FragmentsSection&) = default;
};

// Method `streaming`.
struct StreamingSection {
  double mixing = 0.5;  // theta becomes mixing * theta + (1 - mixing) * consensus on receipt. [0, 1].
};

// Where what a codec loses is added to what it encodes next.
enum class FeedbackLinks { kNone, kUplink, kDownlink, kBoth };

struct WireSection {
  std::string uplink = "e3m0";       // Codec of contributions: a name of common/codec/codec.h.
  std::string downlink = "int8";     // Codec of global deltas.
  bool stochastic_rounding = false;  // `rounding: nearest` (default) or `stochastic`, in both.
  // `none` (default), `uplink`, `downlink` or `both`; common/codec/error_feedback.h.
  FeedbackLinks error_feedback = FeedbackLinks::kNone;
  int connections = 1;                  // Bulk connections of a worker. [1, 16].
  int64_t upload_bytes_per_second = 0;  // Cap of a worker's uploads, which control traffic never shares. 0: none.

  bool uplink_feedback() const {
    return error_feedback == FeedbackLinks::kUplink || error_feedback == FeedbackLinks::kBoth;
  }
  bool downlink_feedback() const {
    return error_feedback == FeedbackLinks::kDownlink || error_feedback == FeedbackLinks::kBoth;
  }
};

enum class LatePolicy { kMerge, kDrop };

struct RoundsSection {
  int quorum = 0;  // Default: run.workers. [1, run.workers].
  // After quorum, for the rest. [0 s, 24 h]. Or `adaptive` (nullopt): the median of what earlier rounds had to wait
  // plus three times their spread, coordinator/round/arrivals.h; then [grace_floor, grace_cap], and the cap until
  // enough rounds are known.
  std::optional<absl::Duration> grace_window = absl::Seconds(30);
  absl::Duration grace_floor = absl::Seconds(1);  // Only with `adaptive`, as grace_cap. [0 s, 24 h].
  absl::Duration grace_cap = absl::Minutes(2);    // >= grace_floor. [0 s, 24 h].
  // After a round's opening (with overlap that is some rounds before its work begins): it closes then at the latest, if
  // the quorum is met, whatever the grace window says. [100 ms, 24 h], or `none` (nullopt).
  std::optional<absl::Duration> timeout;
  LatePolicy late = LatePolicy::kMerge;                  // `merge`: into the next open round; or `drop`.
  absl::Duration heartbeat_interval = absl::Seconds(2);  // [10 ms, 1 h].
  absl::Duration lease = absl::Seconds(20);              // >= 3 * heartbeat_interval. [100 ms, 24 h].
  int64_t snapshot_every = 10;                           // Rounds between snapshots. [1, 64].
};

struct EvalSection {
  int64_t every = 0;       // Rounds between held-out evaluations; 0: only at the end. [0, 1e9].
  int sequences = 64;      // Sequences of held-out text in one evaluation. [1, 1e6].
  double held_out = 0.05;  // Last share of each worker's data that is never trained on, [0, 0.5].
};

struct RunConfig {
  RunSection run;
  std::string method = "eager";  // A name of common/outer/method.h.
  int64_t inner_steps = 30;      // H. [1, 1e6]; 1, and nothing else, for `data-parallel`.
  int64_t overlap =
      0;             // Inner steps, by method: 0; [0, H), default 1; or a multiple of H, up to kMaxOverlapRounds * H.
  int max_late = 0;  // Rounds; default by method: 1 for `eager`, else 0 and nothing else. [0, kMaxLate].
  LookaheadSection lookahead;
  StreamingSection streaming;
  BlendSection blend;
  OuterSection outer;
  InnerSection inner;
  std::optional<ModelSection> model;  // Needed by diloco-worker; absent for other trainers.
  FragmentsSection fragments;
  WireSection wire;
  RoundsSection rounds;
  EvalSection eval;

  // Rounds of one fragment that may be open at once: overlap / inner_steps + max_late + 1.
  int64_t OpenRounds() const { return overlap / inner_steps + max_late + 1; }
  // At every boundary each worker must have all averages and every worker is waited for, so runs repeat bit for bit.
  bool FixedSchedule() const { return max_late == 0 && rounds.quorum == run.workers; }
};

// Parses and checks a whole file. `source` names it in errors, such as "run.yaml".
// Errors, kInvalidArgument: `source:line:column: what is wrong; what to do` (columns are bytes, from 1), for a syntax
// error, an unknown or repeated key (naming both lines), a merge key `<<`, a value of the wrong type or out of range, a
// required key that is absent, keys that contradict each other (such as `max_late` with `diloco`, `lookahead` with
// anything but `eager`).
absl::StatusOr<RunConfig> ParseRunConfig(std::string_view yaml, std::string_view source);

// Offset of each of a layout's `count` fragments, inner steps in [0, inner_steps).
// Errors, kInvalidArgument: a list of another length.
absl::StatusOr<std::vector<int64_t>> FragmentOffsets(const RunConfig& config, int count);

// Every setting, defaults filled in, as one `section.key=value` line each, in a fixed order.
std::string CanonicalSettings(const RunConfig& config);

// Digest of the configuration's meaning: defaults filled in, comments and order of keys without effect.
Digest ConfigDigest(const RunConfig& config);

}  // namespace diloco
