#include "coordinator/page/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/coordinator/driver/hand_worker.h"

namespace diloco {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class StatusPageTest : public ::testing::Test {
 protected:
  StatusPageTest() : coordinator_(RunYaml(2, 8, "fp32", "fp32")), east_(&coordinator_, "east", 1) {
    EXPECT_TRUE(coordinator_.Start().ok());
  }

  HttpAnswer Get(const std::string& path) {
    for (const HttpRoute& route : page_.Routes()) {
      if (route.path == path) return route.answer();
    }
    return {.status = 404};
  }
  // Asked by one thread while this one is the driver's.
  HttpAnswer GetWhileTheDriverRuns(const std::string& path) {
    std::future<HttpAnswer> answer = std::async(std::launch::async, [&] { return Get(path); });
    while (answer.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) coordinator_.PumpDriver();
    return answer.get();
  }

  Coordinator coordinator_;
  HandWorker east_;
  SteadyClock clock_;  // Deadlines are real.
  RunHistory history_;
  absl::Status ready_;
  StatusPage page_{{.clock = &clock_, .history = &history_, .inner_steps = 30, .ready = [this] { return ready_; }}};
};

TEST_F(StatusPageTest, HasNoAnswerBeforeTheCoordinatorIsReady) {
  ready_ = absl::UnavailableError("recovering the data folder");
  page_.Attach(coordinator_.driver.get());
  const HttpAnswer answer = Get("/api/overview");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(json::parse(answer.body), json({{"error", "recovering the data folder"}}));
  EXPECT_EQ(Get("/").status, 200) << "the page itself says so";
}

TEST_F(StatusPageTest, HasNoAnswerWithoutADriver) {
  EXPECT_EQ(Get("/api/overview").status, 503);
  page_.Attach(coordinator_.driver.get());
  page_.Detach();
  EXPECT_EQ(Get("/api/overview").status, 503);
}

TEST_F(StatusPageTest, ADriverThatDoesNotAnswerIsWaitedForWithADeadline) {
  page_.Attach(coordinator_.driver.get());
  const MonotonicTime begun = clock_.Now();
  const HttpAnswer answer = Get("/api/overview");
  EXPECT_GE(clock_.Now() - begun, kOverviewDeadline);
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("did not answer within 2s"));
  coordinator_.PumpDriver();  // It does now, and nobody listens.
}

TEST_F(StatusPageTest, NoRoundIsOpenBeforeTheRunIsSeeded) {
  page_.Attach(coordinator_.driver.get());
  const HttpAnswer answer = GetWhileTheDriverRuns("/api/overview");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json overview = json::parse(answer.body);
  EXPECT_EQ(overview["status"]["state"], "RUN_STATE_SEEDING");
  EXPECT_TRUE(overview["open_round"].is_null());
}

TEST_F(StatusPageTest, TheOldestOpenRoundIsThereInFull) {
  HandWorker west(&coordinator_, "west", 2);
  ASSERT_TRUE(east_.Join().ok());
  ASSERT_TRUE(east_.Seed(std::vector<float>(11, 1.0F)).ok());
  ASSERT_TRUE(west.Join().ok());
  ASSERT_TRUE(east_.Contribute(1, 0, 1).ok());
  page_.Attach(coordinator_.driver.get());
  const HttpAnswer answer = GetWhileTheDriverRuns("/api/overview");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const json overview = json::parse(answer.body);
  const json& fragments = overview["open_round"]["fragments"];
  ASSERT_EQ(fragments.size(), 2U);
  EXPECT_EQ(fragments[0]["awaited"], json({"east", "west"}));
  EXPECT_EQ(fragments[1]["awaited"], json({"west"}));
  EXPECT_EQ(fragments[1]["present"], json({"east"}));
  EXPECT_EQ(overview["workers"]["workers"].size(), 2U);
}

TEST_F(StatusPageTest, TheHistoryNamesTheInnerStepsOfARound) {
  const HttpAnswer answer = Get("/api/history");
  EXPECT_EQ(json::parse(answer.body),
            json::parse(R"({"inner_steps": 30, "commits": [], "held_out": [], "workers": []})"));
}

}  // namespace
}  // namespace diloco
