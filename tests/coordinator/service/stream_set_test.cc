#include "coordinator/service/stream_set.h"

#include <gtest/gtest.h>

#include <memory>

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

}  // namespace
}  // namespace diloco
