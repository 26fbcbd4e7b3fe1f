#include "worker/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"
#include "common/layout/layout_proto.h"
#include "common/outer/method.h"
#include "common/outer/outer_optimizer.h"
#include "common/outer/step_scalars_proto.h"

namespace diloco {
namespace {

std::string FragmentSection(size_t fragment, const std::string& name) { return absl::StrCat(fragment, "/", name); }
std::string StateSection(const std::string& consensus, size_t array) {
  return absl::StrCat(consensus, "/state/", array);
}
std::string EncodedSection(int fragment, int64_t round) {
  return absl::StrFormat("%s%d/%d", kEncodedSection, fragment, round);
}

// ---- Describing ----

class Describer {
 public:
  explicit Describer(CheckpointContent* content) : content_(*content) {}

  void Add(const std::string& name, absl::Span<const float> values) {
    Add(name, std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  }
  void Add(const std::string& name, std::string_view bytes) {
    v1::CheckpointRecord::Section* section = content_.record.add_sections();
    section->set_name(name);
    section->set_bytes(bytes.size());
    content_.sections.push_back(bytes);
  }
  void Add(const std::string& name, const Consensus& consensus) {
    Add(name, consensus.parameters());
    for (size_t i = 0; i < consensus.state().size(); ++i) Add(StateSection(name, i), consensus.state()[i]);
  }

 private:
  CheckpointContent& content_;
};

void DescribeFragment(size_t f, const TrainingState& training, const SyncState::Fragment& fragment,
                      v1::CheckpointRecord::FragmentRecord* record, Describer* describer) {
  const ReplicaState::Fragment& replica = training.replica.fragments[f];
  if (replica.next) {
    record->mutable_next()->set_step(replica.next->step);
    record->mutable_next()->set_round(replica.next->round);
    record->mutable_next()->set_takes(replica.next->takes);
    record->mutable_next()->set_sets(replica.next->sets);
  }
  record->set_weighed_tokens(replica.weighed);
  record->set_version(training.progress[f].version);
  record->set_published(training.progress[f].published);
  record->set_next_set(fragment.stop);
  record->set_consensus_version(fragment.outer.consensus.version());
  *record->mutable_next_scalars() = StepScalarsToProto(fragment.outer.next_scalars);
  record->set_own_weight(fragment.outer.own_weight.value_or(0));
  describer->Add(FragmentSection(f, "consensus"), fragment.outer.consensus);
  if (fragment.outer.private_consensus) {
    record->set_has_private(true);
    record->set_private_version(fragment.outer.private_consensus->version());
    describer->Add(FragmentSection(f, "private"), *fragment.outer.private_consensus);
  }
  describer->Add(FragmentSection(f, "own_momentum"), absl::MakeConstSpan(fragment.outer.own_momentum));
  if (!fragment.residual.empty()) {
    record->set_has_residual(true);
    describer->Add(FragmentSection(f, "residual"), absl::MakeConstSpan(fragment.residual));
  }
  for (const OwnContribution& own : fragment.outer.unsettled) {
    v1::CheckpointRecord::OwnRecord* added = record->add_unsettled();
    added->set_round(own.round);
    added->mutable_digest()->set_value(own.digest.Bytes());
    added->set_lambda(own.lambda);
    describer->Add(FragmentSection(f, absl::StrCat("unsettled/", own.round)), absl::MakeConstSpan(own.decoded));
  }
}

void DescribeOwner(const CheckpointOwner& owner, v1::CheckpointRecord* record) {
  record->set_run_id(owner.config->run.id);
  record->set_worker_id(owner.worker_id);
  record->set_incarnation(owner.incarnation);
  record->set_generation(owner.generation);
  record->set_software_version(DILOCO_VERSION);
  record->mutable_layout_digest()->set_value(owner.layout->digest().Bytes());
  *record->mutable_tensors() = TensorSpecsToProto(owner.layout->tensors());
  record->set_settings(CanonicalSettings(*owner.config));
  record->mutable_config_digest()->set_value(ConfigDigest(*owner.config).Bytes());
}

// ---- Checking ----

// Prefixes of the settings that a checkpoint depends on.
constexpr std::array<std::string_view, 14> kFixedSettings = {
    "run.id=",          "run.seed=",           "method=",          "inner_steps=", "overlap=", "lookahead.momentum",
    "outer.optimizer=", "outer.weights=",      "inner.optimizer=", "fragments.",   "model.",   "wire.uplink=",
    "wire.downlink=",   "wire.error_feedback="};

struct SettingChange {
  std::string key;
  std::string before;
  std::string now;
  bool fixed = false;
};

std::map<std::string, std::string> ParseSettings(const std::string& text) {
  std::map<std::string, std::string> settings;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    if (equals != std::string::npos) settings[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return settings;
}

// Numbers are written in hex, so that none is rounded.
std::string Readable(const std::string& value) {
  const bool hex = value.starts_with("0x") || value.starts_with("-0x");
  return hex ? absl::StrFormat("%.9g", std::strtod(value.c_str(), nullptr)) : value;
}

std::vector<SettingChange> CompareSettings(const CheckpointOwner& owner, const v1::CheckpointRecord& record) {
  std::map<std::string, std::string> before = ParseSettings(record.settings());
  const std::map<std::string, std::string> now = ParseSettings(CanonicalSettings(*owner.config));
  for (const auto& [key, value] : now) before.try_emplace(key, "");  // Of a section that was absent.
  std::vector<SettingChange> changes;
  for (const auto& [key, value] : before) {
    const auto found = now.find(key);
    SettingChange change{.key = key, .before = value, .now = found == now.end() ? "" : found->second};
    if (change.before == change.now) continue;
    const std::string line = key + "=";
    change.fixed = std::any_of(kFixedSettings.begin(), kFixedSettings.end(),
                               [&line](std::string_view prefix) { return line.starts_with(prefix); });
    changes.push_back(std::move(change));
  }
  return changes;
}

absl::Status LayoutError(const CheckpointOwner& owner, const v1::CheckpointRecord& record) {
  const std::vector<TensorSpec> theirs = TensorSpecsFromProto(record.tensors());
  const absl::Span<const TensorSpec> ours = owner.layout->tensors();
  std::string what = absl::StrFormat("it has %d tensors and the model %d", theirs.size(), ours.size());
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (ours[i] == theirs[i]) continue;
    what = absl::StrFormat("its tensor \"%s\" is not the model's \"%s\" in name, shape, layer or decay", theirs[i].name,
                           ours[i].name);
    break;
  }
  if (std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end())) what = "it is cut into other fragments";
  return absl::FailedPreconditionError(
      absl::StrFormat("the checkpoint is of another model: %s; use a folder of its own for each run", what));
}

// ---- Restoring ----

class Restorer {
 public:
  Restorer(const CheckpointOwner& owner, LoadedCheckpoint* loaded) : owner_(owner), loaded_(*loaded) {}

  absl::StatusOr<std::vector<float>> Array(const std::string& name, size_t size) {
    const auto found = loaded_.arrays.find(name);
    if (found == loaded_.arrays.end() || found->second.size() != size) {
      return absl::FailedPreconditionError(
          absl::StrFormat("the checkpoint's array \"%s\" has %d elements and should have %d", name,
                          found == loaded_.arrays.end() ? 0 : found->second.size(), size));
    }
    std::vector<float> values = std::move(found->second);
    loaded_.arrays.erase(found);
    return values;
  }

  absl::StatusOr<Consensus> RestoreConsensus(int fragment, const std::string& name, int64_t version) {
    const OuterOptimizer* optimizer = FindOuterOptimizer(owner_.config->outer.optimizer);
    DILOCO_ASSIGN_OR_RETURN(std::vector<float> parameters, Array(name, Size(fragment)));
    std::vector<std::vector<float>> state;
    for (int i = 0; i < optimizer->state_arrays; ++i) {
      DILOCO_ASSIGN_OR_RETURN(state.emplace_back(), Array(StateSection(name, static_cast<size_t>(i)), Size(fragment)));
    }
    return Consensus(optimizer, version, std::move(parameters), std::move(state),
                     owner_.layout->DecayedRanges(fragment));
  }

  absl::StatusOr<FragmentOuter::State> Outer(int fragment, const v1::CheckpointRecord::FragmentRecord& record) {
    const auto f = static_cast<size_t>(fragment);
    const Method& method = *FindMethod(owner_.config->method);
    const bool is_private = method.after == AfterBoundary::kPrivateLookahead;
    const bool own_momentum = is_private || (LooksAhead(method) && !owner_.config->lookahead.shared_momentum);
    DILOCO_ASSIGN_OR_RETURN(Consensus consensus,
                            RestoreConsensus(fragment, FragmentSection(f, "consensus"), record.consensus_version()));
    FragmentOuter::State state{.consensus = std::move(consensus),
                               .next_scalars = StepScalarsFromProto(record.next_scalars())};
    DILOCO_RETURN_IF_ERROR(ValidateStepScalars(state.next_scalars));
    if (is_private) {
      DILOCO_ASSIGN_OR_RETURN(state.private_consensus,
                              RestoreConsensus(fragment, FragmentSection(f, "private"), record.private_version()));
    }
    if (record.own_weight() > 0) state.own_weight = record.own_weight();
    DILOCO_ASSIGN_OR_RETURN(state.own_momentum,
                            Array(FragmentSection(f, "own_momentum"), own_momentum ? Size(fragment) : 0));
    for (const auto& own : record.unsettled()) {
      DILOCO_ASSIGN_OR_RETURN(std::vector<float> decoded,
                              Array(FragmentSection(f, absl::StrCat("unsettled/", own.round())), Size(fragment)));
      state.unsettled.push_back(
          {own.round(), Digest::FromBytes(own.digest().value()), own.lambda(), std::move(decoded)});
    }
    return state;
  }

  absl::StatusOr<SyncState::Contribution> Contribution(const v1::CheckpointRecord::HeldContribution& record) {
    const int fragment = static_cast<int>(record.fragment());
    const std::string name = EncodedSection(fragment, record.round());
    const auto found = loaded_.bytes.find(name);
    const Codec& codec = *FindCodec(owner_.config->wire.uplink);
    if (fragment >= owner_.layout->fragment_count() || found == loaded_.bytes.end() ||
        found->second.size() != codec.encoded_bytes(Size(fragment)) || !(record.weight() > 0)) {
      return absl::FailedPreconditionError(
          absl::StrFormat("the checkpoint's section \"%s\" is not a contribution of this run", name));
    }
    return SyncState::Contribution{fragment, record.round(), record.weight(), std::move(found->second)};
  }

  // What is left is the trainer's.
  TrainerState Trainer() {
    constexpr std::string_view kPrefix = "trainer/";
    TrainerState state;
    for (auto& [name, values] : loaded_.arrays) {
      state.arrays.emplace(name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name, std::move(values));
    }
    for (const auto& [name, count] : loaded_.record.trainer_counts()) state.counts[name] = count;
    return state;
  }

  size_t Size(int fragment) const {
    return static_cast<size_t>(owner_.layout->fragments()[static_cast<size_t>(fragment)].count);
  }

 private:
  const CheckpointOwner& owner_;
  LoadedCheckpoint& loaded_;
};

absl::Status RestoreFragment(int f, const v1::CheckpointRecord::FragmentRecord& record, Restorer* restorer,
                             WorkerCheckpoint* checkpoint) {
  ReplicaState::Fragment& replica = checkpoint->training.replica.fragments.emplace_back();
  if (record.has_next()) {
    replica.next = Stop{record.next().step(), record.next().round(), record.next().takes(), record.next().sets()};
  }
  replica.weighed = record.weighed_tokens();
  checkpoint->training.progress.push_back({record.version(), record.published()});
  DILOCO_ASSIGN_OR_RETURN(FragmentOuter::State outer, restorer->Outer(f, record));
  SyncState::Fragment& fragment =
      checkpoint->sync.fragments.emplace_back(SyncState::Fragment{std::move(outer), record.next_set(), {}});
  if (record.has_residual()) {
    DILOCO_ASSIGN_OR_RETURN(fragment.residual,
                            restorer->Array(FragmentSection(static_cast<size_t>(f), "residual"), restorer->Size(f)));
  }
  return absl::OkStatus();
}

}  // namespace

CheckpointContent DescribeCheckpoint(const CheckpointOwner& owner, const WorkerCheckpoint& checkpoint) {
  const ReplicaState& replica = checkpoint.training.replica;
  CheckpointContent content;
  v1::CheckpointRecord& record = content.record;
  Describer describer(&content);
  DescribeOwner(owner, &record);
  record.set_first_round(replica.first_round);
  record.set_step(replica.step);
  record.set_tokens(replica.tokens);
  record.set_healed(replica.healed);
  describer.Add("theta", absl::MakeConstSpan(replica.theta));
  describer.Add("anchor", absl::MakeConstSpan(replica.anchor));
  for (const auto& [name, values] : replica.trainer.arrays) {
    describer.Add(absl::StrCat("trainer/", name), absl::MakeConstSpan(values));
  }
  for (const auto& [name, count] : replica.trainer.counts) (*record.mutable_trainer_counts())[name] = count;
  for (size_t f = 0; f < checkpoint.sync.fragments.size(); ++f) {
    DescribeFragment(f, checkpoint.training, checkpoint.sync.fragments[f], record.add_fragments(), &describer);
  }
  for (const SyncState::Contribution& each : checkpoint.sync.contributions) {
    v1::CheckpointRecord::HeldContribution* held = record.add_contributions();
    held->set_fragment(static_cast<uint32_t>(each.fragment));
    held->set_round(each.round);
    held->set_weight(each.weight);
    describer.Add(EncodedSection(each.fragment, each.round), std::string_view(each.encoded));
  }
  for (const RoundAbstention& each : checkpoint.sync.abstentions) {
    v1::Abstention* abstention = record.add_abstentions();
    abstention->set_fragment(static_cast<uint32_t>(each.fragment));
    abstention->set_round(each.round);
    abstention->set_reason(each.reason);
  }
  return content;
}

absl::Status CheckOwner(const CheckpointOwner& owner, const v1::CheckpointRecord& record) {
  if (record.run_id() != owner.config->run.id || record.worker_id() != owner.worker_id) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the checkpoint is of worker \"%s\" in run \"%s\", and this is worker \"%s\" in run \"%s\"; "
                        "use a folder of its "
                        "own for each",
                        record.worker_id(), record.run_id(), owner.worker_id, owner.config->run.id));
  }
  if (record.layout_digest().value() != owner.layout->digest().Bytes()) return LayoutError(owner, record);
  for (const SettingChange& change : CompareSettings(owner, record)) {
    if (!change.fixed) continue;
    return absl::FailedPreconditionError(
        absl::StrFormat("%s is %s in the checkpoint and %s in the run's configuration, and is fixed for a run; remove "
                        "the checkpoint to join afresh",
                        change.key, Readable(change.before), Readable(change.now)));
  }
  return absl::OkStatus();
}

std::vector<std::string> ChangedSettings(const CheckpointOwner& owner, const v1::CheckpointRecord& record) {
  std::vector<std::string> changed;
  for (const SettingChange& change : CompareSettings(owner, record)) {
    changed.push_back(
        absl::StrFormat("%s: %s in the checkpoint, %s now", change.key, Readable(change.before), Readable(change.now)));
  }
  return changed;
}

std::vector<int64_t> NextRounds(const ReplicaState& replica, const RunConfig& config) {
  const int64_t rounds = config.run.rounds;
  std::vector<int64_t> next_rounds;
  for (const ReplicaState::Fragment& fragment : replica.fragments) {
    // A stop that only sets is of a round that is taken, or of one before the worker joined. The run was over where no
    // stop is left, and may have been made longer since.
    const int64_t next = !fragment.next         ? replica.step / config.inner_steps
                         : fragment.next->takes ? fragment.next->round
                                                : std::max(fragment.next->round + 1, replica.first_round);
    next_rounds.push_back(std::min(next, rounds));
  }
  return next_rounds;
}

absl::StatusOr<WorkerCheckpoint> RestoreCheckpoint(const CheckpointOwner& owner, LoadedCheckpoint loaded) {
  const v1::CheckpointRecord& record = loaded.record;
  const int fragments = owner.layout->fragment_count();
  if (record.fragments_size() != fragments || record.step() < 0 || record.first_round() < 0) {
    return absl::FailedPreconditionError(absl::StrFormat("the checkpoint has %d fragments at step %d, the model %d",
                                                         record.fragments_size(), record.step(), fragments));
  }
  Restorer restorer(owner, &loaded);
  WorkerCheckpoint checkpoint;
  checkpoint.generation = record.generation();
  ReplicaState& replica = checkpoint.training.replica;
  replica.first_round = record.first_round();
  replica.step = record.step();
  replica.tokens = record.tokens();
  replica.healed = record.healed();
  const auto elements = static_cast<size_t>(owner.layout->element_count());
  DILOCO_ASSIGN_OR_RETURN(replica.theta, restorer.Array("theta", elements));
  DILOCO_ASSIGN_OR_RETURN(replica.anchor, restorer.Array("anchor", elements));
  for (int f = 0; f < fragments; ++f) {
    DILOCO_RETURN_IF_ERROR(RestoreFragment(f, record.fragments(f), &restorer, &checkpoint));
  }
  for (const auto& each : record.contributions()) {
    DILOCO_ASSIGN_OR_RETURN(checkpoint.sync.contributions.emplace_back(), restorer.Contribution(each));
  }
  for (const v1::Abstention& each : record.abstentions()) {
    checkpoint.sync.abstentions.push_back({static_cast<int>(each.fragment()), each.round(), each.reason()});
  }
  replica.trainer = restorer.Trainer();
  return checkpoint;
}

}  // namespace diloco
