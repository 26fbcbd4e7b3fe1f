// A small disk of its own under a test, which can be filled or made read-only, and which only this process and its
// children see. Needs root and mount; where that is not allowed the test is skipped.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace diloco::testing {

class MountedDisk {
 public:
  // Memory; `folder` is created. For this thread and what it starts. Errors: kUnavailable: it cannot be mounted here.
  static absl::StatusOr<MountedDisk> Memory(const std::string& folder, int64_t bytes);
  // An ext4 file system in the file `image`, which becomes read-only at its first error. Errors: as above.
  static absl::StatusOr<MountedDisk> Image(const std::string& folder, const std::string& image, int64_t bytes);
  // Unmounts, if it is mounted.
  ~MountedDisk();
  MountedDisk(MountedDisk&& other) noexcept;
  MountedDisk& operator=(MountedDisk&&) = delete;

  // Leaves no byte free, and gives the space back.
  void Fill() const;
  void Free() const;
  // Of an image: an error of the file system, after which nothing can be written until it is mounted again.
  absl::Status BecomeReadOnly() const;
  // Of an image: nobody has a file of it open.
  absl::Status MountAgain();

 private:
  MountedDisk(std::string folder, std::string image) : folder_(std::move(folder)), image_(std::move(image)) {}
  std::string BallastPath() const { return folder_ + "/ballast"; }

  std::string folder_;  // Empty: moved from.
  std::string image_;   // Empty: memory.
};

}  // namespace diloco::testing
