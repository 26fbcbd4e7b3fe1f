#include "tests/sim/worker_node.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/config/run_settings_proto.h"
#include "common/layout/layout_proto.h"
#include "tests/sim/worker_life.h"
#include "worker/checkpoint/resume_point.h"
#include "worker/sync/given_consensus.h"

namespace diloco::sim {
namespace {

constexpr absl::Duration kLeaveTimeout = absl::Seconds(10);
constexpr absl::Duration kGiveUpAfter = absl::Minutes(5);
// A wait of the training thread looks again after so long, for an error that nobody announces.
constexpr absl::Duration kLookAgain = absl::Seconds(30);

bool IsTransient(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status); }

}  // namespace

WorkerNode::WorkerNode(Options options, const Parts& parts)
    : Process(parts.loop, options.id, parts.heap),
      options_(std::move(options)),
      random_(*parts.random),
      link_(*parts.link),
      coordinator_(*parts.coordinator),
      service_(*parts.service),
      witness_(*parts.witness),
      disk_(parts.random) {}

WorkerNode::~WorkerNode() = default;

void WorkerNode::Boot() {
  DILOCO_CHECK(!up());
  const HeapScope own(heap());
  BeginLife();
  done_ = false;
  incarnation_ = life();
  // As RunWorker begins again when an operator has replaced the consensus.
  own_ = std::make_unique<Life>(random_.Next(), absl::IsAborted(ended_with_));
  ended_with_ = absl::OkStatus();
  witness_.Note(absl::StrFormat("%s starts, incarnation %d", id(), incarnation_));
  OpenFolder();
  if (!own_->exiting) Introduce();
}

void WorkerNode::DieAtDisk(uint64_t nth, bool power_cut) {
  if (!up()) return;
  dies_by_power_cut_ = power_cut;
  disk_.DieAt(nth);
}

void WorkerNode::Die(bool silently, bool power_cut) {
  if (!up()) return;
  EndLife();
  waiting_.clear();
  for (const std::weak_ptr<Stream>& weak : std::exchange(streams_, {})) {
    if (const std::shared_ptr<Stream> stream = weak.lock()) stream->Die(Stream::kWorker, silently);
  }
  own_.reset();
  disk_.EndProcess(power_cut, random_.Pick({Disk::Unsynced::kLost, Disk::Unsynced::kPrefix, Disk::Unsynced::kZeros,
                                            Disk::Unsynced::kRandomBlocks, Disk::Unsynced::kWritten}));
  witness_.OnWorkerDied(id(), incarnation_);
  witness_.Note(absl::StrFormat("%s down%s", id(), silently ? ", silently" : ""));
  if (on_down_) on_down_();
}

// Not from within own_: nothing that runs may lose the ground under it.
void WorkerNode::Exit(const absl::Status& status) {
  if (std::exchange(own_->exiting, true)) return;
  ended_with_ = status;
  // The consensus not being the coordinator's is the one thing that no fault may bring about.
  if (absl::IsDataLoss(status) || absl::IsInvalidArgument(status) || absl::IsInternal(status)) {
    witness_.Fail(absl::StrFormat("%s ends with %s", id(), status.ToString()));
  }
  witness_.Note(absl::StrFormat("%s exits: %s", id(), status.ToString()));
  Post(absl::ZeroDuration(), [this] { Die(false); });
}

std::string WorkerNode::Describe() const {
  if (!up()) return absl::StrFormat("%s: down, %s", id(), done_ ? "done" : ended_with_.ToString());
  const WorkerStatus status = own_->board.Get();
  return absl::StrFormat("%s: \"%s\", step %d, round %d, version %d, applied %d, queue %d, connected %d%s", id(),
                         status.state, status.step, status.round, status.version, status.applied_version,
                         status.upload_queue, status.connected, stopped() ? ", stopped" : "");
}

// ---- Calls ----

std::shared_ptr<Stream> WorkerNode::OpenStream() {
  std::shared_ptr<Stream> stream = link_.Open(this, &coordinator_);
  std::erase_if(streams_, [](const auto& each) { return each.expired(); });
  streams_.push_back(stream);
  coordinator_.Own(stream);
  return stream;
}

template <typename Request, typename Response>
void WorkerNode::Call(void (Driver::*method)(Request, Reply<Response>), Request request,
                      std::function<void(absl::StatusOr<Response>)> done) {
  // The first of answer, break and deadline counts.
  auto once = std::make_shared<std::function<void(absl::StatusOr<Response>)>>(std::move(done));
  const auto finish = [once](absl::StatusOr<Response> response) {
    if (*once) std::exchange(*once, nullptr)(std::move(response));
  };
  Post(kCallDeadline, [finish] { finish(absl::DeadlineExceededError("no answer")); });
  if (!coordinator_.up() || link_.cut()) {
    return Post(absl::Milliseconds(10), [finish] { finish(absl::UnavailableError("no connection")); });
  }
  const std::shared_ptr<Stream> stream = OpenStream();
  stream->SetOnClose(Stream::kWorker, [finish](const absl::Status& status) {
    finish(status.ok() ? absl::UnavailableError("no answer") : status);
  });
  stream->Send(Stream::kWorker, [this, stream, method, request = std::move(request), finish] {
    service_.Unary<Request, Response>(stream, method, request,
                                      [finish](const Response& response) { finish(response); });
  });
}

void WorkerNode::Connect(std::function<void(const std::shared_ptr<Stream>&)> connect) {
  if (!coordinator_.up()) {
    waiting_.push_back([this, connect = std::move(connect)] { Connect(connect); });
    return;
  }
  connect(OpenStream());
}

void WorkerNode::CoordinatorIsUp() {
  if (!up()) return;
  for (std::function<void()>& wait : std::exchange(waiting_, {})) {
    Post(random_.Between(absl::ZeroDuration(), absl::Seconds(1)), std::move(wait));
  }
}

// ---- From joining to leaving ----

void WorkerNode::Introduce() {
  Call<v1::DescribeRunRequest, v1::DescribeRunResponse>(
      &Driver::DescribeRun, {}, [this](const absl::StatusOr<v1::DescribeRunResponse>& described) {
        if (!described.ok()) {
          if (!IsTransient(described.status())) return Exit(described.status());
          return Post(own_->backoff.Next(), [this] { Introduce(); });
        }
        // As ParseRunConfig would give it; parsing the same text for each worker would take most of a seed's time.
        DILOCO_CHECK(!described->config_yaml().empty());
        absl::StatusOr<RunSettings> settings =
            RunSettingsFromProto(coordinator_.config(), described->settings().changes());
        if (!settings.ok()) return Exit(settings.status());
        own_->Prepare(settings->newest(), options_.trainer);
        own_->settings = std::make_shared<const RunSettings>(*std::move(settings));
        if (const absl::Status status = LoadCheckpoint(); !status.ok()) return Exit(status);
        v1::JoinRequest& join = own_->join;
        join.set_run_id(own_->config.run.id);
        join.set_worker_id(id());
        join.set_incarnation(incarnation_);
        join.set_protocol_version(kProtocolVersion);
        *join.mutable_tensors() = TensorSpecsToProto(own_->layout->tensors());
        v1::JoinRequest first = join;
        if (own_->resumed) AddResumePoint(*own_->resumed, own_->config, &first);
        JoinRun(first);
      });
}

void WorkerNode::JoinRun(const v1::JoinRequest& join) {
  Call<v1::JoinRequest, v1::JoinResponse>(
      &Driver::Join, join, [this, join](const absl::StatusOr<v1::JoinResponse>& joined) {
        if (own_->exiting) return;
        if (joined.ok()) return BecomeMember(*joined);
        // The session of the process before is not over yet.
        const bool in_use = join.has_resumes() && absl::IsAlreadyExists(joined.status());
        if (!IsTransient(joined.status()) && !in_use) return Exit(joined.status());
        Post(own_->backoff.Next(), [this, join] { JoinRun(join); });
      });
}

void WorkerNode::BecomeMember(const v1::JoinResponse& joined) {
  own_->joined = joined;
  own_->exchange.emplace(
      Exchange::Options{.coordinator = "sim", .give_up_after = kGiveUpAfter, .interrupt = &own_->interrupted}, &loop_);
  own_->exchange->PublishSettings(own_->settings);
  own_->control.emplace(ControlCore::Options{.join = own_->join,
                                             .joined = joined,
                                             .backoff = own_->backoff_options,
                                             .on_consensus_wanted = [this] { GiveConsensus(); }},
                        &*own_->exchange, &own_->board, static_cast<ControlNetwork*>(this));
  own_->SetState("waiting for parameters");
  if (own_->resumed) {
    own_->board.Update([this](WorkerStatus& status) { status.held = HeldVersions(*own_->resumed); });
  }
  witness_.OnJoined(id(), joined.generation());
  witness_.Note(
      absl::StrFormat("%s joined, first round %d%s", id(), joined.first_round(), joined.resumes() ? ", goes on" : ""));
  if (own_->folder != nullptr) {
    own_->checkpoints.emplace(this,
                              CheckpointOwner{id(), incarnation_, &own_->config, &*own_->layout, joined.generation()},
                              own_->folder.get());
  }
  own_->control->HandleTime(loop_.Now());
  AfterControl();
}

// What a member does next follows from the newest directive, until it trains.
void WorkerNode::FollowDirective() {
  if (own_->exiting) return;
  const v1::Directive& directive = own_->control->directive();
  const bool trains = directive.state() == v1::RUN_STATE_TRAINING || directive.state() == v1::RUN_STATE_ENDED;
  if (!own_->loop && !own_->leaving && !trains && directive.drain() && !own_->has_work) return LeaveRun();
  if (!own_->sync && !own_->leaving && (IsSeeded(directive) || own_->has_work)) StartSync();
  if (!own_->sync && !own_->leaving && directive.seed() && !own_->seeding) SeedRun();
  if (own_->sync && !own_->loop && !own_->leaving && trains) {
    BeginTraining();
  }
  if (own_->leaving && own_->control->may_leave()) {
    done_ = true;
    Exit(absl::OkStatus());
  }
}

void WorkerNode::BeginTraining() {
  own_->loop_options.worker_id = id();
  own_->loop_options.checkpoint_every = std::max<int64_t>(1, options_.checkpoint_every);
  const TrainingLoop::Parts parts = {.options = &own_->loop_options,
                                     .config = &own_->config,
                                     .layout = &*own_->layout,
                                     .trainer = own_->trainer.get(),
                                     .exchange = &*own_->exchange,
                                     .board = &own_->board,
                                     .clock = &loop_,
                                     .post =
                                         [this](const SyncEvent& event) {
                                           if (own_->suspending) return HandleSync(event);
                                           Post(absl::Microseconds(20), [this, event] { HandleSync(event); });
                                         },
                                     .report =
                                         [this](const v1::Evaluation& evaluation) {
                                           Post(absl::Microseconds(20),
                                                [this, evaluation] { HandleControl(EvaluationMade{evaluation}); });
                                         },
                                     .checkpoints = own_->checkpoints ? &*own_->checkpoints : nullptr};
  if (own_->resumed && own_->joined.resumes()) {
    own_->loop.emplace(parts, std::move(own_->resumed->training));
  } else {
    own_->loop.emplace(parts, own_->joined.first_round());
  }
  own_->resumed.reset();
  TrainingTurn();
}

void WorkerNode::SeedRun() {
  own_->seeding = true;
  own_->SetState("seeding");
  std::vector<float> parameters(static_cast<size_t>(own_->layout->element_count()));
  DILOCO_CHECK(own_->trainer->ReadParameters(0, absl::MakeSpan(parameters)).ok());
  std::string bytes(parameters.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), parameters.data(), bytes.size());
  SendSeed(SeedIdentity(), bytes, [this](const absl::Status& status) {
    // "Seeded already", or by somebody else now: the directive will say so. Else it is tried again.
    if (!IsTransient(status) && !absl::IsAborted(status) && !absl::IsFailedPrecondition(status)) return Exit(status);
    Post(own_->backoff.Next(), [this] {
      own_->seeding = false;
      FollowDirective();
    });
  });
}

v1::SeedRequest WorkerNode::SeedIdentity() const {
  v1::SeedRequest request;
  request.set_run_id(own_->config.run.id);
  request.set_worker_id(id());
  request.set_incarnation(incarnation_);
  request.mutable_layout_digest()->set_value(own_->layout->digest().Bytes());
  return request;
}

void WorkerNode::SendSeed(const v1::SeedRequest& request, const std::string& bytes,
                          std::function<void(const absl::Status&)> failed) {
  v1::SeedRequest whole = request;
  whole.set_total_bytes(bytes.size());
  Connect([this, whole, bytes, failed = std::move(failed)](const std::shared_ptr<Stream>& stream) {
    stream->SetOnClose(Stream::kWorker, failed);
    own_->seed_stream = stream;
    stream->Send(Stream::kWorker,
                 [this, stream, whole, bytes] { service_.Seed(stream, whole, bytes, [](const v1::SeedResponse&) {}); });
  });
}

// As ConsensusDonor does.
void WorkerNode::GiveConsensus() {
  if (!own_->sync || std::exchange(own_->giving, true)) return;
  Post(absl::Microseconds(20), [this] { HandleSync(ConsensusWanted{}); });
}

void WorkerNode::StartSync() {
  own_->SetState("waiting for workers");
  own_->uploads.resize(static_cast<size_t>(own_->config.wire.connections));
  own_->sync.emplace(
      SyncCore::Options{
          .worker_id = id(),
          .incarnation = incarnation_,
          .first_round = own_->joined.first_round(),
          .generation = own_->joined.generation(),
          .evaluated_version = std::max<int64_t>(0, own_->joined.directive().evaluated_version()),
          .chunk_bytes = options_.chunk_bytes,
          .upload = {.backoff = own_->backoff_options},
          .download = {.backoff = own_->backoff_options},
          .on_consensus = [this](int fragment, int64_t version,
                                 const Digest& digest) { witness_.OnConsensus(id(), fragment, version, digest); },
          .report_soon = [this] { Post(absl::Microseconds(20), [this] { HandleControl(HeartbeatWanted{}); }); },
          .on_consensus_wanted =
              [this](const FullConsensus& consensus) {
                SendSeed(DescribeConsensus(SeedIdentity(), consensus), SerializeConsensus(consensus),
                         [this](const absl::Status&) { Post(own_->backoff.Next(), [this] { own_->giving = false; }); });
              }},
      &own_->config, &*own_->layout, &*own_->exchange, &own_->board, static_cast<SyncNetwork*>(this));
  if (own_->resumed && !own_->joined.resumes()) {
    // It begins a round anew, with nothing but the inner optimizer and what the sync thread holds.
    for (SyncState::Fragment& fragment : own_->resumed->sync.fragments) fragment.stop = kBeforeTraining;
    DILOCO_CHECK(own_->trainer->LoadState(std::move(own_->resumed->training.replica.trainer)).ok());
  }
  if (own_->resumed) own_->sync->Resume(std::move(own_->resumed->sync), loop_.Now());
  if (own_->sync->HandleTime(loop_.Now()).ok()) AfterSync();
}

void WorkerNode::TrainingTurn() {
  if (own_->exiting) return;
  own_->training_waits = false;
  const absl::StatusOr<TrainingLoop::Turn> turn = own_->loop->Advance();
  if (!turn.ok()) return EndTraining(turn.status());
  switch (*turn) {
    case TrainingLoop::Turn::kMoved:
      return Post(options_.step_time, [this] { TrainingTurn(); });
    case TrainingLoop::Turn::kWaits:
      own_->training_waits = true;
      return Post(kLookAgain, [this, waits = ++own_->waits] {
        if (own_->training_waits && own_->waits == waits) TrainingTurn();
      });
    case TrainingLoop::Turn::kDone:
      return LeaveRun();
  }
}

void WorkerNode::WakeTraining() {
  if (!own_->training_waits || std::exchange(own_->wake_posted, true)) return;
  Post(absl::Microseconds(20), [this] {
    own_->wake_posted = false;
    if (own_->training_waits) TrainingTurn();
  });
}

void WorkerNode::LeaveRun() {
  own_->leaving = true;
  Post(kLeaveTimeout, [this] {
    done_ = true;
    Exit(absl::OkStatus());
  });
  HandleControl(LeaveWanted{});
}

// ---- The two threads ----

void WorkerNode::HandleControl(ControlEvent event) {
  if (own_->exiting) return;
  own_->control->Handle(std::move(event), loop_.Now());
  AfterControl();
}

void WorkerNode::AfterControl() {
  const absl::Status status = own_->exchange->Check();
  if (!status.ok()) return Exit(status);
  FollowDirective();
  if (own_->exiting) return;
  PostAt(std::max(own_->control->next_wake(), loop_.Now()), [this, wake = ++own_->control_wakes] {
    if (wake != own_->control_wakes || own_->exiting) return;
    own_->control->HandleTime(loop_.Now());
    AfterControl();
  });
}

void WorkerNode::HandleSync(SyncEvent event) {
  if (own_->exiting) return;
  const absl::Status status = own_->sync->Handle(std::move(event), loop_.Now());
  if (!status.ok()) return Exit(status);
  AfterSync();
}

void WorkerNode::AfterSync() {
  WakeTraining();
  const std::optional<MonotonicTime> next = own_->sync->next_wake();
  if (!next) return;
  PostAt(std::max(*next, loop_.Now()), [this, wake = ++own_->sync_wakes] {
    if (wake != own_->sync_wakes || own_->exiting) return;
    const absl::Status status = own_->sync->HandleTime(loop_.Now());
    if (!status.ok()) return Exit(status);
    AfterSync();
  });
}

}  // namespace diloco::sim
