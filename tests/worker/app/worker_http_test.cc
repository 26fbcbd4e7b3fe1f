#include "worker/app/worker_http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <regex>
#include <string>

#include "common/base/clock.h"
#include "nlohmann/json.hpp"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WorkerHttpTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<WorkerHttp>> http = WorkerHttp::Start({"127.0.0.1", 0}, &board_);
    ASSERT_TRUE(http.ok()) << http.status();
    http_ = *std::move(http);
  }
  httplib::Response Get(const std::string& path) const {
    const httplib::Result result = httplib::Client(http_->address().host, http_->address().port).Get(path);
    EXPECT_TRUE(result) << path;
    return result ? *result : httplib::Response();
  }
  std::string Scrape() const { return Get("/metrics").body; }

  StatusBoard board_;
  std::unique_ptr<WorkerHttp> http_;
};

TEST_F(WorkerHttpTest, EachScrapeShowsTheBoardAsItIs) {
  EXPECT_THAT(Scrape(), HasSubstr("\ndiloco_uploads_total 0\n"));
  board_.Update([](WorkerStatus& status) {
    status.connected = true;
    status.uploads = 4;
    status.upload_seconds = 6;
    status.downloads = 3;
    status.download_seconds = 1.5;
    status.upload_queue = 2;
    status.resyncs = 1;
    status.session_reconnects = 2;
    status.stream_reconnects = 3;
    status.checkpoints_written = 5;
    status.checkpoints_failed = 1;
    status.checkpoint_seconds = 2.5;
    status.checkpoint_step = 90;
  });
  EXPECT_THAT(Scrape(), AllOf(HasSubstr("\ndiloco_connected 1\n"), HasSubstr("\ndiloco_uploads_total 4\n"),
                              HasSubstr("\ndiloco_upload_seconds_total 6\n"), HasSubstr("\ndiloco_downloads_total 3\n"),
                              HasSubstr("\ndiloco_download_seconds_total 1.5\n"),
                              HasSubstr("\ndiloco_upload_queue_contributions 2\n"),
                              HasSubstr("\ndiloco_resyncs_total 1\n"), HasSubstr("\ndiloco_reconnects_total 5\n"),
                              HasSubstr("\ndiloco_worker_checkpoints_total{outcome=\"written\"} 5\n")));
  EXPECT_THAT(Scrape(), AllOf(HasSubstr("\ndiloco_worker_checkpoints_total{outcome=\"failed\"} 1\n"),
                              HasSubstr("\ndiloco_worker_checkpoint_write_seconds_total 2.5\n"),
                              HasSubstr("\ndiloco_worker_checkpoint_step 90\n")));
}

TEST_F(WorkerHttpTest, AWaitCountsWhileItLasts) {
  board_.Update([](WorkerStatus& status) {
    status.wall_seconds = 100;
    status.waiting_since = SteadyClock().Now() + -absl::Seconds(300);
  });
  std::smatch match;
  const std::string scrape = Scrape();
  ASSERT_TRUE(std::regex_search(scrape, match, std::regex("\ndiloco_utilization_ratio ([0-9.]+)\n"))) << scrape;
  EXPECT_LE(std::stod(match[1]), 0.25);
}

TEST_F(WorkerHttpTest, IsReadyOnceItTrains) {
  EXPECT_EQ(Get("/readyz").status, 503);
  EXPECT_EQ(Get("/readyz").body, "not training yet\n");
  board_.Update([](WorkerStatus& status) { status.wall_seconds = 0.5; });
  EXPECT_EQ(Get("/readyz").status, 200);
}

TEST_F(WorkerHttpTest, ThePortFileNamesThePort) {
  const testing::TempFolder folder;
  ASSERT_TRUE(WritePortFile(folder.File("ports.json"), http_.get()).ok());
  EXPECT_EQ(nlohmann::json::parse(testing::ReadFile(folder.File("ports.json"))).at("http"),
            http_->address().ToString());
  ASSERT_TRUE(WritePortFile(folder.File("none.json"), nullptr).ok());
  EXPECT_TRUE(nlohmann::json::parse(testing::ReadFile(folder.File("none.json"))).at("http").is_null());
  const absl::Status status = WritePortFile(folder.File("absent/ports.json"), http_.get());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--port-file: "));
}

}  // namespace
}  // namespace diloco
