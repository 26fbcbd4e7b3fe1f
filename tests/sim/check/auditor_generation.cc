// What the auditor makes of a coordinator that lost its disk: who holds what, and the next generation of the consensus.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"

#include "tests/sim/check/auditor.h"
#include "tests/sim/heap.h"

namespace diloco::sim {

void Auditor::OnJoined(const std::string& worker, uint32_t generation) {
  const HeapScope own(kHeapOfTest);
  joined_[worker] = generation;
}

void Auditor::OnWorkerDied(const std::string& worker, uint64_t /*incarnation*/) {
  joined_.erase(worker);
  reached_.erase(worker);
}

void Auditor::OnConsensus(const std::string& worker, int fragment, int64_t version, const Digest& digest) {
  const HeapScope own(kHeapOfTest);
  const auto joined = joined_.find(worker);
  const bool earlier = joined != joined_.end() && joined->second < generation_;
  if (!earlier) reached_[worker][fragment] = version;
  const bool right = earlier ? earlier_.at(static_cast<size_t>(fragment)).contains({version, digest.Bytes()})
                             : digest.Bytes() == DigestAt(fragment, version);
  if (!right) {
    Fail(absl::StrFormat("%s has another consensus of fragment %d at version %d than was published", worker, fragment,
                         version));
  }
}

bool Auditor::IsBehind(FileSystem* files, const std::string& folder) const {
  const FolderScan scan = ScanFolder(files, folder);
  const bool older = scan.generation < generation_;
  for (const auto& [worker, versions] : reached_) {
    for (const auto& [fragment, version] : versions) {
      int64_t next = scan.snapshots.empty() ? 0 : scan.snapshots.rbegin()->first;
      while (scan.deltas.contains({fragment, next})) ++next;
      if (older || version > next) return true;
    }
  }
  return false;
}

void Auditor::StartGeneration(const FolderScan& scan) {
  Note(absl::StrFormat("generation %d begins at version %d", scan.generation,
                       scan.snapshots.empty() ? -1 : scan.snapshots.rbegin()->first));
  Require(lost_, "there is a new generation of the consensus, and nobody has asked for one");
  for (size_t f = 0; f < fragments_.size(); ++f) {
    earlier_[f].insert(fragments_[f].digests.begin(), fragments_[f].digests.end());
  }
  generation_ = scan.generation;
  lost_ = false;
  // Everybody forgets what it holds, contributions too, and what an operator changed may be forgotten with the disk.
  told_.clear();
  stored_.clear();
  settled_.clear();
  journaled_.clear();
  published_.clear();
  given_.clear();
  reached_.clear();
  residual_known_ = false;
  for (size_t f = 0; f < fragments_.size(); ++f) {
    fragments_[f].consensus = {};
    fragments_[f].consensus.Start(config_.outer.optimizer, facts_[f].initial, facts_[f].decayed);
  }
  if (!scan.snapshots.empty()) TakeBase(scan.snapshots.rbegin()->second);
  for (Fragment& fragment : fragments_) {
    // Global deltas that the folder holds besides may name older versions.
    std::erase_if(fragment.digests, [&](const auto& each) { return each.first > fragment.consensus.version; });
    fragment.digests[fragment.consensus.version] = fragment.consensus.Digest();
  }
  TakeRecovered(scan);
}

// Of each fragment a version that was published, and no newer one than the snapshot says; of one of them that one.
void Auditor::TakeBase(const FolderScan::Snapshot& snapshot) {
  size_t offset = 0;
  bool newest = false;
  for (size_t f = 0; f < fragments_.size(); ++f) {
    NaiveConsensus& consensus = fragments_[f].consensus;
    const size_t bytes = consensus.parameters.size() * sizeof(float);
    const auto take = [&](std::vector<float>& out) {
      if (offset + bytes <= snapshot.raw.size()) std::memcpy(out.data(), snapshot.raw.data() + offset, bytes);
      offset += bytes;
    };
    take(consensus.parameters);
    for (std::vector<float>& array : consensus.state) take(array);
    consensus.version = snapshot.record.version();
    const std::string digest = consensus.Digest();
    // Versions may be equal, where a round had nothing to merge.
    const bool known = std::any_of(earlier_[f].begin(), earlier_[f].end(), [&](const auto& each) {
      return each.second == digest && each.first <= consensus.version;
    });
    if (!known) {
      return Fail(absl::StrFormat("the new generation begins, for fragment %d, with what was never published", f));
    }
    newest |= earlier_[f].contains({consensus.version, digest});
  }
  Require(newest, "the new generation begins with older versions than it says");
}

void Auditor::TakeRecovered(const FolderScan& scan) {
  for (size_t f = 0; f < fragments_.size(); ++f) {
    const int fragment = static_cast<int>(f);
    for (auto found = scan.deltas.find({fragment, fragments_[f].consensus.version}); found != scan.deltas.end();
         found = scan.deltas.find({fragment, fragments_[f].consensus.version})) {
      for (const std::string& message : found->second) OnJournaled(message);
      OnPublished(found->first.first, found->first.second);
      if (failed()) return;
    }
  }
}

}  // namespace diloco::sim
