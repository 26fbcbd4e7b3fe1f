#include "tests/sim/heap.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "common/base/check.h"

namespace diloco::sim {
namespace {

struct alignas(std::max_align_t) BlockHeader {
  size_t bytes = 0;
  int heap = kHeapOfTest;
};

int current_heap = kHeapOfTest;
int64_t held_bytes[kHeaps];

}  // namespace

int64_t HeapBytes(int heap) { return held_bytes[heap]; }

void ForgetHeaps() { std::fill(std::begin(held_bytes), std::end(held_bytes), 0); }

HeapScope::HeapScope(int heap) : before_(current_heap) {
  DILOCO_CHECK(heap >= 0 && heap < kHeaps);
  current_heap = heap;
}
HeapScope::~HeapScope() { current_heap = before_; }

static void* Allocate(size_t bytes) noexcept {
  void* const block = std::malloc(sizeof(BlockHeader) + bytes);
  if (block == nullptr) return nullptr;
  auto* const header = new (block) BlockHeader{bytes, current_heap};
  held_bytes[current_heap] += static_cast<int64_t>(bytes);
  return header + 1;
}

static void* AllocateOrThrow(size_t bytes) {
  void* const memory = Allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

static void Free(void* memory) noexcept {
  if (memory == nullptr) return;
  BlockHeader* const header = static_cast<BlockHeader*>(memory) - 1;
  held_bytes[header->heap] -= static_cast<int64_t>(header->bytes);
  std::free(header);
}

}  // namespace diloco::sim

// All but those with an alignment of their own, which belong together likewise.
void* operator new(size_t bytes) { return diloco::sim::AllocateOrThrow(bytes); }
void* operator new[](size_t bytes) { return diloco::sim::AllocateOrThrow(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return diloco::sim::Allocate(bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return diloco::sim::Allocate(bytes); }
void operator delete(void* memory) noexcept { diloco::sim::Free(memory); }
void operator delete[](void* memory) noexcept { diloco::sim::Free(memory); }
void operator delete(void* memory, size_t) noexcept { diloco::sim::Free(memory); }
void operator delete[](void* memory, size_t) noexcept { diloco::sim::Free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { diloco::sim::Free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { diloco::sim::Free(memory); }
