// Where the coordinator can die: every place at which it has just done, or is about to do, something that can be seen
// from outside its driver. Each is named by the seam that sees it (disk, pool, machine effects) and has two sides.
//
//   "disk append journal commit delta"   a change of the file system; appends can also be torn within
//   "work merge"                         a task of the pool
//   "effect PersistCommit"               an effect of the round machine
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace diloco::sim {

enum class CrashSide { kBefore, kWithin, kAfter };

class CrashPoints {
 public:
  struct Count {
    uint64_t passed = 0;
    uint64_t died = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  using Key = std::pair<std::string, CrashSide>;

  // The coordinator comes by. True: it is to die here.
  bool Pass(const std::string& name, CrashSide side) {
    Count& count = counts_[{name, side}];
    ++count.passed;
    if (countdown_ && (!wanted_ || (wanted_->first == name && wanted_->second == side)) && (*countdown_)-- == 0) {
      countdown_.reset();
      ++count.died;
      return true;
    }
    return false;
  }
  // It dies at the `nth` point from now, from 0; or at the nth of that name and side.
  void ArmAt(uint64_t nth, std::optional<Key> wanted = std::nullopt) {
    countdown_ = nth;
    wanted_ = std::move(wanted);
  }
  void Disarm() { countdown_.reset(); }
  bool armed() const { return countdown_.has_value(); }

  const std::map<Key, Count>& counts() const { return counts_; }

 private:
  std::map<Key, Count> counts_;
  std::optional<uint64_t> countdown_;
  std::optional<Key> wanted_;
};

}  // namespace diloco::sim
