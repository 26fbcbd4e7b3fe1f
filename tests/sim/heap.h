// Whose memory it is. The processes of a simulated cluster share one heap; every allocation by operator new is charged
// to the account that is current then, and given back to it wherever it is freed. One thread.
#pragma once

#include <cstdint>

namespace diloco::sim {

// The test's own: the auditor, what the network carries, the disk. The others are processes'.
inline constexpr int kHeapOfTest = 0;
inline constexpr int kHeapOfCoordinator = 1;
inline constexpr int kHeapOfFirstWorker = 2;
inline constexpr int kHeaps = 16;

// Bytes that were asked for and are not freed; what the allocator adds is not in them. Below 0 once memory is freed
// that was there when the count began.
int64_t HeapBytes(int heap);
// The counts begin anew, at 0.
void ForgetHeaps();

// What is allocated during its life is charged to `heap`.
class HeapScope {
 public:
  explicit HeapScope(int heap);
  ~HeapScope();
  HeapScope(const HeapScope&) = delete;
  HeapScope& operator=(const HeapScope&) = delete;

 private:
  const int before_;
};

}  // namespace diloco::sim
