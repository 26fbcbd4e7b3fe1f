// What the auditor makes of consensus, snapshots, the folder and the end.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/digest.h"
#include "tests/common/codec/naive_codec.h"
#include "tests/sim/check/auditor.h"
#include "tests/sim/heap.h"

namespace diloco::sim {

std::string Auditor::DigestAt(int fragment, int64_t version) const {
  const std::map<int64_t, std::string>& digests = fragments_.at(static_cast<size_t>(fragment)).digests;
  const auto found = digests.find(version);
  return found == digests.end() ? "not published" : found->second;
}

void Auditor::OnSnapshotGiven(const v1::SnapshotHeader& header, std::string_view consensus) {
  const HeapScope own(kHeapOfTest);
  size_t offset = 0;
  for (size_t f = 0; f < fragments_.size(); ++f) {
    const NaiveConsensus& naive = fragments_[f].consensus;
    const size_t bytes = naive.parameters.size() * (1 + naive.state.size()) * sizeof(float);
    const std::string digest = DigestOf(consensus.substr(std::min(offset, consensus.size()), bytes)).Bytes();
    offset += bytes;
    if (digest != DigestAt(static_cast<int>(f), header.version()) ||
        digest != header.consensus_digests(static_cast<int>(f)).value()) {
      Fail(absl::StrFormat("a snapshot of version %d is handed out whose fragment %d is not the published consensus",
                           header.version(), f));
    }
  }
}

void Auditor::VerifyEnd(const v1::EndRecord& end) {
  Require(lengths_.contains(end.rounds()) || (stop_asked_ && end.rounds() < *lengths_.rbegin()),
          "the end record counts other rounds than the run has");
  for (size_t f = 0; f < fragments_.size(); ++f) {
    Require(static_cast<int>(f) < end.consensus_digests_size() &&
                end.consensus_digests(static_cast<int>(f)).value() == DigestAt(static_cast<int>(f), end.rounds()),
            absl::StrFormat("the end record's digest of fragment %d is wrong", f));
  }
  for (const v1::SettledContribution& line : end.settled()) {
    const Name name(line.id().worker_id(), static_cast<int>(line.id().fragment()), line.id().round());
    Require(!settled_.contains(name), absl::StrCat("the end record settles the ", NameOf(name), " once more"));
    Require(line.settlement() != v1::SETTLEMENT_MERGED, "the end record merges");
    Settle(line);
  }
  for (const Name& name : stored_) Fail(absl::StrCat("the ", NameOf(name), " was acknowledged and never settled"));
}

void Auditor::OnCoordinatorDied(FileSystem* files, const std::string& folder) {
  const HeapScope own(kHeapOfTest);
  admitted_.clear();
  stored_.clear();  // Contributions are not journaled: the workers keep them.
  residual_known_ = false;
  const FolderScan scan = ScanFolder(files, folder);
  if (lost_ || scan.generation > generation_) return;
  const int64_t covered = scan.snapshots.empty() ? 0 : scan.snapshots.rbegin()->first;
  for (const Place& place : given_) {
    if (place.second < covered) continue;
    const auto found = scan.deltas.find(place);
    if (found == scan.deltas.end()) {
      return Fail(absl::StrFormat("fragment %d, round %d was published, and is gone after the crash", place.first,
                                  place.second));
    }
    const Delta& delta = published_.at(place);
    if (found->second.back() != delta.commit) {
      return Fail(absl::StrFormat("fragment %d, round %d was published, and is another after the crash", place.first,
                                  place.second));
    }
  }
  if (end_given_ && scan.end != end_) return Fail("the end record was published, and is gone after the crash");
}

void Auditor::OnCoordinatorRecovered(FileSystem* files, const std::string& folder) {
  const HeapScope own(kHeapOfTest);
  const FolderScan scan = ScanFolder(files, folder);
  if (scan.generation > generation_) return StartGeneration(scan);
  if (lost_) return;
  if (!scan.end.empty()) end_ = scan.end;
  TakeRecovered(scan);
}

void Auditor::OnFinished(FileSystem* files, const std::string& folder) {
  const FolderScan scan = ScanFolder(files, folder);
  if (scan.snapshots.empty()) return Fail("the run has ended without a snapshot");
  Require(!scan.end.empty() && scan.end == end_, "the folder does not hold the end record that was published");
  v1::EndRecord end;
  Require(end.ParseFromString(end_) && rounds_published() == end.rounds(),
          "the run has finished, but not all rounds are published");
  // The oldest snapshot and the journals behind it lead to the final consensus.
  const auto& [version, snapshot] = *scan.snapshots.begin();
  size_t offset = 0;
  for (size_t f = 0; f < fragments_.size(); ++f) {
    NaiveConsensus replayed = fragments_[f].consensus;
    const size_t bytes = replayed.parameters.size() * sizeof(float);
    const auto take = [&, &raw = snapshot.raw](std::vector<float>& out) {
      if (offset + bytes <= raw.size()) std::memcpy(out.data(), raw.data() + offset, bytes);
      offset += bytes;
    };
    take(replayed.parameters);
    for (std::vector<float>& array : replayed.state) take(array);
    for (int64_t round = version; round < end.rounds(); ++round) {
      const auto found = scan.deltas.find({static_cast<int>(f), round});
      if (found == scan.deltas.end()) return Fail(absl::StrFormat("the folder lacks fragment %d, round %d", f, round));
      std::string payload;
      v1::SubscribeResponse message;
      for (const std::string& each : found->second) {
        if (message.ParseFromString(each) && message.has_chunk()) payload += message.chunk().payload();
      }
      replayed.Apply(config_.outer.optimizer, message.commit().scalars(),
                     testing::NaiveDecode(config_.wire.downlink, payload, replayed.parameters.size()));
    }
    Require(replayed.Digest() == DigestAt(static_cast<int>(f), end.rounds()),
            absl::StrFormat("the folder's replay of fragment %d ends at another consensus than was published", f));
  }
}

}  // namespace diloco::sim
