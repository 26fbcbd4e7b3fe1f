// The status page of a real coordinator, over HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/coordinator/service/wire_worker.h"
#include "tests/support/coordinator_process.h"

namespace diloco {
namespace {

using ::diloco::testing::CoordinatorProcess;
using ::diloco::testing::TempFolder;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kConfig[] = R"(
run: {id: r1, workers: 2, rounds: 4}
method: diloco
inner_steps: 5
outer: {optimizer: sgd, rate: 1}
fragments: {count: 1}
wire: {uplink: fp32, downlink: fp32}
rounds: {lease: 10m}
)";
constexpr int64_t kElements = 100;

// Without what differs from one moment to the next.
json Still(json value) {
  if (value.is_object()) {
    for (const char* moving : {"uptime", "last_heard", "elapsed"}) value.erase(moving);
  }
  if (value.is_structured()) {
    for (json& part : value) part = Still(part);
  }
  return value;
}

class PageProgramTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(coordinator_.Start().ok()) << coordinator_.Log(); }

  httplib::Result Get(const std::string& path) {
    httplib::Client client("127.0.0.1", coordinator_.http_port());
    client.set_read_timeout(60);
    return client.Get(path);
  }
  // A round that one of two workers has contributed to.
  void OpenARound() {
    WireWorker east(coordinator_.address(), "r1", "east", kElements);
    WireWorker west(coordinator_.address(), "r1", "west", kElements);
    east.JoinAndSeed(std::vector<float>(kElements, 0.5F));
    ASSERT_TRUE(west.Join().ok());
    east.Contribute(0, std::vector<float>(kElements, 0.25F));
  }

  const TempFolder folder_;
  CoordinatorProcess coordinator_{folder_.path(), kConfig};
};

TEST_F(PageProgramTest, ServesThePageAndEveryFileThatItNames) {
  const httplib::Result page = Get("/");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_EQ(page->get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_THAT(page->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  for (const char* path : {"/page/icon.svg", "/page/style.css", "/page/main.js"}) {
    EXPECT_THAT(page->body, HasSubstr(std::string("\"") + path + "\""));
    const httplib::Result file = Get(path);
    ASSERT_TRUE(file) << path;
    EXPECT_EQ(file->status, 200) << path;
  }
  EXPECT_EQ(Get("/page/")->status, 404);
  EXPECT_EQ(Get("/page/../etc/passwd")->status, 404);
  EXPECT_EQ(Get("/api/")->status, 404);
}

TEST_F(PageProgramTest, TheOverviewIsWhatDilococtlPrints) {
  OpenARound();
  const httplib::Result answer = Get("/api/overview");
  ASSERT_TRUE(answer);
  ASSERT_EQ(answer->status, 200) << answer->body;
  EXPECT_EQ(answer->get_header_value("Content-Type"), "application/json");
  const json overview = json::parse(answer->body);
  const auto expect = [&](const char* part, const std::vector<std::string>& command) {
    const absl::StatusOr<json> printed = coordinator_.Ctl(command);
    ASSERT_TRUE(printed.ok()) << printed.status();
    EXPECT_EQ(Still(overview[part]), Still(*printed)) << part;
  };
  expect("status", {"status"});
  expect("rounds", {"round", "list"});
  expect("open_round", {"round", "describe", "0"});
  expect("workers", {"worker", "list"});
  EXPECT_EQ(overview["open_round"]["fragments"][0]["awaited"], json({"west"})) << "it is the state that was meant";
}

TEST_F(PageProgramTest, NothingCanBeChangedOverHttp) {
  httplib::Client client("127.0.0.1", coordinator_.http_port());
  for (const char* path : {"/", "/api/overview", "/page/main.js"}) {
    for (const httplib::Result& result : {client.Post(path, "{}", "application/json"), client.Delete(path)}) {
      ASSERT_TRUE(result) << path;
      EXPECT_EQ(result->status, 405) << path;
    }
  }
}

TEST_F(PageProgramTest, TheHistoryHasTheCommits) {
  OpenARound();
  WireWorker west(coordinator_.address(), "r1", "west", kElements);
  ASSERT_TRUE(west.Join().ok());
  west.Contribute(0, std::vector<float>(kElements, 0.25F));
  // The answer is kept for a second, and the commit takes its time.
  json history;
  const absl::Time deadline = absl::Now() + testing::kPatience;
  do {
    const httplib::Result answer = Get("/api/history");
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->status, 200) << answer->body;
    history = json::parse(answer->body);
  } while (history["commits"].empty() && absl::Now() < deadline);
  EXPECT_EQ(history["inner_steps"], 5);
  ASSERT_EQ(history["commits"].size(), 1U);
  EXPECT_EQ(history["commits"][0]["round"], 0);
}

}  // namespace
}  // namespace diloco
