// From a round's fixed set to its published global delta, and the end of the run.
#include <utility>

#include "common/base/check.h"
#include "common/schedule/outer_schedule.h"
#include "coordinator/driver/driver_impl.h"
#include "coordinator/driver/thread_pool.h"
#include "coordinator/driver/wire.h"

namespace diloco {

DeltaHeader Driver::Impl::HeaderOf(int fragment, int64_t round) const {
  return {.run_id = options_.config.run.id,
          .fragment = fragment,
          .round = round,
          .codec = downlink_,
          .elements = static_cast<uint64_t>(run_->layout->fragments()[static_cast<size_t>(fragment)].count)};
}

void Driver::Impl::Carry(const StartMerge& effect) {
  struct Input {
    StagedBytes bytes;
    double weight = 0;
  };
  std::vector<Input> inputs;
  for (const Settled& line : effect.merged) {
    inputs.push_back({.bytes = staging_.Bytes(line.id), .weight = line.weight});
    DILOCO_CHECK(inputs.back().bytes != nullptr);
  }
  const DeltaHeader header = HeaderOf(effect.fragment, effect.round);
  merging_[{effect.fragment, effect.round}].started = Now();
  struct Merged {
    EncodedAverage average;
    Residual residual;  // After the merge; null without error feedback.
  };
  Submit(
      world_.pool,
      [inputs = std::move(inputs), header, uplink = uplink_, pool = world_.pool,
       rounding = rounding_.For(effect.round, effect.fragment),
       before = run_->residuals ? run_->residuals->Newest(effect.fragment) : nullptr]() -> absl::StatusOr<Merged> {
        std::vector<MergeInput> views;
        for (const Input& input : inputs) {
          views.push_back({.encoded = *input.bytes, .weight = input.weight});
        }
        const auto residual = before != nullptr ? std::make_shared<std::vector<float>>(*before) : nullptr;
        MergeOptions options{.rounding = rounding};
        if (residual != nullptr) {
          options.residual = absl::MakeSpan(*residual);
        }
        const absl::StatusOr<MergeResult> merged =
            Merge(views, header.elements, *uplink, *header.codec, ParallelForOn(pool), options);
        if (!merged.ok()) {
          return merged.status();
        }
        return Merged{EncodeAverage(header, *merged), residual};
      },
      [this, effect](absl::StatusOr<Merged> merged) {
        if (!merged.ok()) {
          Fail(merged.status());  // Each contribution was checked, so that this cannot be the world's fault.
          return;
        }
        if (run_->residuals) {
          run_->residuals->Add(effect.fragment, effect.round + 1, std::move(merged->residual));
        }
        MergingRound& merging = merging_.at({effect.fragment, effect.round});
        merging.norm = merged->average.norm;
        merging.average = std::move(merged->average);
        world_.observer->OnMerged(effect.fragment, effect.round, Now() - merging.started, merging.norm);
        Step(MergeFinished{effect.fragment, effect.round});
      });
}

void Driver::Impl::Carry(const PersistCommit& effect) {
  MergingRound& merging = merging_.at({effect.fragment, effect.round});
  for (RoundView& view : machine_.OpenRounds(effect.fragment, Now())) {
    if (view.round == effect.round) {
      merging.view = std::move(view);
    }
  }
  const CommitFacts facts{.scalars = ComputeStepScalars(settings_.At(effect.round), effect.round, merging.norm,
                                                        effect.participating_weight),
                          .settled = effect.settled,
                          .consensus_version = run_->keeper.version(),
                          .consensus_digest = run_->keeper.digests()[static_cast<size_t>(effect.fragment)]};
  merging.delta = BuildDelta(HeaderOf(effect.fragment, effect.round), std::move(merging.average), facts);
  journaled_.push_back(merging.delta);
  SubmitStore([store = world_.store, delta = merging.delta] { return store->AppendGlobalDelta(*delta); },
              [this, effect] {
                Step(CommitPersisted{effect.fragment, effect.round});
              });
}

void Driver::Impl::Carry(const PublishGlobalDelta& effect) {
  const auto it = merging_.find({effect.fragment, effect.round});
  DILOCO_CHECK(it != merging_.end());
  const MergingRound merging = std::move(it->second);
  merging_.erase(it);
  run_->log.Publish(merging.delta);
  run_->keeper.Add(merging.delta);
  for (const v1::SettledContribution& line : merging.delta->settled.settled()) {
    world_.observer->OnSettled(line.settlement(), line.id().round() < effect.round);
  }
  world_.observer->OnPublished(merging.delta->commit.payload_bytes(), run_->log.subscribers());
  if (merging.view) {
    run_->rounds.Add(*merging.delta, *merging.view, merging.norm, Now());
    const auto merged = static_cast<int>(merging.delta->commit.merged_count());
    world_.observer->OnCommitted(effect.fragment, effect.round, Now() - merging.view->opened, merged,
                                 merging.delta->settled.settled_size() - merged, merging.view->reason);
    if (machine_.OldestOpenRound() > effect.round) {
      world_.observer->OnRoundCommitted(run_->rounds.SummaryOf(effect.round, Now()));
    }
  }
  DropStaleStaging();
  AdvanceConsensus();
}

void Driver::Impl::Carry(const ReleaseContribution& effect) { staging_.Drop(effect.id); }

// Incomplete bytes of a worker that is lost when a round closes are not kept: it sends them again if it comes back.
void Driver::Impl::DropStaleStaging() {
  for (const MemberView& member : machine_.Members()) {
    if (member.state != MemberState::kAlive) {
      DiscardIncomplete(member.worker, 0);
    }
  }
}

void Driver::Impl::Carry(const PersistEnd& effect) {
  pending_end_ = effect;
  AdvanceConsensus();
}

// All rounds are applied and the final consensus is in a snapshot, so that the end record stays in the journal behind
// it for good.
void Driver::Impl::PersistEndRecord() {
  v1::EndRecord end;
  end.set_run_id(options_.config.run.id);
  end.set_rounds(run_->keeper.version());
  for (const Digest& digest : run_->keeper.digests()) {
    *end.add_consensus_digests() = DigestToProto(digest);
  }
  *end.mutable_settled() = SettledToProto(pending_end_->settled);
  pending_end_.reset();
  SubmitStore([store = world_.store, end] { return store->AppendEnd(end); },
              [this, end] {
                end_ = end;
                Step(EndPersisted{});
              });
}

void Driver::Impl::Carry(const PublishEnd&) {
  for (const v1::SettledContribution& line : end_->settled()) {
    world_.observer->OnSettled(line.settlement(), /*late=*/false);
  }
  run_->log.PublishEnd(EndMessage(*end_));
  staging_.Clear();
  AdvanceConsensus();
}

}  // namespace diloco
