#include "worker/simulate/train_simulator.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/merge/merge.h"
#include "common/outer/method.h"
#include "common/outer/outer_optimizer.h"
#include "common/schedule/outer_schedule.h"
#include "worker/outer/fragment_outer.h"
#include "worker/outer/replica.h"
#include "worker/sync/contribution_store.h"

namespace diloco {
namespace {

double SquaredNorm(absl::Span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

}  // namespace

// One worker: its training thread and its sync thread.
class TrainSimulator::Worker {
 public:
  Worker(SimulatedWorker worker, const RunConfig* config, const Layout* layout)
      : id_(std::move(worker.id)),
        config_(*config),
        layout_(*layout),
        trainer_(std::move(worker.trainer)),
        replica_(config, layout, trainer_.get()),
        store_({.run_id = config->run.id,
                .worker_id = id_,
                .layout_digest = layout->digest(),
                .codec = FindCodec(config->wire.uplink),
                .rounding = {.stochastic = config->wire.stochastic_rounding, .seed = config->run.seed, .sender = id_},
                .error_feedback = config->wire.uplink_feedback(),
                .chunk_bytes = kMaxChunkBytes}) {}

  absl::Status Begin(const std::vector<float>& parameters) {
    for (int f = 0; f < layout_.fragment_count(); ++f) {
      const FragmentRange& range = layout_.fragments()[static_cast<size_t>(f)];
      const auto first = parameters.begin() + range.offset;
      outers_.emplace_back(
          FragmentOuter::Options{.method = FindMethod(config_.method),
                                 .lookahead = config_.lookahead,
                                 .blend = config_.blend,
                                 .next_scalars = ComputeStepScalars(config_, 0, 0, config_.run.workers),
                                 .weights = config_.outer.weights,
                                 .workers = config_.run.workers},
          Consensus(FindOuterOptimizer(config_.outer.optimizer), {first, first + range.count},
                    layout_.DecayedRanges(f)));
    }
    return replica_.Begin(0, parameters);
  }

  absl::Status BeginStops() {
    stops_ = replica_.Stops();
    DILOCO_ASSIGN_OR_RETURN(finite_, replica_.TakeOuterGradients(&stops_));
    lambdas_.assign(stops_.size(), 0);
    return absl::OkStatus();
  }

  // The contribution of a stop that takes, encoded; null when there is none. It is held until Settle.
  const ContributionStore::Contribution* Contribute(size_t stop) {
    const FragmentStop& at = stops_[stop];
    if (!finite_) return nullptr;
    const ContributionStore::Contribution& contribution =
        store_.Add(at.stop.round, at.fragment, at.outer_gradient, at.weight);
    OwnContribution own{.round = at.stop.round, .digest = contribution.digest, .lambda = lambdas_[stop]};
    own.decoded.resize(at.outer_gradient.size());
    store_.options().codec->decode(contribution.encoded, absl::MakeSpan(own.decoded));
    outers_[static_cast<size_t>(at.fragment)].Contribute(std::move(own));
    return &contribution;
  }
  // The weight of its newest contribution that was good counts for the share, also where it has none.
  void NoteWeight(double weight) { weight_ = weight; }
  double weight() const { return weight_; }
  void Settle(size_t stop, bool merged) {
    store_.Settle(stops_[stop].stop.round, stops_[stop].fragment,
                  merged ? ContributionFate::kMerged : ContributionFate::kRefused);
  }

  absl::Status SetTheta(size_t stop) {
    const FragmentOuter::Staged staged = outers_[static_cast<size_t>(stops_[stop].fragment)].Stage();
    lambdas_[stop] = staged.lambda;
    return replica_.SetTheta(stops_[stop], staged, finite_);
  }

  void EndStops() { replica_.Leave(stops_); }

  const std::string& id() const { return id_; }
  Trainer& trainer() { return *trainer_; }
  Replica& replica() { return replica_; }
  const std::vector<FragmentStop>& stops() const { return stops_; }
  FragmentOuter& outer(int fragment) { return outers_[static_cast<size_t>(fragment)]; }

 private:
  const std::string id_;
  const RunConfig& config_;
  const Layout& layout_;
  const std::unique_ptr<Trainer> trainer_;
  Replica replica_;
  ContributionStore store_;
  std::vector<FragmentOuter> outers_;

  std::vector<FragmentStop> stops_;
  std::vector<float> lambdas_;  // By stop, as staged for it.
  bool finite_ = true;
  double weight_ = 1;
};

struct TrainSimulator::Delta {
  StepScalars scalars;
  std::string average;                                // Encoded for the way down.
  std::vector<std::optional<OwnSettlement>> settled;  // By worker; nullopt: it contributed nothing.
};

struct TrainSimulator::Fragment {
  int64_t version = 0;
  std::deque<Delta> held;       // Published, and not yet to be applied.
  std::vector<float> residual;  // Of the downlink's error feedback, where there is any.
};

absl::StatusOr<std::unique_ptr<TrainSimulator>> TrainSimulator::Create(Options options, const RunConfig* config,
                                                                       std::vector<SimulatedWorker> workers) {
  DILOCO_CHECK(static_cast<int>(workers.size()) == config->run.workers);
  DILOCO_ASSIGN_OR_RETURN(Layout layout, Layout::Cut(workers.front().trainer->Tensors(), config->fragments.cut));
  DILOCO_RETURN_IF_ERROR(FragmentOffsets(*config, layout.fragment_count()).status());
  auto simulator = std::unique_ptr<TrainSimulator>(new TrainSimulator(std::move(options), config, std::move(layout)));
  for (SimulatedWorker& worker : workers) {
    worker.trainer->SetLayout(simulator->layout_);
    simulator->workers_.push_back(std::make_unique<Worker>(std::move(worker), config, &simulator->layout_));
  }
  simulator->evaluator_ = simulator->workers_.front().get();
  std::sort(simulator->workers_.begin(), simulator->workers_.end(),
            [](const auto& a, const auto& b) { return a->id() < b->id(); });
  return simulator;
}

TrainSimulator::TrainSimulator(Options options, const RunConfig* config, Layout layout)
    : options_(std::move(options)),
      config_(*config),
      layout_(std::move(layout)),
      uplink_(*FindCodec(config->wire.uplink)),
      downlink_(*FindCodec(config->wire.downlink)),
      fragments_(static_cast<size_t>(layout_.fragment_count())) {
  if (!config_.wire.downlink_feedback()) return;
  for (size_t f = 0; f < fragments_.size(); ++f) {
    fragments_[f].residual.resize(static_cast<size_t>(layout_.fragments()[f].count));
  }
}

TrainSimulator::~TrainSimulator() = default;

absl::Status TrainSimulator::Run() {
  DILOCO_RETURN_IF_ERROR(Begin());
  const Replica& any = evaluator_->replica();
  while (any.step() < any.schedule().steps()) {
    if (options_.interrupt != nullptr && *options_.interrupt) {
      return absl::CancelledError(
          absl::StrFormat("interrupted after %d of %d inner steps", any.step(), any.schedule().steps()));
    }
    DILOCO_RETURN_IF_ERROR(Step());
    DILOCO_RETURN_IF_ERROR(StopFragments());
  }
  return ApplyRest();
}

absl::Status TrainSimulator::Begin() {
  std::vector<float> parameters(static_cast<size_t>(layout_.element_count()));
  DILOCO_RETURN_IF_ERROR(evaluator_->trainer().ReadParameters(0, absl::MakeSpan(parameters)));
  for (const auto& worker : workers_) DILOCO_RETURN_IF_ERROR(worker->Begin(parameters));
  return absl::OkStatus();
}

absl::Status TrainSimulator::Step() {
  for (const auto& worker : workers_) {
    DILOCO_ASSIGN_OR_RETURN(const StepReport report, worker->replica().Step());
    tokens_ += report.tokens;
    loss_sum_ += report.loss;
    ++losses_;
  }
  return absl::OkStatus();
}

absl::Status TrainSimulator::StopFragments() {
  while (!evaluator_->replica().Stops().empty()) {
    DILOCO_RETURN_IF_ERROR(StopTogether());
    DILOCO_RETURN_IF_ERROR(MaybeReport());
  }
  return absl::OkStatus();
}

absl::Status TrainSimulator::StopTogether() {
  for (const auto& worker : workers_) DILOCO_RETURN_IF_ERROR(worker->BeginStops());
  const Replica& any = evaluator_->replica();
  const std::vector<FragmentStop>& stops = evaluator_->stops();
  for (size_t i = 0; i < stops.size(); ++i) {
    const int fragment = stops[i].fragment;
    const Stop& stop = stops[i].stop;
    if (stop.takes && any.GivesFirst()) DILOCO_RETURN_IF_ERROR(Exchange(i));
    if (stop.sets) {
      const int64_t wanted = any.schedule().Plan(stop.round, 0).wanted;
      while (fragments_[static_cast<size_t>(fragment)].version < wanted) DILOCO_RETURN_IF_ERROR(ApplyNext(fragment));
      for (const auto& worker : workers_) DILOCO_RETURN_IF_ERROR(worker->SetTheta(i));
    }
    if (stop.takes && !any.GivesFirst()) DILOCO_RETURN_IF_ERROR(Exchange(i));
  }
  for (const auto& worker : workers_) worker->EndStops();
  return absl::OkStatus();
}

absl::Status TrainSimulator::Exchange(size_t stop) {
  const int fragment = evaluator_->stops()[stop].fragment;
  const Stop& at = evaluator_->stops()[stop].stop;
  const auto elements = static_cast<uint64_t>(layout_.fragments()[static_cast<size_t>(fragment)].count);
  Delta delta;
  std::vector<MergeInput> inputs;
  for (const auto& worker : workers_) {
    std::optional<OwnSettlement>& settled = delta.settled.emplace_back();
    const ContributionStore::Contribution* contribution = worker->Contribute(stop);
    if (contribution == nullptr) continue;
    // Values near float32's end may be more than the codec holds: the coordinator refuses such bytes.
    const bool good = CheckEncoded(uplink_, contribution->encoded, elements).ok();
    settled = {.round = at.round, .digest = contribution->digest, .merged = good};
    if (!good) continue;
    settled->weight = contribution->weight;
    worker->NoteWeight(contribution->weight);
    inputs.push_back({.encoded = contribution->encoded, .weight = contribution->weight});
  }
  Fragment& state = fragments_[static_cast<size_t>(fragment)];
  const RoundingRule rounding{.stochastic = config_.wire.stochastic_rounding, .seed = config_.run.seed};
  DILOCO_ASSIGN_OR_RETURN(MergeResult merged, Merge(inputs, elements, uplink_, downlink_, SerialFor,
                                                    {.rounding = rounding.For(at.round, fragment),
                                                     .residual = absl::MakeSpan(state.residual)}));
  for (size_t m = 0; m < workers_.size(); ++m) {
    if (delta.settled[m]) workers_[m]->Settle(stop, delta.settled[m]->merged);
  }
  double participating = 0;
  for (const auto& worker : workers_) participating += worker->weight();
  delta.scalars = ComputeStepScalars(config_, at.round, merged.norm, participating);
  delta.average = std::move(merged.encoded);
  state.held.push_back(std::move(delta));
  return absl::OkStatus();
}

absl::Status TrainSimulator::ApplyNext(int fragment) {
  Fragment& state = fragments_[static_cast<size_t>(fragment)];
  DILOCO_CHECK(!state.held.empty());
  const Delta& delta = state.held.front();
  std::vector<float> average(static_cast<size_t>(layout_.fragments()[static_cast<size_t>(fragment)].count));
  downlink_.decode(delta.average, absl::MakeSpan(average));
  for (size_t m = 0; m < workers_.size(); ++m) {
    const std::optional<OwnSettlement>& settled = delta.settled[m];
    const absl::Span<const OwnSettlement> own(settled ? &*settled : nullptr, settled ? 1 : 0);
    DILOCO_RETURN_IF_ERROR(workers_[m]->outer(fragment).Apply(delta.scalars, average, own));
  }
  state.held.pop_front();
  ++state.version;
  return absl::OkStatus();
}

absl::Status TrainSimulator::ApplyRest() {
  for (bool applied = true; std::exchange(applied, false);) {
    for (int f = 0; f < layout_.fragment_count(); ++f) {
      if (fragments_[static_cast<size_t>(f)].held.empty()) continue;
      DILOCO_RETURN_IF_ERROR(ApplyNext(f));
      applied = true;
    }
    DILOCO_RETURN_IF_ERROR(MaybeReport());
  }
  return absl::OkStatus();
}

absl::Status TrainSimulator::MaybeReport() {
  const int64_t version = fragments_.front().version;
  const bool common = std::all_of(fragments_.begin(), fragments_.end(),
                                  [version](const Fragment& fragment) { return fragment.version == version; });
  const bool due = version == config_.run.rounds || (config_.eval.every > 0 && version % config_.eval.every == 0);
  if (!common || !due || version <= reported_version_) return absl::OkStatus();
  reported_version_ = version;

  SimulationReport report{.version = version, .step = evaluator_->replica().step(), .tokens = tokens_};
  std::vector<float> parameters;
  for (int f = 0; f < layout_.fragment_count(); ++f) {
    const Consensus& consensus = evaluator_->outer(f).consensus();
    parameters.insert(parameters.end(), consensus.parameters().begin(), consensus.parameters().end());
    report.digests.push_back(consensus.ComputeDigest());
  }
  const absl::StatusOr<EvaluationReport> held_out = evaluator_->trainer().Evaluate(parameters);
  if (held_out.ok()) {
    report.held_out = *held_out;
  } else if (!absl::IsFailedPrecondition(held_out.status())) {
    return held_out.status();
  }
  DILOCO_ASSIGN_OR_RETURN(report.replica_distance, ReplicaDistance());
  report.training_loss = losses_ == 0 ? std::nan("") : loss_sum_ / static_cast<double>(losses_);
  loss_sum_ = 0;
  losses_ = 0;
  return options_.on_report ? options_.on_report(report) : absl::OkStatus();
}

absl::StatusOr<double> TrainSimulator::ReplicaDistance() {
  const auto elements = static_cast<size_t>(layout_.element_count());
  std::vector<std::vector<float>> thetas;
  std::vector<float> mean(elements);
  for (const auto& worker : workers_) {
    thetas.emplace_back(elements);
    DILOCO_RETURN_IF_ERROR(worker->trainer().ReadParameters(0, absl::MakeSpan(thetas.back())));
    for (size_t i = 0; i < elements; ++i) mean[i] += thetas.back()[i] / static_cast<float>(workers_.size());
  }
  double largest = 0;
  for (std::vector<float>& theta : thetas) {
    for (size_t i = 0; i < elements; ++i) theta[i] -= mean[i];
    largest = std::max(largest, SquaredNorm(theta));
  }
  const double norm = SquaredNorm(mean);
  return norm == 0 ? 0 : std::sqrt(largest / norm);
}

}  // namespace diloco
