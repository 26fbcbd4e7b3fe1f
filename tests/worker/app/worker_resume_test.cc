// The program with the real trainer on the CPU, suspended and started again: the run is, bit for bit, the one that
// nothing disturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"

namespace diloco {
namespace {

using testing::CoordinatorProcess;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::Process;
using testing::Program;
using testing::ReadFile;
using testing::TempFolder;

constexpr int kRounds = 8;

std::string Yaml(const std::string& method) {
  return absl::StrFormat(
      "run: {id: real, workers: 2, rounds: %d}\n%sinner_steps: 6\n"
      "inner: {warmup_steps: 4, batch_size: 2}\nmodel: {layers: 3, width: 32, heads: 2, sequence: 32}\n"
      "rounds: {heartbeat_interval: 100ms, lease: 300s}\n",
      kRounds, method);
}

// Runs it and returns the bytes of the final consensus. Worker `west` is suspended so many times.
std::string Train(const std::string& yaml, int suspensions) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 4000; ++i) absl::StrAppend(&text, "sentence ", i * i % 977, " of many. ");
  const std::string data = folder.Write("text", text);
  CoordinatorProcess coordinator(folder.path(), yaml);
  EXPECT_TRUE(coordinator.Start().ok()) << coordinator.Log();
  const auto start = [&](const std::string& id) {
    absl::StatusOr<Process> worker = Process::Start(
        {.arguments = {Program("diloco-worker"), "--coordinator", coordinator.address(), "--id", id, "--data", data,
                       "--device", "cpu", "--threads", "1", "--progress", "none", "--checkpoint-folder",
                       folder.File(id + ".checkpoints"), "--checkpoint-every", "1"},
         .output_path = folder.File(id + ".log")});
    EXPECT_TRUE(worker.ok()) << worker.status();
    return *std::move(worker);
  };
  std::filesystem::create_directory(folder.File("west.checkpoints"));
  Process east = start("east");
  Process west = start("west");
  for (int i = 0; i < suspensions; ++i) {
    // One of its own, and the one that a suspension adds.
    const std::string checkpoint = absl::StrFormat("west.checkpoints/checkpoint-%08d", 2 * i);
    EXPECT_TRUE(testing::WaitForFile(folder.File(checkpoint), kPatience).ok());
    west.Signal(SIGTERM);
    EXPECT_EQ(west.Wait(kPatience).value_or(-1), 0) << ReadFile(folder.File("west.log"));
    west = start("west");
  }
  EXPECT_EQ(east.Wait(kPatience).value_or(-1), 0) << ReadFile(folder.File("east.log"));
  EXPECT_EQ(west.Wait(kPatience).value_or(-1), 0) << ReadFile(folder.File("west.log"));
  if (suspensions > 0) {
    EXPECT_THAT(ReadFile(folder.File("west.log")), HasSubstr("goes_on=there"));
  }
  EXPECT_TRUE(coordinator.Stop().ok());
  return ReadFile(absl::StrFormat("%s/checkpoints/round-%08d/model.safetensors", coordinator.data_folder(), kRounds));
}

class WorkerResumeTest : public ::testing::TestWithParam<std::string> {};

TEST_P(WorkerResumeTest, RepeatsTheUndisturbedRunBitForBit) {
  const std::string yaml = Yaml(GetParam());
  const std::string undisturbed = Train(yaml, 0);
  ASSERT_FALSE(undisturbed.empty());
  EXPECT_TRUE(Train(yaml, 3) == undisturbed);
}

INSTANTIATE_TEST_SUITE_P(Methods, WorkerResumeTest,
                         ::testing::Values("method: eager\nmax_late: 0\nwire: {error_feedback: both}\n",
                                           "method: streaming\noverlap: 2\nfragments: {layers_each: 1}\n"));

}  // namespace
}  // namespace diloco
