#include "tests/chaos/cluster.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace diloco::testing {

using nlohmann::json;

namespace {

std::optional<MountedDisk> MountDisk(const std::string& folder, int64_t bytes) {
  if (bytes == 0) return std::nullopt;
  absl::StatusOr<MountedDisk> disk = MountedDisk::Memory(folder, bytes);
  if (!disk.ok()) return std::nullopt;
  return *std::move(disk);
}

}  // namespace

Cluster::Cluster(ClusterOptions options)
    : options_(std::move(options)),
      coordinator_(folder_.path(), options_.config_yaml, options_.coordinator),
      disk_(MountDisk(coordinator_.data_folder(), options_.disk_bytes)),
      copy_(coordinator_.data_folder(), coordinator_.data_folder() + "/copy"),
      workers_(static_cast<size_t>(options_.workers)) {}

Cluster::~Cluster() {
  if (!::testing::Test::HasFailure()) return;
  const std::string kept = folder_.path() + "-failed";
  std::error_code error;
  if (disk_) {
    std::filesystem::copy(coordinator_.data_folder(), folder_.File("disk"), std::filesystem::copy_options::recursive,
                          error);
  }
  std::filesystem::rename(folder_.path(), kept, error);
  std::cerr << "logs, traces and data folder are in " << (error ? folder_.path() : kept) << '\n';
}

std::string Cluster::IdOf(int worker) { return absl::StrCat("w", worker); }

absl::Status Cluster::Start() {
  DILOCO_RETURN_IF_ERROR(StartCoordinator());
  for (int worker = 0; worker < options_.workers; ++worker) StartWorker(worker);
  return absl::OkStatus();
}

void Cluster::StartWorker(int worker) { StartWorkerThrough(worker, coordinator_.address()); }

void Cluster::StartWorkerThrough(int worker, const std::string& address, const std::vector<std::string>& launcher) {
  const std::string id = IdOf(worker);
  Worker& entry = workers_.at(static_cast<size_t>(worker));
  const std::string trace = folder_.File(absl::StrFormat("%s.%d.jsonl", id, entry.started++));
  const std::vector<std::string> program = {DILOCO_SYNTHETIC_WORKER,
                                            "--coordinator",
                                            address,
                                            "--id",
                                            id,
                                            "--worker",
                                            absl::StrCat(worker),
                                            "--elements",
                                            absl::StrCat(options_.elements),
                                            "--tensors",
                                            absl::StrCat(options_.tensors),
                                            "--step-ms",
                                            absl::StrCat(absl::ToInt64Milliseconds(options_.step_time)),
                                            "--trace",
                                            trace};
  std::vector<std::string> arguments = launcher;
  arguments.insert(arguments.end(), program.begin(), program.end());
  if (options_.checkpoints) {
    arguments.insert(arguments.end(),
                     {"--checkpoint-folder", folder_.File(id + ".checkpoints"), "--checkpoint-every", "1"});
  }
  absl::StatusOr<Process> process = Process::Start(
      {.arguments = arguments, .output_path = folder_.File(id + ".log"), .environment = options_.worker_environment});
  DILOCO_CHECK(process.ok());
  entry.process = *std::move(process);
}

void Cluster::KillWorker(int worker) {
  Process& process = this->worker(worker);
  process.Signal(SIGKILL);
  process.Wait(kPatience).IgnoreError();  // Nothing survives SIGKILL.
}

int64_t Cluster::RoundsCommitted() const {
  const absl::StatusOr<json> status = coordinator_.Ctl({"status"});
  return status.ok() ? std::stoll(status->at("rounds_committed").get<std::string>()) : -1;
}

absl::Status Cluster::Await(const std::function<bool()>& holds, absl::Duration deadline) const {
  const absl::Time end = absl::Now() + deadline;
  while (!holds()) {
    if (absl::Now() > end) return absl::DeadlineExceededError(absl::StrCat("not in time: ", coordinator_.Log()));
    // What is awaited lies in several processes, and no one thing would wake this up.
    absl::SleepFor(absl::Milliseconds(50));
  }
  return absl::OkStatus();
}

absl::Status Cluster::AwaitRounds(int64_t rounds, absl::Duration deadline) const {
  return Await([&] { return RoundsCommitted() >= rounds; }, deadline);
}

absl::Status Cluster::AwaitEnd(absl::Duration deadline) {
  for (int worker = 0; worker < options_.workers; ++worker) {
    const absl::StatusOr<int> exit_code = this->worker(worker).Wait(deadline);
    if (!exit_code.ok() || *exit_code != 0) {
      return absl::UnknownError(absl::StrCat(IdOf(worker), ": ", exit_code.status().ToString(), ", exit code ",
                                             exit_code.value_or(-1), "\n", LogOf(worker), coordinator_.Log()));
    }
  }
  return absl::OkStatus();
}

int64_t Cluster::RoundOfEverybody(int64_t round) {
  const absl::StatusOr<JournalReplay> replay = Replay();
  if (!replay.ok()) return -1;
  for (; round < replay->version(0); ++round) {
    if (static_cast<int>(replay->Merged(0, round).size()) == options_.workers) return round;
  }
  return -1;
}

absl::Status Cluster::AwaitEverybody(int64_t round, absl::Duration deadline) {
  return Await([&] { return RoundOfEverybody(round) >= 0; }, deadline);
}

std::vector<json> Cluster::TraceOf(int worker) const {
  std::vector<json> trace;
  for (int process = 0; process < workers_.at(static_cast<size_t>(worker)).started; ++process) {
    std::istringstream lines(ReadFile(folder_.File(absl::StrFormat("%s.%d.jsonl", IdOf(worker), process))));
    for (std::string line; std::getline(lines, line);) {
      json entry = json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (entry.is_discarded()) continue;  // Cut by a kill.
      entry["process"] = process;
      trace.push_back(std::move(entry));
    }
  }
  return trace;
}

std::string Cluster::LogOf(int worker) const { return ReadFile(folder_.File(IdOf(worker) + ".log")); }

absl::Status Cluster::CheckNothingLost() {
  std::vector<json> consensus;  // Before the journal is read, which a live coordinator goes on with.
  for (int worker = 0; worker < options_.workers; ++worker) {
    for (json& line : TraceOf(worker)) {
      if (line.at("event") == "consensus") consensus.push_back(std::move(line));
    }
  }
  absl::StatusOr<JournalReplay> read = Replay();
  if (absl::IsNotFound(read.status())) read = JournalReplay();  // Before the seed there is nothing to lose.
  DILOCO_ASSIGN_OR_RETURN(const JournalReplay replay, std::move(read));
  int64_t compared = 0;
  for (const json& line : consensus) {
    const std::optional<Digest> digest = replay.DigestOf(line.at("fragment"), line.at("version"));
    if (!digest && replay.gaps() > 0) continue;
    ++compared;
    if (!digest)
      return absl::DataLossError(absl::StrCat("the journal does not hold what was published: ", line.dump()));
    if (digest->Hex() != line.at("digest")) {
      return absl::DataLossError(absl::StrCat("the journal says ", digest->Hex(), ": ", line.dump()));
    }
  }
  std::cout << "  journal: version " << (replay.fragments() == 0 ? -1 : replay.version(0)) << ", "
            << replay.contributions_merged() << " merged, " << replay.contributions_merged_late() << " late, "
            << replay.contributions_dropped() << " dropped; " << compared << " digests of workers compared, "
            << replay.gaps() << " gaps\n";
  return absl::OkStatus();
}

absl::Status Cluster::CheckEndedWell() {
  DILOCO_RETURN_IF_ERROR(CheckNothingLost());
  DILOCO_ASSIGN_OR_RETURN(const JournalReplay replay, Replay());
  if (!replay.ended()) return absl::FailedPreconditionError("the journal has no end record");
  for (int worker = 0; worker < options_.workers; ++worker) {
    std::map<int, int64_t> versions;
    for (const json& line : TraceOf(worker)) {
      if (line.at("event") == "consensus") versions[line.at("fragment")] = line.at("version");
      if (line.at("event") != "end") continue;
      for (int f = 0; f < replay.fragments(); ++f) {
        if (versions[f] == replay.version(f)) continue;
        return absl::DataLossError(absl::StrFormat("%s ended with fragment %d at version %d instead of %d",
                                                   IdOf(worker), f, versions[f], replay.version(f)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace diloco::testing
