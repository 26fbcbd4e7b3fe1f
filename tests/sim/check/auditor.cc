#include "tests/sim/check/auditor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "common/base/check.h"
#include "common/base/digest.h"
#include "tests/common/codec/naive_codec.h"
#include "tests/sim/heap.h"

namespace diloco::sim {
namespace {

constexpr size_t kNotes = 40;
// Rounds whose messages and contributions are remembered: more than anybody can still be given or send.
constexpr int64_t kRoundsKept = 256;

}  // namespace

Auditor::Auditor(const RunConfig& config, std::vector<FragmentFacts> fragments, const EventLoop* loop)
    : config_(config),
      loop_(*loop),
      rounding_({.stochastic = config.wire.stochastic_rounding, .seed = config.run.seed}),
      facts_(std::move(fragments)),
      earlier_(facts_.size()),
      rounds_(&config_, loop),
      lengths_({config.run.rounds}) {
  for (const FragmentFacts& facts : facts_) {
    Fragment& fragment = fragments_.emplace_back();
    fragment.residual.assign(facts.initial.size(), 0.0f);
    fragment.consensus.Start(config.outer.optimizer, facts.initial, facts.decayed);
    fragment.digests[fragment.consensus.version] = fragment.consensus.Digest();
  }
}

void Auditor::Fail(const std::string& rule) {
  const HeapScope own(kHeapOfTest);
  if (failure_) return;
  failure_ = rule;
  Note(absl::StrCat("RULE BROKEN: ", rule));
}

void Auditor::Note(const std::string& line) {
  const HeapScope own(kHeapOfTest);
  notes_.push_back(absl::StrFormat("%10.4f s  %s", absl::ToDoubleSeconds(loop_.Elapsed()), line));
  if (notes_.size() > kNotes) notes_.pop_front();
}

std::string Auditor::NameOf(const Name& name) {
  return absl::StrFormat("contribution of %s for fragment %d, round %d", std::get<0>(name), std::get<1>(name),
                         std::get<2>(name));
}

int64_t Auditor::rounds_published() const {
  int64_t rounds = *lengths_.rbegin();
  for (const Fragment& fragment : fragments_) rounds = std::min(rounds, fragment.consensus.version);
  return rounds;
}

// ---- Rounds ----

void Auditor::OnPaused(bool paused) {
  Note(paused ? "paused by an operator" : "an operator lets the run go on");
  rounds_.OnPaused(paused);
}

void Auditor::OnHold(const std::string& reason) {
  const HeapScope own(kHeapOfTest);
  Note(reason.empty() ? "the run goes on" : absl::StrCat("held: ", reason));
  rounds_.OnHold(reason);
}

void Auditor::OnRoundWaiting(int fragment, int64_t round, const std::string& reason) {
  const HeapScope own(kHeapOfTest);
  FailIf(rounds_.OnWaiting(fragment, round, reason));
}

void Auditor::OnRoundClosed(int fragment, int64_t round) {
  const HeapScope own(kHeapOfTest);
  rounds_.OnClosed(fragment, round);
}

void Auditor::OnRoundCommitted(int fragment, int64_t round, const std::string& reason) {
  const HeapScope own(kHeapOfTest);
  FailIf(rounds_.OnCommitted(fragment, round, reason));
}

// ---- Contributions ----

void Auditor::OnSent(const v1::UploadRequest& request) {
  const HeapScope own(kHeapOfTest);
  const Name name(request.worker_id(), static_cast<int>(request.fragment()), request.round());
  Sent& sent = sent_[{name, request.contribution_digest().value()}];
  sent.weight = request.weight();
  sent.bytes.resize(request.contribution_bytes());
  const uint64_t offset = uint64_t{request.chunk_index()} * request.chunk_bytes();
  std::copy(request.payload().begin(), request.payload().end(),
            sent.bytes.begin() + static_cast<std::ptrdiff_t>(offset));
}

void Auditor::OnAdmitted(const std::string& worker, uint64_t incarnation) {
  const HeapScope own(kHeapOfTest);
  admitted_[worker] = incarnation;
}

void Auditor::OnAnswered(uint64_t /*life*/, const v1::UploadRequest& request, v1::ContributionVerdict verdict) {
  const HeapScope own(kHeapOfTest);
  if (verdict != v1::CONTRIBUTION_VERDICT_STORED) return;
  const Name name(request.worker_id(), static_cast<int>(request.fragment()), request.round());
  const auto admitted = admitted_.find(request.worker_id());
  if (admitted != admitted_.end() && admitted->second != request.incarnation()) {
    Fail(absl::StrFormat("%s of incarnation %d was acknowledged as stored, but %d has taken its place", NameOf(name),
                         request.incarnation(), admitted->second));
  }
  if (!settled_.contains(name)) stored_.insert(name);
  rounds_.OnStored(std::get<1>(name), std::get<2>(name));
}

// ---- Global deltas ----

void Auditor::OnJournaled(std::string_view message) {
  const HeapScope own(kHeapOfTest);
  v1::SubscribeResponse item;
  DILOCO_CHECK(item.ParseFromArray(message.data(), static_cast<int>(message.size())));
  if (item.has_end()) {
    end_ = item.end().SerializeAsString();
    return;
  }
  const Place place = item.has_chunk()     ? Place(item.chunk().fragment(), item.chunk().round())
                      : item.has_settled() ? Place(item.settled().fragment(), item.settled().round())
                                           : Place(item.commit().fragment(), item.commit().round());
  Delta& delta = journaled_[place];
  if (item.has_chunk()) {
    delta.chunks.resize(item.chunk().index());  // A new one begins with chunk 0.
    delta.chunks.emplace_back(message);
  } else {
    (item.has_settled() ? delta.settled : delta.commit) = message;
  }
}

void Auditor::OnPublished(int fragment, int64_t round) {
  const HeapScope own(kHeapOfTest);
  const Place place(fragment, round);
  const auto journaled = journaled_.find(place);
  if (const auto before = published_.find(place); before != published_.end()) {
    // By a coordinator that lost it, before whoever has it has said so. The same again does no harm.
    if (!lost_ || journaled == journaled_.end() || journaled->second.chunks != before->second.chunks ||
        journaled->second.settled != before->second.settled) {
      return Fail(absl::StrFormat("fragment %d, round %d is published twice", fragment, round));
    }
    before->second = std::move(journaled->second);
    journaled_.erase(journaled);
    return;
  }
  if (journaled == journaled_.end() || journaled->second.commit.empty()) {
    return Fail(absl::StrFormat("fragment %d, round %d is published, but was not journaled", fragment, round));
  }
  Verify(place, journaled->second);
  published_[place] = std::move(journaled->second);
  journaled_.erase(journaled);
}

void Auditor::OnGiven(const std::string& worker, std::string_view message) {
  const HeapScope own(kHeapOfTest);
  v1::SubscribeResponse item;
  if (!item.ParseFromArray(message.data(), static_cast<int>(message.size()))) return Fail("a message cannot be read");
  if (item.has_resync()) return;
  if (item.has_end()) {
    if (end_.empty() || item.end().SerializeAsString() != end_)
      Fail("an end record is given that is not the journal's");
    if (!std::exchange(end_given_, true)) VerifyEnd(item.end());
    return;
  }
  if (item.has_run_settings()) {
    told_[worker] = item.run_settings();
    return;
  }
  const Place place = item.has_chunk()     ? Place(item.chunk().fragment(), item.chunk().round())
                      : item.has_settled() ? Place(item.settled().fragment(), item.settled().round())
                                           : Place(item.commit().fragment(), item.commit().round());
  const auto published = published_.find(place);
  if (published == published_.end()) {
    return Fail(absl::StrFormat("%s is given fragment %d, round %d, which is not published", worker, place.first,
                                place.second));
  }
  const Delta& delta = published->second;
  const bool same = item.has_chunk()
                        ? item.chunk().index() < delta.chunks.size() && delta.chunks[item.chunk().index()] == message
                    : item.has_settled() ? delta.settled == message
                                         : delta.commit == message;
  if (!same) {
    Fail(absl::StrFormat("%s is given other bytes for fragment %d, round %d than were published", worker, place.first,
                         place.second));
  }
  if (item.has_commit()) {
    given_.insert(place);
    CheckRate(worker, item.commit());
  }
}

// Whoever gets an average has been told of every change that it follows.
void Auditor::CheckRate(const std::string& worker, const v1::GlobalDeltaCommit& commit) {
  if (config_.method == "data-parallel") return;  // Its rate follows a schedule.
  double rate = config_.outer.rate;
  int64_t since = 0;
  for (const v1::RunChange& change : told_[worker].changes()) {
    for (const v1::Setting& setting : change.settings()) {
      if (setting.key() != "outer.rate" || change.from_round() > commit.round() || change.from_round() < since)
        continue;
      since = change.from_round();
      rate = std::stod(setting.value());
    }
  }
  Require(commit.scalars().rate() == static_cast<float>(rate),
          absl::StrFormat("round %d has the rate %g, and %s was told %g", commit.round(), commit.scalars().rate(),
                          worker, rate));
}

void Auditor::Verify(const Place& place, const Delta& delta) {
  v1::SubscribeResponse message;
  DILOCO_CHECK(message.ParseFromString(delta.commit));
  const v1::GlobalDeltaCommit commit = message.commit();
  const std::string where = absl::StrFormat("fragment %d, round %d: ", place.first, place.second);
  Fragment& fragment = fragments_.at(static_cast<size_t>(place.first));
  if (fragment.consensus.version != place.second) {
    return Fail(absl::StrCat(where, "published after version ", fragment.consensus.version));
  }
  DILOCO_CHECK(message.ParseFromString(delta.settled));
  const v1::SettledList settled = message.settled();
  Require(DigestOf(settled.SerializeAsString()).Bytes() == commit.settled_digest().value(),
          where + "the settled list is another than the commit record's");
  uint32_t merged = 0;
  std::pair<std::string, int64_t> before{"", -1};
  for (const v1::SettledContribution& line : settled.settled()) {
    const std::pair<std::string, int64_t> key(line.id().worker_id(), line.id().round());
    Require(before < key, where + "the settled list is not in order, or names one twice");
    before = key;
    VerifyLine(place, line);
    merged += line.settlement() == v1::SETTLEMENT_MERGED ? 1 : 0;
  }
  Require(merged == commit.merged_count(), where + "merged_count does not count the settled list");
  if (failed()) return;

  std::string payload;
  for (const std::string& chunk : delta.chunks) {
    DILOCO_CHECK(message.ParseFromString(chunk));
    payload += message.chunk().payload();
  }
  Require(delta.chunks.size() == commit.chunk_count() && DigestOf(payload).Bytes() == commit.payload_digest().value(),
          where + "the chunks do not make up the payload");
  const std::string expected = NaivePayload(place, NaiveAverage(place, settled));
  Require(expected.empty() || payload == expected, where + "the average is not that of what the settled list merges");
  Require(commit.consensus_version() <= place.second &&
              commit.consensus_digest().value() == DigestAt(place.first, commit.consensus_version()),
          where + "the commit record's consensus digest is wrong");
  if (failed()) return;
  for (const v1::SettledContribution& line : settled.settled()) Settle(line);
  const size_t elements = fragment.consensus.parameters.size();
  fragment.consensus.Apply(config_.outer.optimizer, commit.scalars(),
                           testing::NaiveDecode(config_.wire.downlink, payload, elements));
  fragment.digests[fragment.consensus.version] = fragment.consensus.Digest();
  ++verified_;
  merged_ += merged;
  if (place.second % kRoundsKept == 0) Forget(place.second - kRoundsKept);
}

void Auditor::Forget(int64_t before) {
  for (Fragment& fragment : fragments_) {
    std::erase_if(fragment.digests, [before](const auto& each) { return each.first < before; });
  }
  std::erase_if(published_, [before](const auto& each) { return each.first.second < before; });
  std::erase_if(given_, [before](const Place& place) { return place.second < before; });
  std::erase_if(settled_, [before](const auto& each) { return std::get<2>(each.first) < before; });
  std::erase_if(sent_, [before](const auto& each) { return std::get<2>(each.first.first) < before; });
}

void Auditor::VerifyLine(const Place& place, const v1::SettledContribution& line) {
  const Name name(line.id().worker_id(), static_cast<int>(line.id().fragment()), line.id().round());
  const std::string what = absl::StrFormat("the settled list of fragment %d, round %d names the %s, ", place.first,
                                           place.second, NameOf(name));
  Require(std::get<1>(name) == place.first && std::get<2>(name) <= place.second, what + "which is not its to settle");
  const auto settled = settled_.find(name);
  if (settled != settled_.end()) {
    Fail(absl::StrCat(what, "which round ", settled->second.second, " has settled"));
  }
  const auto sent = sent_.find({name, line.digest().value()});
  Require(sent != sent_.end(), what + "with bytes that its worker never sent under that name");
  if (sent == sent_.end()) return;
  const bool merged = line.settlement() == v1::SETTLEMENT_MERGED;
  Require(line.weight() == (merged ? sent->second.weight : 0), what + "with another weight than its worker gave it");
  const bool late = std::get<2>(name) < place.second;
  Require(!merged || !late || config_.rounds.late == LatePolicy::kMerge, what + "merged, though late ones are dropped");
  Require(line.settlement() != v1::SETTLEMENT_DROPPED_LATE || (late && config_.rounds.late == LatePolicy::kDrop),
          what + "dropped as late, which it is not");
}

std::vector<float> Auditor::NaiveAverage(const Place& place, const v1::SettledList& settled) {
  const size_t elements = fragments_.at(static_cast<size_t>(place.first)).consensus.parameters.size();
  double total = 0;
  for (const v1::SettledContribution& line : settled.settled()) total += line.weight();
  std::vector<float> average(elements, 0.0f);
  for (const v1::SettledContribution& line : settled.settled()) {
    if (line.settlement() != v1::SETTLEMENT_MERGED) continue;
    const Name name(line.id().worker_id(), place.first, line.id().round());
    const std::vector<float> decoded =
        testing::NaiveDecode(config_.wire.uplink, sent_.at({name, line.digest().value()}).bytes, elements);
    const float factor = static_cast<float>(line.weight() / total);
    for (size_t i = 0; i < elements; ++i) average[i] += factor * decoded[i];
  }
  return average;
}

// Empty: not known, because a crash took the downlink's residual.
std::string Auditor::NaivePayload(const Place& place, std::vector<float> average) {
  const Rounding rounding = rounding_.For(place.second, place.first);
  if (!config_.wire.downlink_feedback()) return testing::NaiveEncode(config_.wire.downlink, average, rounding);
  if (!residual_known_) return "";
  std::vector<float>& residual = fragments_.at(static_cast<size_t>(place.first)).residual;
  for (size_t i = 0; i < average.size(); ++i) average[i] += residual[i];
  std::string payload = testing::NaiveEncode(config_.wire.downlink, average, rounding);
  const std::vector<float> decoded = testing::NaiveDecode(config_.wire.downlink, payload, average.size());
  for (size_t i = 0; i < average.size(); ++i) residual[i] = average[i] - decoded[i];
  return payload;
}

void Auditor::Settle(const v1::SettledContribution& line) {
  const Name name(line.id().worker_id(), static_cast<int>(line.id().fragment()), line.id().round());
  settled_[name] = Place(std::get<1>(name), std::get<2>(name));
  stored_.erase(name);
}

}  // namespace diloco::sim
