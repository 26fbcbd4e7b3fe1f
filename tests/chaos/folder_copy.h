// Keeps every journal and snapshot of a data folder although retention removes them: a second name for each file, which
// costs no bytes and shows what is appended or cut later.
#pragma once

#include <string>
#include <thread>

namespace diloco::testing {

class FolderCopy {
 public:
  // `from` is created when absent; `to` must be in the same file system.
  FolderCopy(std::string from, std::string to);
  ~FolderCopy();
  FolderCopy(const FolderCopy&) = delete;
  FolderCopy& operator=(const FolderCopy&) = delete;

  // Takes over what is there now and returns the folder.
  const std::string& CatchUp();

 private:
  void Run();
  void Link();

  const std::string from_;
  const std::string to_;
  int notify_ = -1;
  int stop_ = -1;
  std::thread thread_;
};

}  // namespace diloco::testing
