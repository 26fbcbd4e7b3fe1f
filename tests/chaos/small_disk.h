// A disk of a few megabytes for one folder, seen by this process and its children only, that a test fills and frees.
#pragma once

#include <cstdint>
#include <string>

namespace diloco::testing {

class SmallDisk {
 public:
  // Mounts it on `folder`, which is created. `bytes` 0, or no right to mount: `folder` stays where it is.
  SmallDisk(std::string folder, int64_t bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  // Takes every byte that is left, until Free().
  void Fill();
  void Free();

 private:
  std::string filler() const { return folder_ + "/filler"; }

  const std::string folder_;
  bool mounted_ = false;
};

}  // namespace diloco::testing
