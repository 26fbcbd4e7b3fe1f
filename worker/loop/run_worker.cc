#include "worker/loop/run_worker.h"

#include <grpcpp/channel.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"

#include "common/base/clock.h"
#include "common/base/limits.h"
#include "common/base/name.h"
#include "common/base/status_macros.h"
#include "common/config/run_settings_proto.h"
#include "common/layout/layout_proto.h"
#include "common/log/log.h"
#include "common/outer/outer_optimizer.h"
#include "common/rpc/coordinator_link.h"
#include "diloco/v1/worker.grpc.pb.h"
#include "worker/checkpoint/checkpoint_folder.h"
#include "worker/checkpoint/checkpoint_writer.h"
#include "worker/checkpoint/resume_point.h"
#include "worker/loop/consensus_donor.h"
#include "worker/loop/introduction.h"
#include "worker/loop/link_watch.h"
#include "worker/loop/seed.h"
#include "worker/loop/training_loop.h"
#include "worker/sync/control_session.h"
#include "worker/sync/sync_thread.h"

namespace diloco {
namespace {

uint64_t RandomIncarnation() {
  std::random_device device;
  uint64_t drawn = 0;
  while (drawn == 0) {
    drawn = (uint64_t{device()} << 32) | device();
  }
  return drawn;
}

v1::JoinRequest MakeJoin(const WorkerOptions& options, const RunConfig& config, const Layout& layout) {
  v1::JoinRequest join;
  join.set_run_id(config.run.id);
  join.set_worker_id(options.worker_id);
  join.set_incarnation(options.incarnation);
  join.set_protocol_version(kProtocolVersion);
  *join.mutable_tensors() = TensorSpecsToProto(layout.tensors());
  join.set_software_version(options.software_version);
  return join;
}

bool HasBegun(const v1::Directive& directive) {
  return directive.state() == v1::RUN_STATE_TRAINING || directive.state() == v1::RUN_STATE_ENDED;
}

void LogResumed(const WorkerCheckpoint& checkpoint, const RunConfig& config, const v1::JoinResponse& joined) {
  const int64_t step = checkpoint.training.replica.step;
  LogInfo("resumed", {{"step", step},
                      {"round", step / config.inner_steps},
                      {"version", checkpoint.sync.fragments.front().outer.consensus.version()},
                      {"goes_on", joined.resumes() ? "there" : absl::StrFormat("in round %d", joined.first_round())}});
}

// A member of the run: everything that lives from joining to leaving.
class Member {
 public:
  Member(const WorkerOptions* options, const CoordinatorLink* link, const RunConfig* config, const Layout* layout,
         Trainer* trainer, const v1::JoinRequest& join, const v1::JoinResponse& joined,
         std::shared_ptr<grpc::Channel> control, const RunSettings& settings, CheckpointWriter* checkpoints,
         StatusBoard* board, const Clock* clock)
      : options_(*options),
        link_(*link),
        config_(*config),
        layout_(*layout),
        trainer_(trainer),
        joined_(joined),
        checkpoints_(checkpoints),
        board_(board),
        clock_(clock),
        exchange_({.coordinator = options->coordinator,
                   .give_up_after = options->give_up_after,
                   .interrupt = options->interrupt,
                   .on_wait = options->on_wait},
                  clock),
        bulk_(MakeBulkChannels()),
        donor_(SeedIdentity(), bulk_.front(), options->backoff, clock),
        control_({.join = join,
                  .joined = joined,
                  .backoff = options->backoff,
                  .on_consensus_wanted = [this] { donor_.Want(); }},
                 std::move(control), &exchange_, board, clock) {
    exchange_.PublishSettings(std::make_shared<const RunSettings>(settings));
  }

  // `resumed`: from what the worker goes on, if it has a checkpoint.
  absl::Status Run(std::optional<WorkerCheckpoint> resumed) {
    SetState("waiting for parameters");
    // What a checkpoint holds is to be settled before the worker may leave, or is what the coordinator lacks.
    const bool has_work = resumed.has_value();
    if (!has_work) {
      DILOCO_RETURN_IF_ERROR(AwaitSeed());
    }
    if (resumed && !joined_.resumes()) {
      // It begins a round anew, with nothing but the inner optimizer and what the sync thread holds.
      for (SyncState::Fragment& fragment : resumed->sync.fragments) fragment.stop = kBeforeTraining;
      DILOCO_RETURN_IF_ERROR(trainer_->LoadState(std::move(resumed->training.replica.trainer)));
    }
    std::optional<SyncState> sync_state;
    if (resumed) sync_state = std::move(resumed->sync);
    SyncThread sync({.worker_id = options_.worker_id,
                     .incarnation = options_.incarnation,
                     .first_round = joined_.first_round(),
                     .generation = joined_.generation(),
                     .evaluated_version = std::max<int64_t>(0, joined_.directive().evaluated_version()),
                     .chunk_bytes = options_.chunk_bytes,
                     .upload = options_.upload,
                     .download = {.backoff = options_.backoff},
                     .on_consensus = options_.on_consensus,
                     .report_soon = [this] { control_.ReportSoon(); },
                     .on_consensus_wanted = [this](FullConsensus consensus) { donor_.Give(std::move(consensus)); }},
                    &config_, &layout_, &exchange_, board_, clock_, bulk_, options_.tracer, std::move(sync_state));
    donor_.SetSource([&sync] { sync.Post(ConsensusWanted{}); });
    const absl::Cleanup detach = [this] { donor_.SetSource(nullptr); };
    SetState("waiting for workers");
    DILOCO_RETURN_IF_ERROR(control_.Await([has_work](const v1::Directive& directive) {
      return HasBegun(directive) || (directive.drain() && !has_work);
    }));
    if (!HasBegun(control_.directive())) {
      return Leave();
    }
    const TrainingLoop::Parts parts = {
        .options = &options_,
        .config = &config_,
        .layout = &layout_,
        .trainer = trainer_,
        .exchange = &exchange_,
        .board = board_,
        .clock = clock_,
        .post = [&sync](SyncEvent event) { sync.Post(std::move(event)); },
        .report = [this](const v1::Evaluation& evaluation) { control_.Report(evaluation); },
        .checkpoints = checkpoints_};
    TrainingLoop loop = resumed && joined_.resumes() ? TrainingLoop(parts, std::move(resumed->training))
                                                     : TrainingLoop(parts, joined_.first_round());
    resumed.reset();
    if (const absl::Status status = loop.Run(); !status.ok()) {
      Suspend(status, &loop);
      return status;
    }
    return Leave();
  }

 private:
  absl::Status Leave() {
    if (!control_.Leave(clock_->Now() + options_.leave_timeout)) {
      LogWarning("left_without_answer", {{"round", board_->Get().round},
                                         {"reason", "the coordinator did not confirm the last report in time"}});
    }
    return absl::OkStatus();
  }

  // On request, or because there is no coordinator any more, what was done is kept. After any other error it may be
  // what is wrong.
  void Suspend(const absl::Status& why, TrainingLoop* loop) {
    if ((!absl::IsCancelled(why) && !absl::IsUnavailable(why)) || exchange_.BrokenDown()) return;
    board_->Update([](WorkerStatus& status) { status.suspending = true; });
    control_.ReportSoon();
    if (const absl::Status status = loop->Suspend(clock_->Now() + kSuspendDeadline); !status.ok()) {
      LogError("suspend_failed", {{"round", board_->Get().round}, {"reason", status.ToString()}});
    }
  }

  void SetState(const char* state) {
    board_->Update([state](WorkerStatus& status) { status.state = state; });
  }

  // Seeds the run if the coordinator asks this worker to, and returns when the run has its parameters, or when the
  // worker is to drain.
  absl::Status AwaitSeed() {
    bool sent = false;
    Backoff backoff(options_.backoff);
    while (true) {
      DILOCO_RETURN_IF_ERROR(control_.Await([&sent](const v1::Directive& directive) {
        return IsSeeded(directive) || directive.drain() || (directive.seed() && !sent);
      }));
      if (IsSeeded(control_.directive()) || control_.directive().drain()) {
        return absl::OkStatus();
      }
      const absl::Status status = Seed();
      // "Seeded already", or by somebody else now: the directive will say so.
      sent = status.ok() || absl::IsFailedPrecondition(status);
      if (sent) {
        continue;
      }
      if (!IsTransient(status) && !absl::IsAborted(status)) {
        return status;
      }
      LogWarning("seed_failed", {{"reason", status.ToString()}});
      DILOCO_RETURN_IF_ERROR(Pause(*clock_, clock_->Now() + backoff.Next(), [this] { return exchange_.CheckHope(); }));
    }
  }

  absl::Status Seed() {
    SetState("seeding");
    std::vector<float> parameters(static_cast<size_t>(layout_.element_count()));
    DILOCO_RETURN_IF_ERROR(trainer_->ReadParameters(0, absl::MakeSpan(parameters)));
    const auto stub = v1::WorkerService::NewStub(bulk_.front());
    DILOCO_RETURN_IF_ERROR(
        SendSeed(stub.get(), SeedIdentity(), layout_, *FindOuterOptimizer(config_.outer.optimizer), parameters));
    LogInfo("seeded", {{"bytes", parameters.size() * sizeof(float)}});
    return absl::OkStatus();
  }

  std::vector<std::shared_ptr<grpc::Channel>> MakeBulkChannels() const {
    std::vector<std::shared_ptr<grpc::Channel>> channels;
    for (int i = 0; i < config_.wire.connections; ++i) {
      channels.push_back(link_.NewChannel());
    }
    return channels;
  }

  v1::SeedRequest SeedIdentity() const {
    v1::SeedRequest identity;
    identity.set_run_id(config_.run.id);
    identity.set_worker_id(options_.worker_id);
    identity.set_incarnation(options_.incarnation);
    identity.mutable_layout_digest()->set_value(layout_.digest().Bytes());
    return identity;
  }

  const WorkerOptions& options_;
  const CoordinatorLink& link_;
  const RunConfig& config_;
  const Layout& layout_;
  Trainer* const trainer_;
  const v1::JoinResponse joined_;
  CheckpointWriter* const checkpoints_;  // May be null.
  StatusBoard* const board_;
  const Clock* const clock_;
  Exchange exchange_;
  const std::vector<std::shared_ptr<grpc::Channel>> bulk_;
  ConsensusDonor donor_;
  ControlSession control_;
};

// As one member of the run. `afresh`: whatever the checkpoint folder has. Errors: those of RunWorker; kAborted: an
// operator has replaced the consensus.
absl::Status RunMember(const WorkerOptions& given, const CoordinatorLink& link, const TrainerFactory& make_trainer,
                       bool afresh, StatusBoard* board) {
  const SteadyClock clock;
  WorkerOptions options = given;
  options.incarnation = given.incarnation != 0 ? given.incarnation : RandomIncarnation();
  options.backoff.seed ^= options.incarnation;
  options.upload.backoff = options.backoff;
  std::unique_ptr<CheckpointFolder> folder;
  if (!options.checkpoint_folder.empty()) {
    const std::string holder = absl::StrFormat("worker %s, pid %d", options.worker_id, getpid());
    DILOCO_ASSIGN_OR_RETURN(folder, CheckpointFolder::Open(options.files, options.checkpoint_folder, holder));
  }
  const std::shared_ptr<grpc::Channel> channel = link.NewChannel();
  const auto stub = v1::WorkerService::NewStub(channel);
  Introduction introduction(&options, &link, &clock, stub.get());

  DILOCO_ASSIGN_OR_RETURN(const v1::DescribeRunResponse described, introduction.Describe());
  DILOCO_ASSIGN_OR_RETURN(const RunConfig file,
                          ParseRunConfig(described.config_yaml(), "the coordinator's configuration"));
  DILOCO_ASSIGN_OR_RETURN(const RunSettings settings, RunSettingsFromProto(file, described.settings().changes()));
  const RunConfig& config = settings.newest();
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer, make_trainer(config));
  DILOCO_ASSIGN_OR_RETURN(const Layout layout, Layout::Cut(trainer->Tensors(), config.fragments.cut));
  DILOCO_RETURN_IF_ERROR(FragmentOffsets(config, layout.fragment_count()).status());
  CheckpointOwner owner = {options.worker_id, options.incarnation, &config, &layout};
  std::optional<WorkerCheckpoint> resumed;
  if (folder != nullptr && !afresh) {
    DILOCO_ASSIGN_OR_RETURN(resumed, LoadNewestCheckpoint(owner, folder.get()));
  }
  const v1::JoinRequest join = MakeJoin(options, config, layout);
  v1::JoinRequest first_join = join;
  if (resumed) AddResumePoint(*resumed, config, &first_join);
  DILOCO_ASSIGN_OR_RETURN(const v1::JoinResponse joined, introduction.Join(first_join));
  const Digest theirs = Digest::FromBytes(joined.layout_digest().value());
  if (theirs != layout.digest()) {
    return absl::FailedPreconditionError(
        absl::StrFormat("the coordinator cuts the model into layout %s and this worker into %s; run the same version "
                        "of both programs",
                        theirs.Hex(), layout.digest().Hex()));
  }
  owner.generation = joined.generation();
  trainer->SetLayout(layout);
  LogInfo("joined", {{"run", config.run.id},
                     {"worker", options.worker_id},
                     {"incarnation", absl::StrFormat("%x", options.incarnation)},
                     {"elements", layout.element_count()},
                     {"fragments", layout.fragment_count()},
                     {"first_round", joined.first_round()}});
  if (resumed) LogResumed(*resumed, config, joined);
  board->Update([&](WorkerStatus& status) {
    status.rounds = config.run.rounds;
    status.steps = config.run.rounds * config.inner_steps;
    status.held = resumed ? HeldVersions(*resumed) : std::vector<int64_t>();
  });
  std::optional<CheckpointWriter> checkpoints;
  if (folder != nullptr) checkpoints.emplace(folder.get(), owner, board, &clock, options.tracer);
  const LinkWatch watch(&link, channel);
  Member member(&options, &link, &config, &layout, trainer.get(), join, joined, channel, settings,
                checkpoints ? &*checkpoints : nullptr, board, &clock);
  return member.Run(std::move(resumed));
}

}  // namespace

absl::Status RunWorker(const WorkerOptions& options, const TrainerFactory& make_trainer) {
  DILOCO_RETURN_IF_ERROR(ValidateName("worker id", options.worker_id));
  if (options.tls.given()) {
    DILOCO_RETURN_IF_ERROR(
        CheckTlsFilesFor(options.tls, {.run = options.run_id, .role = Role::kWorker, .name = options.worker_id})
            .status());
  }
  DILOCO_ASSIGN_OR_RETURN(const CoordinatorLink link, CoordinatorLink::Open(options.coordinator, options.tls));
  StatusBoard own;
  StatusBoard* const board = options.board != nullptr ? options.board : &own;
  bool afresh = false;
  while (true) {
    const absl::Status status = RunMember(options, link, make_trainer, afresh, board);
    if (!absl::IsAborted(status)) {
      return status;
    }
    afresh = true;
    LogWarning("starting_again", {{"reason", status.message()}});
  }
}

}  // namespace diloco
