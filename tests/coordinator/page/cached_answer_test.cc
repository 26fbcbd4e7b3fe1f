#include "coordinator/page/cached_answer.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "tests/coordinator/driver/driver_fixture.h"

namespace diloco {
namespace {

class CachedAnswerTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  int made_ = 0;
  absl::Status failure_;
  CachedAnswer cached_{&clock_, [this]() -> absl::StatusOr<std::string> {
                         ++made_;
                         if (!failure_.ok()) return failure_;
                         return std::to_string(made_);
                       }};
};

TEST_F(CachedAnswerTest, ManyWhoAskWithinASecondAreOneQuestion) {
  for (int i = 0; i < 1000; ++i) {
    const HttpAnswer answer = cached_.Get();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.type, "application/json");
    EXPECT_EQ(answer.body, "1");
  }
  clock_.Advance(kAnswerKept);
  EXPECT_EQ(cached_.Get().body, "2");
}

TEST_F(CachedAnswerTest, AFailureSaysWhyAndIsNotKept) {
  failure_ = absl::UnavailableError("recovering \"data\"\xFF");
  const HttpAnswer answer = cached_.Get();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "{\"error\":\"recovering \\\"data\\\"\uFFFD\"}\n");
  failure_ = absl::OkStatus();
  EXPECT_EQ(cached_.Get().body, "2");
}

// One answer that takes until the test lets it.
class SlowAnswerTest : public ::testing::Test {
 protected:
  ~SlowAnswerTest() override { Finish(); }
  std::future<HttpAnswer> AskInAnotherThread() {
    begun_ = {};
    go_ = {};
    std::future<HttpAnswer> answer = std::async(std::launch::async, [this] { return cached_.Get(); });
    begun_.get_future().wait();
    return answer;
  }
  void Finish() {
    if (!finished_) go_.set_value();
    finished_ = true;
  }

  FakeClock clock_;
  bool slow_ = false;
  bool finished_ = true;
  std::promise<void> begun_;
  std::promise<void> go_;
  CachedAnswer cached_{&clock_, [this]() -> absl::StatusOr<std::string> {
                         if (!slow_) return "fast";
                         finished_ = false;
                         begun_.set_value();
                         go_.get_future().wait();
                         return "slow";
                       }};
};

TEST_F(SlowAnswerTest, NobodyElseWaitsForIt) {
  EXPECT_EQ(cached_.Get().body, "fast");
  clock_.Advance(kAnswerKept);
  slow_ = true;
  std::future<HttpAnswer> slow = AskInAnotherThread();
  EXPECT_EQ(cached_.Get().body, "fast") << "the one before";
  clock_.Advance(kAnswerOldest - kAnswerKept);
  EXPECT_EQ(cached_.Get().status, 503) << "too old by now";
  Finish();
  EXPECT_EQ(slow.get().body, "slow");
  EXPECT_EQ(cached_.Get().body, "slow");
}

}  // namespace
}  // namespace diloco
