// What a 4-bit contribution costs on the wire, framing and all: TCP payload bytes from worker to coordinator on the
// bulk connection, as a proxy counts them.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"

#include "common/codec/codec.h"
#include "tests/support/coordinator_process.h"
#include "tests/support/drift_trainer.h"
#include "tests/support/tcp_proxy.h"
#include "tests/support/temp_folder.h"
#include "worker/loop/run_worker.h"

namespace diloco {
namespace {

using testing::CoordinatorProcess;
using testing::DriftTrainer;
using testing::TcpProxy;
using testing::TempFolder;

constexpr int64_t kElements = 1 << 20;
constexpr int kFragments = 8;
constexpr int kRounds = 4;
// 4 bits a code and a byte of scale a block.
constexpr double kCodecBits = 4 + 8.0 / kCodecBlock;
constexpr double kMaxBits = 4.25;

// Notes what had been sent when training began: the seed and the request for the snapshot.
class CountedTrainer final : public DriftTrainer {
 public:
  CountedTrainer(const TcpProxy* proxy, uint64_t* sent_before)
      : DriftTrainer({.elements = kElements, .tensors = kFragments}), proxy_(proxy), sent_before_(sent_before) {}

  absl::StatusOr<StepReport> Step(int64_t step, double rate) override {
    if (step == 0) *sent_before_ = proxy_->upstream_bytes();
    return DriftTrainer::Step(step, rate);
  }

 private:
  const TcpProxy* const proxy_;
  uint64_t* const sent_before_;
};

class WireCostTest : public ::testing::TestWithParam<std::string> {};

TEST_P(WireCostTest, AContributionCostsAtMostItsBitsAParameter) {
  const TempFolder folder;
  CoordinatorProcess coordinator(folder.path(),
                                 absl::StrFormat("run: {id: cost, workers: 1, rounds: %d}\n"
                                                 "method: eager\n"
                                                 "inner_steps: 2\n"
                                                 "max_late: 0\n"
                                                 "wire: {uplink: %s, downlink: int8}\nfragments: {count: %d}\n",
                                                 kRounds, GetParam(), kFragments));
  ASSERT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  TcpProxy proxy(coordinator.port());
  uint64_t sent_before = 0;
  WorkerOptions options;
  options.coordinator = proxy.address();
  options.worker_id = "w0";
  WorkerStatus last;
  options.on_progress = [&last](const WorkerStatus& status) { last = status; };
  // Returns once the coordinator has settled every contribution.
  const absl::Status status =
      RunWorker(options, [&](const RunConfig&) { return std::make_unique<CountedTrainer>(&proxy, &sent_before); });
  ASSERT_TRUE(status.ok()) << status << coordinator.Log();

  ASSERT_EQ(proxy.connections(), 2u) << "one for control and one for bulk";
  ASSERT_EQ(last.outer_gradients_not_finite + last.rounds_skipped, 0);
  EXPECT_EQ(last.uploaded_bytes, kRounds * FindCodec(GetParam())->encoded_bytes(kElements)) << "sent more than once";
  EXPECT_GT(sent_before, kElements * sizeof(float)) << "the seed went another way";
  const auto sent = static_cast<double>(proxy.upstream_bytes() - sent_before);
  const double bits = 8 * sent / (static_cast<double>(kRounds) * static_cast<double>(kElements));
  RecordProperty("bits_a_parameter", absl::StrFormat("%.4f", bits));
  EXPECT_GT(bits, kCodecBits) << "the proxy missed something";
  EXPECT_LE(bits, kMaxBits);
}

INSTANTIATE_TEST_SUITE_P(Codecs, WireCostTest, ::testing::Values("e3m0", "int4"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace diloco
