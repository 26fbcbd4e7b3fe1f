#include "worker/client/download_machine.h"

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace diloco {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string Text(const DownloadEffect& effect) {
  if (const auto* e = std::get_if<FetchSnapshot>(&effect)) {
    return absl::StrFormat("snapshot #%d", e->call);
  }
  if (const auto* e = std::get_if<OpenSubscription>(&effect)) {
    return absl::StrFormat("subscribe #%d from %s", e->call, absl::StrJoin(e->next_rounds, ","));
  }
  return absl::StrFormat("cancel #%d", std::get<CancelDownload>(effect).call);
}

class DownloadMachineTest : public testing::Test {
 protected:
  std::vector<std::string> Step(const DownloadEvent& event) {
    std::vector<std::string> texts;
    for (const DownloadEffect& effect : machine_.Step(event, now_)) {
      texts.push_back(Text(effect));
    }
    return texts;
  }
  std::vector<std::string> Pass(absl::Duration time) {
    now_ = now_ + time;
    return Step(DownloadTimePassed{});
  }
  std::vector<std::string> Close(uint64_t call, absl::StatusCode code) { return Step(DownloadClosed{call, code}); }
  void Subscribe() {
    ASSERT_THAT(Pass(absl::ZeroDuration()), ElementsAre("snapshot #1"));
    ASSERT_THAT(Step(SnapshotTaken{1, {4, 4}}), ElementsAre("subscribe #2 from 4,4"));
  }

  MonotonicTime now_{1};
  DownloadMachine machine_{{.fragments = 2,
                            .snapshot_dead_limit = absl::Seconds(60),
                            .backoff = {.first = absl::Seconds(1), .longest = absl::Seconds(1)}}};
};

TEST_F(DownloadMachineTest, TakesTheSnapshotThenSubscribesToTheEnd) {
  Subscribe();
  EXPECT_EQ(machine_.next_wake(), std::nullopt);
  EXPECT_THAT(Step(DeltaTaken{2, 1, 4}), IsEmpty());
  EXPECT_THAT(Step(EndTaken{2}), ElementsAre("cancel #2"));
  EXPECT_TRUE(machine_.ended());
  EXPECT_THAT(Close(2, absl::StatusCode::kOk), IsEmpty());
  EXPECT_THAT(Pass(absl::Hours(1)), IsEmpty());
  EXPECT_EQ(machine_.next_wake(), std::nullopt);
}

TEST_F(DownloadMachineTest, TriesTheSnapshotAgainUntilTheRunIsSeeded) {
  EXPECT_THAT(Pass(absl::ZeroDuration()), ElementsAre("snapshot #1"));
  EXPECT_THAT(Close(1, absl::StatusCode::kFailedPrecondition), IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("snapshot #2"));
}

TEST_F(DownloadMachineTest, SnapshotThatStallsIsFetchedAgain) {
  Pass(absl::ZeroDuration());
  EXPECT_THAT(Pass(absl::Seconds(59)), IsEmpty());
  EXPECT_THAT(Step(DownloadProgress{1}), IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(59)), IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("cancel #1"));
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("snapshot #2"));
}

TEST_F(DownloadMachineTest, BrokenSubscriptionGoesOnFromWhatIsMissing) {
  Subscribe();
  Step(DeltaTaken{2, 0, 4});
  Step(DeltaTaken{2, 0, 5});
  Step(DeltaTaken{2, 1, 4});
  EXPECT_THAT(Close(2, absl::StatusCode::kUnavailable), IsEmpty());
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("subscribe #3 from 6,5"));
  EXPECT_EQ(machine_.reconnects(), 0) << "not heard yet";
  Step(DownloadProgress{3});
  EXPECT_EQ(machine_.reconnects(), 1);
  EXPECT_FALSE(machine_.IsCurrent(2));
  EXPECT_THAT(Step(DeltaTaken{2, 0, 6}), IsEmpty()) << "of the older call";
  Close(3, absl::StatusCode::kOk);
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("subscribe #4 from 6,5"));
}

TEST_F(DownloadMachineTest, DamageCancelsAndSubscribesAgain) {
  Subscribe();
  EXPECT_THAT(Close(2, absl::StatusCode::kDataLoss), ElementsAre("cancel #2"));
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("subscribe #3 from 4,4"));
}

TEST_F(DownloadMachineTest, OutOfRangeAndResyncTakeTheSnapshot) {
  Subscribe();
  Close(2, absl::StatusCode::kOutOfRange);
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("snapshot #3"));
  EXPECT_THAT(Step(SnapshotTaken{3, {9, 12}}), ElementsAre("subscribe #4 from 9,12"));
  EXPECT_THAT(Step(ResyncAsked{4}), ElementsAre("cancel #4"));
  EXPECT_THAT(Pass(absl::Seconds(1)), ElementsAre("snapshot #5"));
  EXPECT_EQ(machine_.resyncs(), 2);
}

TEST_F(DownloadMachineTest, WaitsLongerEachTimeUntilADeltaArrives) {
  machine_ = DownloadMachine(
      {.fragments = 2, .backoff = {.first = absl::Seconds(1), .longest = absl::Seconds(64), .factor = 4}});
  Subscribe();
  Close(2, absl::StatusCode::kUnavailable);
  Pass(absl::Seconds(1));
  Close(3, absl::StatusCode::kUnavailable);
  EXPECT_GE(*machine_.next_wake(), now_ + absl::Seconds(2));
  Pass(absl::Seconds(4));
  Step(DeltaTaken{4, 0, 4});
  Close(4, absl::StatusCode::kUnavailable);
  EXPECT_LT(*machine_.next_wake(), now_ + absl::Seconds(1));
}

}  // namespace
}  // namespace diloco
