#include "coordinator/service/stream_set.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace diloco {
namespace {

struct CountingStream final : DrainableStream {
  void Drain() override { ++drained; }
  int drained = 0;
};

TEST(StreamSetTest, DrainsWhatIsOpenAndWhatComesLater) {
  StreamSet streams;
  const auto open = std::make_shared<CountingStream>();
  const auto gone = std::make_shared<CountingStream>();
  streams.Add(open);
  streams.Add(gone);
  streams.Remove(gone.get());
  streams.Add(std::make_shared<CountingStream>());  // Destroyed without a word.
  streams.Drain();
  EXPECT_EQ(open->drained, 1);
  EXPECT_EQ(gone->drained, 0);
  const auto late = std::make_shared<CountingStream>();
  streams.Add(late);
  EXPECT_EQ(late->drained, 1);
}

TEST(StreamSetTest, WaitsUntilTheLastOneIsGoneOrTheDeadlineIs) {
  const SteadyClock clock;
  StreamSet streams;
  streams.WaitUntilEmpty(clock.Now() + absl::Hours(1));
  const auto open = std::make_shared<CountingStream>();
  streams.Add(open);
  streams.WaitUntilEmpty(clock.Now());
  std::thread remover([&] { streams.Remove(open.get()); });
  streams.WaitUntilEmpty(clock.Now() + absl::Hours(1));
  remover.join();
}

}  // namespace
}  // namespace diloco
