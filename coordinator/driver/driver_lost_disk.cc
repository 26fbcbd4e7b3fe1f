// Workers that hold more than the data folder: the coordinator lost its disk, or was given an older copy of it.
//
// A process that saw the run seeded has all of it, and believes no such thing. Else nobody is rewound silently: the run
// is held, and nothing is seeded, closed or handed out, until an operator says who is right. A worker gives its
// consensus, which becomes a snapshot of the next generation; or the folder is right, and only the generation is new.
// Either way the driver ends and the coordinator recovers from its folder. A new generation begins with nobody there:
// all forget what they hold, contributions too, and join again. What the global deltas of an accepted folder settle
// stays settled: whoever joins under such a name does not do that round once more.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/outer/step_scalars_proto.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/thread_pool.h"
#include "coordinator/driver/wire.h"

namespace diloco {
namespace {

int64_t NewestVersion(const v1::HeldConsensus& held) {
  return *std::max_element(held.versions().begin(), held.versions().end());
}

// Ascending: further ahead.
auto Rank(const v1::HeldConsensus& held) {
  return std::tuple(held.generation(), NewestVersion(held),
                    std::accumulate(held.versions().begin(), held.versions().end(), int64_t{0}));
}

std::string VersionText(int64_t version) { return version < 0 ? "nothing" : absl::StrFormat("version %d", version); }

std::string VersionText(int64_t version, uint32_t generation) {
  return version < 0 ? "nothing" : absl::StrFormat("version %d of generation %d", version, generation);
}

}  // namespace

// A consensus that a worker gave, checked and ready for a snapshot.
struct Driver::Impl::GivenConsensus {
  absl::Status status;
  std::string worker;
  int64_t version = 0;
  bool same_generation = false;  // As the folder's.
  std::optional<v1::StepScalars> scalars;
  std::shared_ptr<const ConsensusArrays> arrays;
  std::vector<Digest> digests;
};

absl::Status Driver::Impl::CheckHeld(const std::string& worker, const v1::HeldConsensus& held) const {
  // Any length of the run: it may have been made longer than it is now in what the disk has lost.
  if (held.versions_size() != run_->layout->fragment_count() ||
      std::any_of(held.versions().begin(), held.versions().end(),
                  [](int64_t version) { return version < 0 || version > kMaxRounds; })) {
    return absl::InvalidArgumentError(
        absl::StrFormat("worker \"%s\" names %d versions that it holds; give one of 0 to %d for each of %d fragments",
                        worker, held.versions_size(), kMaxRounds, run_->layout->fragment_count()));
  }
  if (held.generation() > kMaxGeneration) {
    return absl::InvalidArgumentError(absl::StrFormat("worker \"%s\" names generation %d of the consensus; use 0 to %d",
                                                      worker, held.generation(), kMaxGeneration));
  }
  if (held.generation() < run_->record.generation()) {
    return absl::AbortedError(absl::StrFormat(
        "an operator has replaced the consensus since worker \"%s\" joined; forget it and join again", worker));
  }
  if (seeded_here_ && IsAhead(held)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "worker \"%s\" holds version %d of the consensus, and this run, which began here, has %s; start "
        "it without its checkpoint",
        worker, NewestVersion(held), VersionText(FolderVersion())));
  }
  return absl::OkStatus();
}

bool Driver::Impl::IsAhead(const v1::HeldConsensus& held) const {
  bool ahead = held.versions_size() > 0 && held.generation() > run_->record.generation();
  for (int fragment = 0; fragment < held.versions_size(); ++fragment) {
    ahead |= held.versions(fragment) > machine_.NextRound(fragment);
  }
  return ahead;
}

// A member of an older copy of the folder comes back without joining again, also where a coordinator that was held for
// it was killed.
absl::Status Driver::Impl::HearHeld(const std::string& worker, const v1::HeldConsensus& held) {
  const absl::Status status = CheckHeld(worker, held);
  if (status.ok() && IsAhead(held) && !ahead_.contains(worker)) {
    NoteHeld(worker, held);
  }
  return absl::IsAborted(status) ? status : absl::OkStatus();
}

void Driver::Impl::NoteHeld(const std::string& worker, const v1::HeldConsensus& held) {
  ahead_.erase(worker);
  if (IsAhead(held)) {
    ahead_[worker] = held;
    newest_ahead_ = absl::StrFormat("worker \"%s\" held %s of the consensus", worker, HeldText(held));
    machine_.Hold(HeldBy::kLostDisk);
  } else if (donor_ == worker) {
    donor_.clear();
  }
  hold_stale_ |= FolderIsBehind();
}

int64_t Driver::Impl::FolderVersion() const {
  return run_ != nullptr && run_->keeper.seeded() && !seed_pending_ ? machine_.OldestOpenRound() : -1;
}

const std::string& Driver::Impl::FurthestAhead() const {
  return std::max_element(ahead_.begin(), ahead_.end(),
                          [](const auto& a, const auto& b) { return Rank(a.second) < Rank(b.second); })
      ->first;
}

// Where all is of one generation, versions say everything.
bool Driver::Impl::GenerationsDiffer() const {
  return std::any_of(ahead_.begin(), ahead_.end(),
                     [this](const auto& each) { return each.second.generation() != run_->record.generation(); });
}

std::string Driver::Impl::HeldText(const v1::HeldConsensus& held) const {
  return GenerationsDiffer() ? VersionText(NewestVersion(held), held.generation()) : VersionText(NewestVersion(held));
}

std::string Driver::Impl::BehindReason() const {
  const std::string folder = absl::StrFormat(
      "this data folder has %s",
      GenerationsDiffer() ? VersionText(FolderVersion(), run_->record.generation()) : VersionText(FolderVersion()));
  constexpr char kDiscard[] = "`dilococtl run recover --discard-workers`";
  if (ahead_.empty()) {
    return absl::StrFormat("%s, %s, and no worker has it any more; restore the folder, or %s", newest_ahead_, folder,
                           kDiscard);
  }
  const std::string& worker = donor_.empty() ? FurthestAhead() : donor_;
  const std::string found =
      absl::StrFormat("worker \"%s\" holds %s of the consensus and %s", worker, HeldText(ahead_.at(worker)), folder);
  if (!donor_.empty()) {
    return absl::StrFormat("%s; waiting for that worker to send it", found);
  }
  return absl::StrFormat(
      "%s: the disk was lost, or is an older copy; restore the folder, or `dilococtl run recover --from %s`, or %s",
      found, worker, kDiscard);
}

absl::Status Driver::Impl::CheckHandsOut() const {
  return FolderIsBehind() ? absl::UnavailableError(absl::StrFormat("the run is held: %s", BehindReason()))
                          : absl::OkStatus();
}

// What has an end record goes on from nothing else.
absl::Status Driver::Impl::CheckNotEnding() const {
  return end_ || pending_end_ ? absl::FailedPreconditionError(
                                    "the run has ended in this data folder, or is about to; restore the folder, or "
                                    "`dilococtl run recover --discard-workers`")
                              : absl::OkStatus();
}

absl::Status Driver::Impl::CheckDonor(const std::string& worker, bool force) const {
  const auto member = members_.find(worker);
  if (member == members_.end()) {
    return absl::NotFoundError(absl::StrFormat("there is no worker \"%s\"", BoundedReason(worker)));
  }
  const auto held = ahead_.find(worker);
  if (held == ahead_.end()) {
    return absl::FailedPreconditionError(absl::StrFormat("worker \"%s\" holds no more than the data folder", worker));
  }
  if (!machine_.IsMember(worker, member->second.incarnation)) {
    return absl::FailedPreconditionError(absl::StrFormat("worker \"%s\" is not alive", worker));
  }
  if (const int64_t version = NewestVersion(held->second); version > Config().run.rounds) {
    return absl::FailedPreconditionError(
        absl::StrFormat("worker \"%s\" holds version %d, and the run that the folder has is of %d rounds; "
                        "`dilococtl run extend --rounds N` first, to the length that the run had",
                        worker, version, Config().run.rounds));
  }
  const std::string& furthest = FurthestAhead();
  if (!force && Rank(held->second) < Rank(ahead_.at(furthest))) {
    return absl::FailedPreconditionError(
        absl::StrFormat("worker \"%s\" holds %s, and \"%s\" %s is further ahead; --force takes the "
                        "older one all the same",
                        worker, HeldText(held->second), furthest, HeldText(ahead_.at(furthest))));
  }
  return absl::OkStatus();
}

void Driver::Impl::RecoverConsensus(const v1::RecoverConsensusRequest& request,
                                    const PendingReply<v1::RecoverConsensusResponse>& reply) {
  const auto check = [&]() -> absl::Status {
    DILOCO_RETURN_IF_ERROR(CheckAdminRun(request.run_id()));
    if (!FolderIsBehind()) {
      return absl::FailedPreconditionError(
          "no worker holds more than the data folder has; there is nothing to recover");
    }
    if (request.worker_id().empty() != request.discard_workers()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("either name a worker or discard what workers hold; %s", BehindReason()));
    }
    if (!request.discard_workers()) {
      DILOCO_RETURN_IF_ERROR(CheckNotEnding());
    }
    if (!merging_.empty() || run_->keeper.busy() || seed_pending_) {
      return absl::FailedPreconditionError("a round is being committed, or a snapshot written; try again");
    }
    return request.discard_workers() ? absl::OkStatus() : CheckDonor(request.worker_id(), request.force());
  };
  if (const absl::Status status = check(); !status.ok()) {
    reply(status);
    return;
  }
  v1::RecoverConsensusResponse response;
  response.set_run_id(options_.config.run.id);
  response.set_folder_version(FolderVersion());
  response.set_version(request.discard_workers() ? FolderVersion() : NewestVersion(ahead_.at(request.worker_id())));
  reply(std::move(response));
  if (request.dry_run()) {
    return;
  }
  if (request.discard_workers()) {
    AcceptFolder();
    return;
  }
  donor_ = request.worker_id();
  directives_stale_ = true;
  hold_stale_ = true;
}

uint32_t Driver::Impl::NextGeneration() const {
  uint32_t newest = run_->record.generation();
  for (const auto& [worker, held] : ahead_) {
    newest = std::max(newest, held.generation());
  }
  return newest + 1;
}

void Driver::Impl::StartGeneration(v1::SnapshotRecord* header) const {
  *header->mutable_run() = run_->record;
  header->mutable_run()->set_generation(NextGeneration());
  header->clear_members();
  header->clear_settled_marks();
  for (const auto& [worker, info] : members_) {
    if (info.evicted || HasSettled(worker)) {
      *header->add_members() = FormerMemberRecordOf(worker, info);
    }
  }
}

bool Driver::Impl::HasSettled(const std::string& worker) const {
  for (int fragment = 0; fragment < run_->layout->fragment_count(); ++fragment) {
    if (machine_.SettledRound(worker, fragment) >= 0) {
      return true;
    }
  }
  return false;
}

v1::MemberRecord Driver::Impl::FormerMemberRecordOf(const std::string& worker, const MemberInfo& info) const {
  v1::MemberRecord record = MemberRecordOf(worker, info);
  record.set_incarnation(0);
  record.set_left(true);
  return record;
}

void Driver::Impl::AcceptFolder() {
  const auto start_again = [this] {
    StartAgain(absl::StrFormat("an operator accepted the data folder, which has %s", VersionText(FolderVersion())));
  };
  if (run_->keeper.seeded()) {
    v1::SnapshotRecord header = SnapshotHeaderNow();
    StartGeneration(&header);
    SubmitSnapshot(std::move(header), /*waits=*/true,
                   [start_again](const absl::Status&, const Store::SnapshotFile&) { start_again(); });
    return;
  }
  // There is nothing to take a snapshot of. The generation comes last: before it members only have to join again.
  for (const auto& [worker, info] : members_) {
    SubmitStore(
        [store = world_.store, record = FormerMemberRecordOf(worker, info)] { return store->AppendMember(record); },
        [] {});
  }
  v1::RunRecord record = run_->record;
  record.set_generation(NextGeneration());
  SubmitStore([store = world_.store, record] { return store->AppendRun(record); }, start_again);
}

void Driver::Impl::TakeConsensus(const v1::SeedRequest& first, std::string bytes,
                                 const PendingReply<v1::SeedResponse>& reply) {
  const auto check = [&]() -> absl::Status {
    DILOCO_RETURN_IF_ERROR(HearMember(first.run_id(), first.worker_id(), first.incarnation()));
    if (donor_.empty() || donor_ != first.worker_id()) {
      return absl::FailedPreconditionError(
          absl::StrFormat("worker \"%s\" was not asked for its consensus", first.worker_id()));
    }
    DILOCO_RETURN_IF_ERROR(CheckNotEnding());
    if (first.layout_digest().value() != run_->layout->digest().Bytes()) {
      return absl::FailedPreconditionError("the consensus is of another layout than the run; join again");
    }
    const auto size = static_cast<uint64_t>(run_->layout->element_count()) * sizeof(float) *
                      static_cast<uint64_t>(1 + optimizer_->state_arrays);
    if (first.total_bytes() != size || bytes.size() != size) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "the consensus has %d of %d announced bytes, the layout needs %d", bytes.size(), first.total_bytes(), size));
    }
    // The folder may be further, in some fragments, or in all where the worker's generation is newer.
    const int64_t held = NewestVersion(ahead_.at(donor_));
    if (first.version() < held || first.version() > Config().run.rounds) {
      return absl::InvalidArgumentError(
          absl::StrFormat("the consensus has version %d; worker \"%s\" held version %d, and the run is of %d rounds",
                          first.version(), donor_, held, Config().run.rounds));
    }
    if (first.has_scalars() != (first.version() > 0)) {
      return absl::InvalidArgumentError("step scalars come with every version but 0");
    }
    return first.has_scalars() ? ValidateStepScalars(StepScalarsFromProto(first.scalars())) : absl::OkStatus();
  };
  if (const absl::Status status = check(); !status.ok()) {
    reply(status);
    return;
  }
  GivenConsensus given{.status = {},
                       .worker = first.worker_id(),
                       .version = first.version(),
                       .same_generation = ahead_.at(donor_).generation() == run_->record.generation()};
  if (first.has_scalars()) {
    given.scalars = first.scalars();
  }
  auto shared = std::make_shared<const std::string>(std::move(bytes));
  Submit(
      world_.pool,
      [shared, given, layout = run_->layout, optimizer = optimizer_, pool = world_.pool] {
        GivenConsensus checked = given;
        std::vector<float> values(shared->size() / sizeof(float));
        std::memcpy(values.data(), shared->data(), shared->size());
        if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) {
          checked.status = absl::InvalidArgumentError("the consensus is not finite; take another worker's");
          return checked;
        }
        absl::StatusOr<ConsensusArrays> arrays = diloco::RestoreConsensus(*layout, optimizer, checked.version, values);
        checked.status = arrays.status();
        if (arrays.ok()) {
          checked.arrays = std::make_shared<const ConsensusArrays>(*std::move(arrays));
          checked.digests = checked.arrays->ComputeDigests(ParallelForOn(pool));
        }
        return checked;
      },
      [this, reply](const GivenConsensus& checked) {
        if (checked.status.ok()) {
          PersistConsensus(checked, reply);
        } else {
          reply(checked.status);
        }
      });
}

void Driver::Impl::PersistConsensus(const GivenConsensus& given, const PendingReply<v1::SeedResponse>& reply) {
  v1::SnapshotRecord header;
  StartGeneration(&header);
  header.set_version(given.version);
  v1::SeedResponse response;
  response.set_run_id(options_.config.run.id);
  for (const Digest& digest : given.digests) {
    *header.add_consensus_digests() = DigestToProto(digest);
    *response.add_consensus_digests() = DigestToProto(digest);
  }
  for (auto it = evaluations_.rbegin(); it != evaluations_.rend() && given.same_generation; ++it) {
    if (it->version() <= given.version) *header.add_evaluations() = *it;
  }
  if (given.scalars) {
    *header.mutable_scalars() = *given.scalars;
  }
  header.set_consensus_bytes(given.arrays->SizeBytes());
  SubmitStore(
      [store = world_.store, header, arrays = given.arrays] {
        return store->WriteSnapshot(header, arrays->InSnapshotOrder(), {});
      },
      [this, reply, response, worker = given.worker, version = given.version] {
        reply(response);
        StartAgain(absl::StrFormat("version %d of the consensus was taken from worker \"%s\"", version, worker));
      });
}

void Driver::Impl::StartAgain(const std::string& reason) {
  Halt(absl::UnavailableError("the coordinator starts again with another consensus; try again when it is back"));
  world_.observer->OnStartAgain(reason);
}

}  // namespace diloco
