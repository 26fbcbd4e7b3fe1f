#include "worker/sync/exchange.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

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

StagedStop Staged(int64_t round, int64_t version) {
  return {.round = round,
          .staged =
              std::make_shared<const FragmentOuter::Staged>(FragmentOuter::Staged{.base = {1.0f}, .version = version}),
          .published = version};
}

using Stops = std::optional<std::vector<StagedStop>>;

// As the training thread does.
absl::StatusOr<Stops> Take(Exchange* exchange, absl::Span<const StopNeed> needs) {
  const absl::Status status = exchange->Await(needs);
  if (!status.ok()) return status;
  return exchange->TryTake(needs);
}

class ExchangeTest : public testing::Test {
 protected:
  SteadyClock clock_;
  std::atomic<bool> interrupt_ = false;
  Exchange exchange_{{.coordinator = "host:1", .interrupt = &interrupt_}, &clock_};
};

TEST_F(ExchangeTest, TakesWhatIsThereWithoutWaiting) {
  exchange_.Publish(0, Staged(3, 2));
  const absl::StatusOr<Stops> taken = exchange_.TryTake({{.fragment = 0, .round = 3, .required = 2}});
  ASSERT_EQ(taken.status(), absl::OkStatus());
  ASSERT_TRUE(taken->has_value());
  EXPECT_EQ((**taken)[0].staged->version, 2);
}

TEST_F(ExchangeTest, WhatIsNotThereYetIsNotTaken) {
  exchange_.Publish(0, Staged(3, 1));
  for (const StopNeed& need : {StopNeed{.fragment = 0, .round = 3, .required = 2},
                               StopNeed{.fragment = 0, .round = 4, .required = 1}, StopNeed{.fragment = 1}}) {
    const absl::StatusOr<Stops> taken = exchange_.TryTake({need});
    ASSERT_EQ(taken.status(), absl::OkStatus());
    EXPECT_FALSE(taken->has_value());
  }
}

TEST_F(ExchangeTest, WaitsForTheRoundAndForEveryFragment) {
  exchange_.Publish(0, Staged(2, 9));  // Of another round.
  exchange_.Publish(1, Staged(3, 2));
  std::thread sync([this] {
    exchange_.Publish(0, Staged(3, 1));
    exchange_.Publish(0, Staged(3, 2));
  });
  const absl::StatusOr<Stops> taken =
      Take(&exchange_, {{.fragment = 1, .round = 3, .required = 2}, {.fragment = 0, .round = 3, .required = 2}});
  sync.join();
  ASSERT_EQ(taken.status(), absl::OkStatus());
  ASSERT_TRUE(taken->has_value());
  ASSERT_EQ((*taken)->size(), 2u);
  EXPECT_EQ((**taken)[1].round, 3);
  EXPECT_EQ((**taken)[1].staged->version, 2);
}

TEST_F(ExchangeTest, AStopThatNeedsNothingDoesNotWait) {
  const absl::StatusOr<Stops> taken = exchange_.TryTake({});
  ASSERT_EQ(taken.status(), absl::OkStatus());
  EXPECT_TRUE(taken->has_value());
}

TEST_F(ExchangeTest, NothingIsThereBeforeTheFirstPublish) {
  std::thread sync([this] { exchange_.Publish(4, Staged(kBeforeTraining, 0)); });
  const absl::StatusOr<Stops> taken = Take(&exchange_, {{.fragment = 4}});
  sync.join();
  ASSERT_EQ(taken.status(), absl::OkStatus());
  EXPECT_EQ((**taken)[0].staged->version, 0);
}

TEST_F(ExchangeTest, FirstFailureEndsWaits) {
  std::thread sync([this] {
    exchange_.Fail(absl::DataLossError("first"));
    exchange_.Fail(absl::InternalError("second"));
  });
  EXPECT_EQ(Take(&exchange_, {{.fragment = 0, .round = 0}}).status(), absl::DataLossError("first"));
  sync.join();
  EXPECT_EQ(exchange_.Check(), absl::DataLossError("first"));
  EXPECT_EQ(exchange_.AwaitEnd(), absl::DataLossError("first"));
}

TEST_F(ExchangeTest, InterruptEndsWaits) {
  std::thread signal([this] { interrupt_ = true; });
  EXPECT_EQ(Take(&exchange_, {{.fragment = 0, .round = 0}}).status().code(), absl::StatusCode::kCancelled);
  signal.join();
  EXPECT_EQ(exchange_.Check().code(), absl::StatusCode::kCancelled);
}

TEST_F(ExchangeTest, EndIsTheEndWhateverFailsLater) {
  EXPECT_FALSE(exchange_.Ended().value());
  exchange_.PublishEnd();
  exchange_.Fail(absl::UnavailableError("the session broke"));
  EXPECT_EQ(exchange_.AwaitEnd(), absl::OkStatus());
  EXPECT_TRUE(exchange_.Ended().value());
}

TEST_F(ExchangeTest, NewSettingsEndWaitsAndAreTakenOnce) {
  EXPECT_EQ(exchange_.TakeSettings(), nullptr);
  RunConfig config;
  config.run.rounds = 9;
  std::thread sync([&] { exchange_.PublishSettings(std::make_shared<const RunSettings>(config)); });
  EXPECT_EQ(exchange_.Await({{.fragment = 0, .round = 3}}), absl::OkStatus());
  sync.join();
  EXPECT_EQ(exchange_.AwaitEnd(), absl::OkStatus());
  const std::shared_ptr<const RunSettings> taken = exchange_.TakeSettings();
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(taken->newest().run.rounds, 9);
  EXPECT_EQ(exchange_.TakeSettings(), nullptr);
  EXPECT_FALSE(exchange_.Ended().value());
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
  const absl::Status status = exchange.TryTake({{.fragment = 0, .round = 0}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no word from the coordinator at host:1 for 30m"));
}

}  // namespace
}  // namespace diloco
