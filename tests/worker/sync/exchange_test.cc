#include "worker/sync/exchange.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace diloco {
namespace {

using testing::HasSubstr;

class ManualClock final : public Clock {
 public:
  MonotonicTime Now() const override { return {now_.load()}; }
  void Pass(absl::Duration time) { now_ += absl::ToInt64Nanoseconds(time); }

 private:
  std::atomic<int64_t> now_ = 1;
};

StagedBoundary Staged(int64_t round, int64_t version) {
  StagedBoundary boundary{.round = round, .published = version};
  boundary.fragments.push_back(
      std::make_shared<const FragmentOuter::Staged>(FragmentOuter::Staged{.base = {1.0f}, .version = version}));
  boundary.fragments.push_back(
      std::make_shared<const FragmentOuter::Staged>(FragmentOuter::Staged{.base = {2.0f}, .version = version + 1}));
  return boundary;
}

class ExchangeTest : public testing::Test {
 protected:
  SteadyClock clock_;
  std::atomic<bool> interrupt_ = false;
  Exchange exchange_{{.coordinator = "host:1", .interrupt = &interrupt_}, &clock_};
};

TEST_F(ExchangeTest, TakesWhatIsThereWithoutWaiting) {
  exchange_.Publish(Staged(3, 2));
  const auto taken = exchange_.Take(3, 2);
  ASSERT_EQ(taken.status(), absl::OkStatus());
  EXPECT_FALSE(taken->waited);
  EXPECT_EQ(taken->wait, absl::ZeroDuration());
  EXPECT_EQ(taken->boundary.version(), 2);
}

TEST_F(ExchangeTest, WaitsForTheRoundAndForTheOldestFragment) {
  exchange_.Publish(Staged(2, 9));  // Of another round.
  std::thread sync([this] {
    exchange_.Publish(Staged(3, 1));  // One fragment is at 2 already.
    exchange_.Publish(Staged(3, 2));
  });
  const auto taken = exchange_.Take(3, 2);
  sync.join();
  ASSERT_EQ(taken.status(), absl::OkStatus());
  EXPECT_EQ(taken->boundary.round, 3);
  EXPECT_EQ(taken->boundary.version(), 2);
}

TEST_F(ExchangeTest, NothingIsThereBeforeTheFirstPublish) {
  std::thread sync([this] { exchange_.Publish(Staged(kBeforeTraining, 0)); });
  const auto taken = exchange_.Take(kBeforeTraining, 0);
  sync.join();
  ASSERT_EQ(taken.status(), absl::OkStatus());
  EXPECT_EQ(taken->boundary.fragments.size(), 2u);
}

TEST_F(ExchangeTest, FirstFailureEndsWaits) {
  std::thread sync([this] {
    exchange_.Fail(absl::DataLossError("first"));
    exchange_.Fail(absl::InternalError("second"));
  });
  EXPECT_EQ(exchange_.Take(0, 0).status(), absl::DataLossError("first"));
  sync.join();
  EXPECT_EQ(exchange_.Check(), absl::DataLossError("first"));
  EXPECT_EQ(exchange_.AwaitEnd(), absl::DataLossError("first"));
}

TEST_F(ExchangeTest, InterruptEndsWaits) {
  std::thread signal([this] { interrupt_ = true; });
  EXPECT_EQ(exchange_.Take(0, 0).status().code(), absl::StatusCode::kCancelled);
  signal.join();
  EXPECT_EQ(exchange_.Check().code(), absl::StatusCode::kCancelled);
}

TEST_F(ExchangeTest, EndIsTheEndWhateverFailsLater) {
  exchange_.PublishEnd();
  exchange_.Fail(absl::UnavailableError("the session broke"));
  EXPECT_EQ(exchange_.AwaitEnd(), absl::OkStatus());
}

TEST_F(ExchangeTest, ConsensusCopyIsTakenOnceAndTheNewestCounts) {
  EXPECT_EQ(exchange_.TakeConsensusCopy(), nullptr);
  exchange_.PublishConsensusCopy(std::make_shared<const ConsensusCopy>(ConsensusCopy{.version = 2}));
  exchange_.PublishConsensusCopy(std::make_shared<const ConsensusCopy>(ConsensusCopy{.version = 4}));
  EXPECT_EQ(exchange_.TakeConsensusCopy()->version, 4);
  EXPECT_EQ(exchange_.TakeConsensusCopy(), nullptr);
}

TEST(ExchangeHopeTest, GivesUpAfterSilenceOnly) {
  ManualClock clock;
  Exchange exchange({.coordinator = "host:1", .give_up_after = absl::Minutes(30)}, &clock);
  clock.Pass(absl::Minutes(29));
  EXPECT_EQ(exchange.CheckHope(), absl::OkStatus());
  exchange.NoteContact();
  clock.Pass(absl::Minutes(29));
  EXPECT_EQ(exchange.CheckHope(), absl::OkStatus());
  clock.Pass(absl::Minutes(1));
  EXPECT_EQ(exchange.Check(), absl::OkStatus()) << "who does not wait does not give up";
  const absl::Status status = exchange.Take(0, 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no word from the coordinator at host:1 for 30m"));
}

}  // namespace
}  // namespace diloco
