// Joining, seeding and sessions.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/name.h"
#include "common/base/status_macros.h"
#include "common/layout/layout_proto.h"
#include "coordinator/driver/another_run.h"
#include "coordinator/driver/capacity.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/thread_pool.h"
#include "coordinator/driver/wire.h"

namespace diloco {
namespace {

// Names the first tensor in which two layouts differ, or says that the cut does.
std::string FirstDifference(absl::Span<const TensorSpec> ours, absl::Span<const TensorSpec> theirs) {
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (ours[i] == theirs[i]) {
      continue;
    }
    return ours[i].name == theirs[i].name
               ? absl::StrFormat("tensor %d, \"%s\", differs in shape, layer or decay flag", i, ours[i].name)
               : absl::StrFormat("tensor %d is \"%s\" in the run and \"%s\" here", i, ours[i].name, theirs[i].name);
  }
  return absl::StrFormat("the run has %d tensors, this model %d", ours.size(), theirs.size());
}

absl::Status RefusalStatus(const RefuseWorker& effect) {
  switch (effect.reason) {
    case RefuseWorker::Reason::kIdInUse:
      return absl::AlreadyExistsError(effect.message);
    case RefuseWorker::Reason::kRunEnded:
      return absl::FailedPreconditionError(effect.message);
    case RefuseWorker::Reason::kTooManyMembers:
      return absl::ResourceExhaustedError(effect.message);
    case RefuseWorker::Reason::kEvicted:
      return absl::PermissionDeniedError(effect.message);
  }
  return absl::InternalError(effect.message);
}

}  // namespace

struct Driver::Impl::CheckedSeed {
  std::string worker;
  absl::Status status;  // Values that are not finite.
  Digest digest;        // Of the bytes as sent.
  std::shared_ptr<ConsensusArrays> arrays;
  std::vector<Digest> digests;
};

absl::Status Driver::Impl::CheckRun(const std::string& run_id) const {
  if (run_id != options_.config.run.id) {
    return AnotherRun(run_id, options_.config.run.id);
  }
  return absl::OkStatus();
}

absl::Status Driver::Impl::HearMember(const std::string& run_id, const std::string& worker, uint64_t incarnation) {
  DILOCO_RETURN_IF_ERROR(CheckRun(run_id));
  Step(WorkerHeard{worker, incarnation});
  return machine_.IsMember(worker, incarnation) ? absl::OkStatus() : NotAMember(worker);
}

void Driver::Impl::DescribeRun(const v1::DescribeRunRequest& request,
                               const PendingReply<v1::DescribeRunResponse>& reply) {
  if (!request.run_id().empty()) {
    if (const absl::Status status = CheckRun(request.run_id()); !status.ok()) {
      reply(status);
      return;
    }
  }
  v1::DescribeRunResponse response;
  response.set_run_id(options_.config.run.id);
  response.set_protocol_version(kProtocolVersion);
  response.set_config_yaml(options_.config_yaml);
  *response.mutable_config_digest() = DigestToProto(config_digest_);
  response.mutable_settings()->set_run_id(options_.config.run.id);
  if (run_ != nullptr) {
    *response.mutable_settings()->mutable_changes() = run_->durable_changes;
  }
  reply(std::move(response));
}

void Driver::Impl::LayOut(Layout layout, v1::RunRecord record) {
  machine_ = RoundMachine(OptionsNow(layout.fragment_count()));
  run_ = std::make_unique<LaidOutRun>(std::move(layout), std::move(record), Config().rounds.quorum,
                                      /*version=*/0);
  if (options_.config.wire.downlink_feedback()) {
    run_->residuals.emplace(*run_->layout);
  }
}

// The first worker's layout is the run's, and durable before anyone is answered: the store works in order.
absl::Status Driver::Impl::CheckLayout(const v1::JoinRequest& request) {
  if (request.tensors_size() > kMaxTensors) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d tensors are more than %d", request.tensors_size(), kMaxTensors));
  }
  DILOCO_ASSIGN_OR_RETURN(Layout layout,
                          Layout::Cut(TensorSpecsFromProto(request.tensors()), options_.config.fragments.cut));
  DILOCO_RETURN_IF_ERROR(FragmentOffsets(options_.config, layout.fragment_count()).status());
  if (run_ != nullptr) {
    if (layout.digest() != run_->layout->digest()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("worker \"%s\" has another model than the run: %s; use the run's model section",
                          request.worker_id(), FirstDifference(run_->layout->tensors(), layout.tensors())));
    }
    return absl::OkStatus();
  }
  DILOCO_RETURN_IF_ERROR(CheckCapacity(options_.config, layout));
  v1::RunRecord record;
  record.set_run_id(options_.config.run.id);
  record.set_config_yaml(options_.config_yaml);
  *record.mutable_config_digest() = DigestToProto(config_digest_);
  *record.mutable_tensors() = request.tensors();
  *record.mutable_layout_digest() = DigestToProto(layout.digest());
  LayOut(std::move(layout), record);
  SubmitStore([store = world_.store, record] { return store->AppendRun(record); }, [] {});
  return absl::OkStatus();
}

absl::Status Driver::Impl::CheckResumePoint(const v1::JoinRequest& request) const {
  if (!request.has_resumes()) {
    return absl::OkStatus();
  }
  const auto& next_rounds = request.resumes().next_rounds();
  if (next_rounds.size() != run_->layout->fragment_count()) {
    return absl::InvalidArgumentError(absl::StrFormat("a resume point of %d fragments, the run has %d",
                                                      next_rounds.size(), run_->layout->fragment_count()));
  }
  for (const int64_t round : next_rounds) {
    // Beyond the end too: the run may have been stopped since.
    if (round < 0) {
      return absl::InvalidArgumentError(absl::StrFormat("a resume point at round %d; rounds count from 0", round));
    }
  }
  return absl::OkStatus();
}

void Driver::Impl::Join(const v1::JoinRequest& request, const PendingReply<v1::JoinResponse>& reply) {
  const auto check = [&]() -> absl::Status {
    DILOCO_RETURN_IF_ERROR(CheckRun(request.run_id()));
    if (request.protocol_version() != kProtocolVersion) {
      return absl::InvalidArgumentError(
          absl::StrFormat("worker \"%s\" speaks protocol version %d, the coordinator %d; install the same release",
                          BoundedReason(request.worker_id()), request.protocol_version(), kProtocolVersion));
    }
    DILOCO_RETURN_IF_ERROR(ValidateName("worker id", request.worker_id()));
    if (request.incarnation() == 0) {
      return absl::InvalidArgumentError("incarnation is 0; draw one at random for each process");
    }
    if (store_retry_.waiting()) {
      return absl::UnavailableError(
          absl::StrFormat("the coordinator cannot make a member durable now: %s", store_retry_.Sentence(Now())));
    }
    DILOCO_RETURN_IF_ERROR(CheckLayout(request));
    DILOCO_RETURN_IF_ERROR(CheckResumePoint(request));
    return request.has_held() ? CheckHeld(request.worker_id(), request.held()) : absl::OkStatus();
  };
  if (const absl::Status status = check(); !status.ok()) {
    reply(status);
    return;
  }
  NoteHeld(request.worker_id(), request.held());
  joining_.emplace(Joining{.software_version = BoundedReason(request.software_version()),
                           .generation = std::max(run_->record.generation(), request.held().generation()),
                           .reply = reply});
  Step(WorkerJoined{.worker = request.worker_id(),
                    .incarnation = request.incarnation(),
                    .id_in_session = sessions_.IsOpen(request.worker_id()),
                    .resumes = {request.resumes().next_rounds().begin(), request.resumes().next_rounds().end()}});
  joining_.reset();
}

v1::MemberRecord Driver::Impl::MemberRecordOf(const std::string& worker, const MemberInfo& info) const {
  v1::MemberRecord record;
  record.set_run_id(options_.config.run.id);
  record.set_worker_id(worker);
  record.set_incarnation(info.incarnation);
  record.set_first_round(info.first_round);
  record.set_left(info.left);
  record.set_draining(info.draining);
  record.set_evicted(info.evicted);
  record.set_resumes(info.resumes);
  record.set_generation(run_->record.generation());
  return record;
}

void Driver::Impl::Carry(const diloco::AdmitWorker& effect) {
  DILOCO_CHECK(joining_.has_value());
  MemberInfo& info = members_[effect.worker];
  if (!effect.returning) {
    info = MemberInfo{.incarnation = effect.incarnation,
                      .first_round = effect.first_round,
                      .draining = info.draining,
                      .drain_durable = info.drain_durable,
                      .resumes = effect.resumes};
    DiscardIncomplete(effect.worker, effect.incarnation);
  }
  info.left = false;  // After the end even one that left may come back, to hear how it ended.
  info.departure_durable = false;
  info.suspended = false;
  info.software_version = joining_->software_version;
  world_.observer->OnWorkerJoined(effect.worker, effect.returning);
  // A returning worker's record may still be on its way to the disk, so that its answer takes the same way.
  SubmitStore(
      [store = world_.store, returning = effect.returning, record = MemberRecordOf(effect.worker, info)] {
        return returning ? absl::OkStatus() : store->AppendMember(record);
      },
      [this, effect, generation = joining_->generation, reply = joining_->reply] {
        v1::JoinResponse response;
        response.set_run_id(options_.config.run.id);
        *response.mutable_layout_digest() = DigestToProto(run_->layout->digest());
        *response.mutable_heartbeat_interval() = DurationToProto(Config().rounds.heartbeat_interval);
        *response.mutable_lease() = DurationToProto(Config().rounds.lease);
        *response.mutable_directive() = DirectiveFor(effect.worker, CommonDirective());
        response.set_first_round(effect.first_round);
        response.set_resumes(effect.resumes);
        response.set_generation(generation);
        reply(std::move(response));
      });
}

void Driver::Impl::Carry(const RefuseWorker& effect) {
  DILOCO_CHECK(joining_.has_value());
  joining_->reply(RefusalStatus(effect));
}

void Driver::Impl::Carry(const WorkerLost& effect) {
  snapshot_readers_.erase(effect.worker);
  world_.observer->OnWorkerLost(effect.worker);
}

void Driver::Impl::Carry(const RecordDeparture& effect) {
  MemberInfo& info = members_[effect.worker];
  info.left = true;
  info.draining = info.drain_durable = false;
  snapshot_readers_.erase(effect.worker);
  DiscardIncomplete(effect.worker, 0);
  world_.observer->OnWorkerLeft(effect.worker);
  SubmitStore(
      [store = world_.store, record = MemberRecordOf(effect.worker, info)] { return store->AppendMember(record); },
      [this, effect] {
        MemberInfo& left = members_[effect.worker];
        if (left.incarnation == effect.incarnation && left.left) {
          left.departure_durable = true;
          directives_stale_ = true;
        }
      });
}

v1::Directive Driver::Impl::CommonDirective() const {
  v1::Directive directive;
  // What a worker still needs of a run that has ended does not wait for the disk.
  directive.set_state(machine_.phase() == RunPhase::kEnded ? v1::RUN_STATE_ENDED : State());
  directive.set_evaluated_version(evaluated_version_);
  directive.set_oldest_open_round(machine_.OldestOpenRound());
  directive.set_workers_joined(WorkersAlive());
  directive.set_workers_expected(static_cast<uint32_t>(options_.config.run.workers));
  return directive;
}

v1::Directive Driver::Impl::DirectiveFor(const std::string& worker, v1::Directive common) const {
  common.set_seed(!seed_pending_ && !FolderIsBehind() && machine_.Seeder() == worker);
  common.set_give_consensus(!donor_.empty() && donor_ == worker);
  common.set_evaluate(machine_.Evaluator() == worker);
  const auto member = members_.find(worker);
  common.set_leave(member != members_.end() && member->second.departure_durable);
  common.set_drain(member != members_.end() && member->second.drain_durable);
  return common;
}

absl::Status Driver::Impl::CheckSessionMessage(const v1::SessionRequest& request) const {
  if (request.evaluations_size() > kMaxEvaluationsPerHeartbeat) {
    return absl::InvalidArgumentError(absl::StrFormat("%d evaluations in one message are more than %d",
                                                      request.evaluations_size(), kMaxEvaluationsPerHeartbeat));
  }
  for (const v1::Evaluation& evaluation : request.evaluations()) {
    if (evaluation.version() < 0 || evaluation.version() > Config().run.rounds) {
      return absl::InvalidArgumentError(absl::StrFormat("an evaluation of version %d in a run of %d rounds",
                                                        evaluation.version(), Config().run.rounds));
    }
    if (evaluation.tokens() == 0) {
      return absl::InvalidArgumentError(
          absl::StrFormat("the evaluation of version %d is of no tokens", evaluation.version()));
    }
  }
  if (request.last_round() < -1) {
    return absl::InvalidArgumentError(absl::StrFormat("a last round of %d; -1 is none", request.last_round()));
  }
  const int64_t fragments = run_ == nullptr ? 0 : run_->layout->fragment_count();
  if (request.abstentions_size() > fragments * options_.config.OpenRounds()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d abstentions are more than the rounds that may be open", request.abstentions_size()));
  }
  for (const v1::Abstention& abstention : request.abstentions()) {
    if (abstention.fragment() >= fragments || abstention.round() < 0) {
      return absl::InvalidArgumentError(absl::StrFormat("an abstention for fragment %d, round %d: there is none",
                                                        abstention.fragment(), abstention.round()));
    }
  }
  return absl::OkStatus();
}

void Driver::Impl::SessionMessage(SessionToken token, const v1::SessionRequest& request) {
  const std::string& worker = request.worker_id();
  const auto known = members_.find(worker);
  // A worker that has left repeats its last message until it is told to go. (One that says something else was evicted
  // and let in again while it did not hear of it: its process is over.)
  const bool left = known != members_.end() && known->second.left && request.leaving() &&
                    known->second.incarnation == request.incarnation() && CheckRun(request.run_id()).ok();
  absl::Status status = left ? absl::OkStatus() : HearMember(request.run_id(), worker, request.incarnation());
  if (status.ok()) {
    status = CheckSessionMessage(request);
  }
  if (!status.ok()) {
    sessions_.Close(token, status);
    return;
  }
  if (!sessions_.Bind(token, worker)) {
    return;
  }
  if (!left) {
    members_[worker].suspended = request.suspending();
    if (request.has_progress()) {
      members_[worker].progress = request.progress();
      world_.observer->OnProgress(worker, request.progress());
    }
    TakeEvaluations(request);
    for (const v1::Abstention& abstention : request.abstentions()) {
      Step(WorkerAbstained{{worker, static_cast<int>(abstention.fragment()), abstention.round()},
                           request.incarnation(),
                           BoundedReason(abstention.reason())});
    }
    if (request.has_last_round()) {
      Step(WorkerStopped{worker, request.incarnation(), request.last_round()});
    }
    if (request.leaving()) {
      Step(WorkerLeft{worker, request.incarnation()});
    }
  }
  sessions_.Send(token, DirectiveFor(worker, CommonDirective()));
}

// Evaluations come in order of their version and are repeated until the directive says that they are held.
void Driver::Impl::TakeEvaluations(const v1::SessionRequest& request) {
  for (v1::Evaluation evaluation : request.evaluations()) {
    if (!evaluations_.empty() && evaluation.version() <= evaluations_.front().version()) {
      continue;
    }
    if (evaluation.version() > machine_.OldestOpenRound()) {
      continue;  // Nobody has that version: taken, it would shut out the true ones before it.
    }
    evaluation.set_worker_id(request.worker_id());
    evaluations_.push_front(evaluation);
    if (evaluations_.size() > kMaxEvaluations) {
      evaluations_.pop_back();
    }
    v1::EvaluationRecord record;
    record.set_run_id(options_.config.run.id);
    *record.mutable_evaluation() = evaluation;
    record.set_generation(run_->record.generation());
    SubmitStore([store = world_.store, record] { return store->AppendEvaluation(record); },
                [this, evaluation] {
                  evaluated_version_ = std::max(evaluated_version_, evaluation.version());
                  directives_stale_ = true;
                  world_.observer->OnEvaluation(evaluation);
                });
  }
}

void Driver::Impl::Seed(const v1::SeedRequest& first, std::string parameters,
                        const PendingReply<v1::SeedResponse>& reply) {
  if (first.consensus()) {
    TakeConsensus(first, std::move(parameters), reply);
    return;
  }
  const auto check = [&]() -> absl::Status {
    DILOCO_RETURN_IF_ERROR(HearMember(first.run_id(), first.worker_id(), first.incarnation()));
    if (first.layout_digest().value() != run_->layout->digest().Bytes()) {
      return absl::FailedPreconditionError("the seed is of another layout than the run; join again");
    }
    const auto bytes = static_cast<uint64_t>(run_->layout->element_count()) * sizeof(float);
    if (first.total_bytes() != bytes || parameters.size() != bytes) {
      return absl::InvalidArgumentError(absl::StrFormat("the seed has %d of %d announced bytes, the layout needs %d",
                                                        parameters.size(), first.total_bytes(), bytes));
    }
    if (FolderIsBehind()) {
      return absl::FailedPreconditionError("the run is held: a worker holds a consensus already");
    }
    if (machine_.phase() == RunPhase::kSeeding && !seed_pending_ && machine_.Seeder() != first.worker_id()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("worker \"%s\" is not the seeder, \"%s\" is", first.worker_id(), machine_.Seeder()));
    }
    return absl::OkStatus();
  };
  if (const absl::Status status = check(); !status.ok()) {
    reply(status);
    return;
  }
  auto bytes = std::make_shared<const std::string>(std::move(parameters));
  Submit(
      world_.pool,
      [bytes, worker = first.worker_id(), layout = run_->layout, optimizer = optimizer_, pool = world_.pool] {
        CheckedSeed seed{.worker = worker, .digest = DigestOf(*bytes)};
        std::vector<float> values(static_cast<size_t>(layout->element_count()));
        std::memcpy(values.data(), bytes->data(), bytes->size());
        const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
        if (bad != values.end()) {
          seed.status = absl::InvalidArgumentError(absl::StrFormat(
              "element %d of the seed is not finite; check the initial parameters", bad - values.begin()));
          return seed;
        }
        seed.arrays = std::make_shared<ConsensusArrays>(SeedConsensus(*layout, optimizer, values));
        seed.digests = seed.arrays->ComputeDigests(ParallelForOn(pool));
        return seed;
      },
      [this, reply](const CheckedSeed& seed) { FinishSeed(seed, reply); });
}

void Driver::Impl::FinishSeed(const CheckedSeed& seed, const PendingReply<v1::SeedResponse>& reply) {
  if (!seed.status.ok()) {
    reply(seed.status);
    return;
  }
  if (run_->keeper.seeded() && seed.digest != seed_digest_) {
    reply(absl::FailedPreconditionError("the run is seeded already, with other parameters; start from its snapshot"));
    return;
  }
  if (!run_->keeper.seeded() && machine_.Seeder() != seed.worker) {
    reply(absl::FailedPreconditionError(absl::StrFormat("worker \"%s\" is not the seeder any more", seed.worker)));
    return;
  }
  if (run_->keeper.seeded() && !seed_pending_) {
    v1::SeedResponse response;
    response.set_run_id(options_.config.run.id);
    for (const Digest& digest : seed.digests) {
      *response.add_consensus_digests() = DigestToProto(digest);
    }
    reply(std::move(response));
    return;
  }
  seed_replies_.push_back(reply);
  if (!seed_pending_) {
    seed_pending_ = true;
    seeded_here_ = true;
    seed_digest_ = seed.digest;
    directives_stale_ = true;
    run_->keeper.Adopt(seed.arrays, seed.digests, {}, std::nullopt);
    AdvanceConsensus();
  }
}

}  // namespace diloco
