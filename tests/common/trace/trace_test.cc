#include "common/trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/log/log.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/trace_file.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;
using testing::TempFolder;
using testing::TracedSlice;
using testing::TraceFile;
using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

class TracerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Tracer> Open(uint64_t max_bytes = kMaxTraceBytes, uint64_t max_buffer_bytes = kMaxTraceBufferBytes) {
    absl::StatusOr<std::unique_ptr<Tracer>> tracer = Tracer::Open(
        {.path = path_, .process_name = "probe", .max_bytes = max_bytes, .max_buffer_bytes = max_buffer_bytes});
    EXPECT_TRUE(tracer.ok()) << tracer.status();
    return *std::move(tracer);
  }

  const TempFolder folder_;
  const std::string path_ = folder_.File("trace.json");
};

TEST_F(TracerTest, WritesWhatHappenedOnWhichTrack) {
  {
    const std::unique_ptr<Tracer> tracer = Open();
    const Tracer::Track merge = tracer->AddTrack("merge");
    const Tracer::Track disk = tracer->AddTrack("disk");
    tracer->Slice(merge, "merge", {1'234'567}, {2'000'000}, {{"round", 3}, {"fragment", 1}, {"reason", "all \"2\""}});
    tracer->Slice(disk, "sync", {5'000'001}, {5'000'002});
    tracer->AsyncSlice("upload", {10}, {900}, {{"round", 7}});
    tracer->AsyncSlice("upload", {20}, {30}, {{"round", 8}});
    tracer->Instant(disk, "publish", {7'000}, {{"bytes", uint64_t{1} << 40}});
    tracer->Counter("staleness", {8'000}, 1.5);
  }
  const TraceFile trace = TraceFile::Whole(path_);
  EXPECT_EQ(trace.process(), "probe");
  const std::vector<TracedSlice> merges = trace.Slices("merge");
  ASSERT_EQ(merges.size(), 1u);
  EXPECT_EQ(merges[0].track, "merge");
  EXPECT_EQ(merges[0].begin, 1'234'567);
  EXPECT_EQ(merges[0].end, 2'000'000);
  EXPECT_EQ(merges[0].args, nlohmann::json({{"round", 3}, {"fragment", 1}, {"reason", "all \"2\""}}));
  ASSERT_EQ(trace.Slices("sync").size(), 1u);
  EXPECT_EQ(trace.Slices("sync")[0].track, "disk");
  const std::vector<TracedSlice> uploads = trace.Slices("upload");
  ASSERT_EQ(uploads.size(), 2u);
  EXPECT_EQ(uploads[0].round(), 7);
  EXPECT_EQ(uploads[0].end, 900);
  EXPECT_EQ(uploads[1].round(), 8);
  EXPECT_EQ(uploads[1].begin, 20);
  EXPECT_EQ(trace.Event("publish").at("args").at("bytes"), uint64_t{1} << 40);
  EXPECT_EQ(trace.Event("staleness").at("args").at("value"), 1.5);
  EXPECT_EQ(trace.Event("trace_end").at("args").at("dropped"), 0);
}

TEST_F(TracerTest, SaysWhatTheWallClockWasAtItsStart) {
  const int64_t before = absl::ToUnixMicros(absl::Now());
  const MonotonicTime monotonic_before = Tracer::Now();
  Open().reset();
  const nlohmann::json start = TraceFile::Whole(path_).Event("trace_start");
  EXPECT_GE(start.at("args").at("unix_us"), before);
  EXPECT_LE(start.at("args").at("unix_us"), absl::ToUnixMicros(absl::Now()));
  EXPECT_GE(start.at("ts").get<double>() * 1000, static_cast<double>(monotonic_before.nanoseconds) - 1);
  EXPECT_LE(start.at("ts").get<double>() * 1000, static_cast<double>(Tracer::Now().nanoseconds) + 1);
  EXPECT_EQ(start.at("args").at("process_id"), getpid());
  EXPECT_EQ(start.at("args").at("boot").get<std::string>() + "\n",
            testing::ReadFile("/proc/sys/kernel/random/boot_id"));
}

TEST_F(TracerTest, AScopeIsASliceAndWithoutATracerItIsNothing) {
  {
    const std::unique_ptr<Tracer> tracer = Open();
    const Tracer::Track track = tracer->AddTrack("training");
    const TraceSlice outer(tracer.get(), track, "outer", {{"round", 1}});
    const TraceSlice inner(tracer.get(), track, "inner");
    const TraceSlice off(nullptr, 0, "off", {{"round", 1}});
  }
  const TraceFile trace = TraceFile::Whole(path_);
  ASSERT_EQ(trace.Slices("outer").size(), 1u);
  ASSERT_EQ(trace.Slices("inner").size(), 1u);
  EXPECT_TRUE(trace.Slices("outer")[0].Contains(trace.Slices("inner")[0]));
  EXPECT_EQ(trace.Slices("outer")[0].round(), 1);
  EXPECT_TRUE(trace.Slices("off").empty());
}

TEST_F(TracerTest, AnyTextMayBeInAName) {
  const std::string hostile = "a\"\\\n\x1b\xff{}],";
  {
    const std::unique_ptr<Tracer> tracer = Open();
    tracer->Slice(tracer->AddTrack(hostile), hostile, {1}, {2}, {{hostile, hostile}});
  }
  const std::string mended = "a\"\\\n\x1b\xef\xbf\xbd{}],";
  const std::vector<TracedSlice> slices = TraceFile::Whole(path_).Slices(mended);
  ASSERT_EQ(slices.size(), 1u);
  EXPECT_EQ(slices[0].track, mended);
  EXPECT_EQ(slices[0].args, nlohmann::json({{mended, mended}}));
}

TEST_F(TracerTest, ManyThreadsTraceAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kSlices = 2000;
  {
    const std::unique_ptr<Tracer> tracer = Open();
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&tracer, t] {
        const Tracer::Track track = tracer->AddTrack(std::to_string(t));
        for (int i = 0; i < kSlices; ++i) tracer->Slice(track, "work", {i}, {i + 1}, {{"thread", t}, {"round", i}});
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<std::vector<bool>> seen(kThreads, std::vector<bool>(kSlices));
  for (const TracedSlice& slice : TraceFile::Whole(path_).Slices("work")) {
    EXPECT_EQ(slice.track, std::to_string(slice.args.at("thread").get<int>()));
    seen[slice.args.at("thread").get<size_t>()][static_cast<size_t>(slice.round())] = true;
  }
  EXPECT_EQ(seen, std::vector<std::vector<bool>>(kThreads, std::vector<bool>(kSlices, true)));
}

TEST_F(TracerTest, AFullFileEndsAndIsWhole) {
  constexpr uint64_t kMaxBytes = 4096;
  ASSERT_TRUE(InitLog({}).ok());
  CaptureStderr();
  int64_t traced = 0;
  {
    const std::unique_ptr<Tracer> tracer = Open(kMaxBytes);
    const Tracer::Track track = tracer->AddTrack("work");
    for (; traced < 1000; ++traced) tracer->Slice(track, "work", {traced}, {traced + 1});
  }
  const std::string log = GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("level=warning event=trace_full path="));
  EXPECT_EQ(log.find('\n'), log.size() - 1) << log;
  EXPECT_LE(std::filesystem::file_size(path_), kMaxBytes);
  const TraceFile trace = TraceFile::Whole(path_);
  EXPECT_GT(trace.Slices("work").size(), 10u);
  EXPECT_LT(trace.Slices("work").size(), 1000u);
  EXPECT_EQ(trace.Event("trace_end").at("args").at("reason"), "size limit");
}

// The buffer holds a few events, and is emptied every kTraceFlushInterval only.
TEST_F(TracerTest, WhatTheBufferHasNoRoomForIsDroppedAndCounted) {
  constexpr int64_t kSlices = 20'000;
  {
    const std::unique_ptr<Tracer> tracer = Open(kMaxTraceBytes, 2048);
    const Tracer::Track track = tracer->AddTrack("work");
    for (int64_t i = 0; i < kSlices; ++i) tracer->Slice(track, "work", {i}, {i + 1});
  }
  const TraceFile trace = TraceFile::Whole(path_);
  const auto written = static_cast<int64_t>(trace.Slices("work").size());
  const int64_t dropped = trace.Event("trace_end").at("args").at("dropped");
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(written + dropped, kSlices);
}

TEST_F(TracerTest, APathThatCannotBeWrittenIsRefused) {
  const std::string path = folder_.File("absent") + "/trace.json";
  const absl::StatusOr<std::unique_ptr<Tracer>> tracer = Tracer::Open({.path = path});
  EXPECT_EQ(tracer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tracer.status().message(), "--trace " + path + ": cannot be written: No such file or directory");
}

}  // namespace
}  // namespace diloco
