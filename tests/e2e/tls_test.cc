// Mutual TLS with whole programs: what each says when a certificate is wrong, and certificates that are replaced, and
// that end, in mid-run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

#include "common/tls/development_authority.h"
#include "nlohmann/json.hpp"
#include "tests/support/coordinator_process.h"
#include "tests/support/process.h"
#include "tests/support/tcp_proxy.h"

namespace diloco {
namespace {

using nlohmann::json;
using testing::CoordinatorProcess;
using testing::Finished;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::Process;
using testing::ReadFile;
using testing::RunProcess;
using testing::TcpProxy;
using testing::TempFolder;

// A round needs both workers, so a contribution that got lost would hold the run.
constexpr char kRun[] =
    "run: {id: secret, workers: 2, rounds: 1000000}\n"
    "method: eager\n"
    "inner_steps: 5\n"
    "fragments: {count: 2}\nwire: {uplink: fp32, downlink: fp32}\n"
    "rounds: {quorum: 2, heartbeat_interval: 50ms, lease: 60s, snapshot_every: 4}\n";

class TlsE2eTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<DevelopmentAuthority> made = DevelopmentAuthority::Create(folder_.File("certs"), "secret");
    ASSERT_TRUE(made.ok()) << made.status();
    authority_.emplace(*std::move(made));
    IssueAll(absl::Hours(1));
  }

  void IssueAll(absl::Duration validity) {
    ASSERT_TRUE(authority_->Issue(coordinator_identity_, {"127.0.0.1"}, validity).ok());
    for (const Identity& identity : {east_, west_}) ASSERT_TRUE(authority_->Issue(identity, {}, validity).ok());
    ASSERT_TRUE(authority_->Issue(viewer_, {}, absl::Hours(1)).ok());
  }

  static std::vector<std::string> FlagsOf(const TlsFiles& files) {
    return {"--tls-cert", files.certificate, "--tls-key", files.key, "--tls-ca", files.authority};
  }

  absl::Status StartCoordinator(bool tls) {
    CoordinatorProcess::Options options;
    if (tls) options.arguments = FlagsOf(authority_->FilesOf(coordinator_identity_));
    coordinator_ = std::make_unique<CoordinatorProcess>(folder_.path(), kRun, options);
    return coordinator_->Start();
  }

  Process StartWorker(const std::string& id, const std::string& address, const std::vector<std::string>& more) {
    Process::Options options = {
        .arguments = {DILOCO_SYNTHETIC_WORKER, "--coordinator", address, "--id", id, "--elements", "2000", "--tensors",
                      "4", "--step-ms", "10", "--trace", folder_.File(id + ".trace")},
        .output_path = folder_.File(id + ".log")};
    options.arguments.insert(options.arguments.end(), more.begin(), more.end());
    absl::StatusOr<Process> worker = Process::Start(options);
    EXPECT_TRUE(worker.ok()) << worker.status();
    return *std::move(worker);
  }
  Process StartWorker(const Identity& identity, const std::string& address) {
    return StartWorker(identity.name, address, FlagsOf(authority_->FilesOf(identity)));
  }
  std::string Log(const std::string& id) const { return ReadFile(folder_.File(id + ".log")); }

  // dilococtl status.
  Finished Ctl(const std::vector<std::string>& flags) const {
    std::vector<std::string> command = {
        testing::Program("dilococtl"), "--coordinator", coordinator_->address(), "status", "-o", "json"};
    command.insert(command.end(), flags.begin(), flags.end());
    const absl::StatusOr<Finished> finished = RunProcess(command, kPatience);
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.value_or(Finished());
  }
  // Looks every 50 ms until `holds`.
  void Await(const std::function<bool()>& holds) {
    const absl::Time deadline = absl::Now() + 2 * kPatience;
    while (!holds()) {
      ASSERT_LT(absl::Now(), deadline) << coordinator_->Log() << Log("east") << Log("west");
      poll(nullptr, 0, 50);
    }
  }
  // -1: the coordinator was not reached, as when its files are being replaced.
  int64_t RoundsCommitted() {
    const Finished status = Ctl(FlagsOf(authority_->FilesOf(viewer_)));
    if (status.exit_code != 0) return -1;
    return std::stoll(json::parse(status.output)["rounds_committed"].get<std::string>());
  }
  void AwaitRounds(int64_t more) {
    int64_t from = -1;
    ASSERT_NO_FATAL_FAILURE(Await([&] { return (from = RoundsCommitted()) >= 0; }));
    Await([&] { return RoundsCommitted() >= from + more; });
  }
  // The same where no new connection comes about.
  void AwaitRoundsInLog(int more) {
    const auto committed = [this] {
      const std::vector<std::string> parts = absl::StrSplit(coordinator_->Log(), "event=round_committed");
      return parts.size();
    };
    const size_t from = committed();
    Await([&] { return committed() >= from + static_cast<size_t>(more); });
  }

  // Every round of the worker's, in order, none left out.
  void ExpectNoRoundLost(const std::string& id) const {
    std::istringstream lines(ReadFile(folder_.File(id + ".trace")));
    int64_t next = 0;
    for (std::string text; std::getline(lines, text);) {
      const json line = json::parse(text, nullptr, /*allow_exceptions=*/false);
      if (line.is_discarded() || line.value("event", "") != "boundary") continue;
      const auto round = line["round"].get<int64_t>();
      EXPECT_EQ(round, next) << id;
      next = line["next_round"].get<int64_t>();
      EXPECT_EQ(next, round + 1) << id;
    }
    EXPECT_GT(next, 0) << id;
  }

  const TempFolder folder_;
  const Identity coordinator_identity_ = {.run = "secret", .role = Role::kCoordinator, .name = ""};
  const Identity east_ = {.run = "secret", .role = Role::kWorker, .name = "east"};
  const Identity west_ = {.run = "secret", .role = Role::kWorker, .name = "west"};
  const Identity viewer_ = {.run = "secret", .role = Role::kViewer, .name = "viewer"};
  std::optional<DevelopmentAuthority> authority_;
  std::unique_ptr<CoordinatorProcess> coordinator_;
};

TEST_F(TlsE2eTest, ExpiredAndReplacedCertificatesLoseNoRound) {
  ASSERT_TRUE(StartCoordinator(/*tls=*/true).ok()) << (coordinator_ ? coordinator_->Log() : "");
  TcpProxy proxy(coordinator_->port());
  Process east = StartWorker(east_, proxy.address());
  Process west = StartWorker(west_, proxy.address());
  ASSERT_NO_FATAL_FAILURE(AwaitRounds(2));
  EXPECT_THAT(coordinator_->Log(), HasSubstr("spiffe://secret/worker/east"));

  // Certificates that soon end, taken up by all and shown by every connection.
  constexpr absl::Duration kShort = absl::Seconds(40);
  const absl::Time expiry = absl::Now() + kShort;
  ASSERT_NO_FATAL_FAILURE(IssueAll(kShort));
  EXPECT_TRUE(absl::IsDeadlineExceeded(east.Wait(absl::Seconds(3)).status()));
  proxy.Reset();
  ASSERT_NO_FATAL_FAILURE(AwaitRounds(2));

  // Open connections go on beyond that end; new ones do not come about, and the log says why.
  EXPECT_TRUE(absl::IsDeadlineExceeded(east.Wait(expiry + absl::Seconds(1) - absl::Now()).status()));
  ASSERT_NO_FATAL_FAILURE(AwaitRoundsInLog(2));
  proxy.Reset();
  ASSERT_NO_FATAL_FAILURE(Await([this] { return absl::StrContains(Log("east"), "event=coordinator_unreachable"); }));
  EXPECT_THAT(Log("east"), HasSubstr("expired on 20"));
  EXPECT_TRUE(east.running() && west.running());

  ASSERT_NO_FATAL_FAILURE(IssueAll(absl::Hours(1)));
  ASSERT_NO_FATAL_FAILURE(AwaitRounds(3));
  // Replaced in good time: nobody notices.
  const size_t unreachable = Log("east").rfind("event=coordinator_unreachable");
  for (int i = 0; i < 3; ++i) {
    ASSERT_NO_FATAL_FAILURE(IssueAll(absl::Hours(1)));
    proxy.Reset();
    ASSERT_NO_FATAL_FAILURE(AwaitRounds(2));
  }
  EXPECT_EQ(Log("east").rfind("event=coordinator_unreachable"), unreachable);
  for (const char* id : {"east", "west"}) ExpectNoRoundLost(id);
  EXPECT_TRUE(east.running() && west.running());
}

TEST_F(TlsE2eTest, WhatIsWrongIsOneSentenceWithAnExitCode) {
  ASSERT_TRUE(StartCoordinator(/*tls=*/true).ok()) << (coordinator_ ? coordinator_->Log() : "");
  const auto other = DevelopmentAuthority::Create(folder_.File("other"), "secret");
  ASSERT_TRUE(other.ok() && other->Issue(viewer_, {}, absl::Hours(1)).ok());
  TlsFiles foreign = other->FilesOf(viewer_);
  foreign.authority = folder_.File("certs/ca.crt");
  TlsFiles distrustful = authority_->FilesOf(viewer_);
  distrustful.authority = folder_.File("other/ca.crt");
  struct Case {
    std::vector<std::string> flags;
    int exit_code;
    std::string part;
  };
  for (const Case& wrong :
       {Case{{}, 2, "it wants TLS; give --tls-cert"}, Case{{"--tls-cert", "x"}, 2, "--tls-key is missing"},
        Case{FlagsOf(foreign), 2, "is signed by another authority than"},
        Case{FlagsOf(distrustful), 2, "is signed by another authority than"},
        Case{FlagsOf(authority_->FilesOf(east_)), 5, "GetStatus is for a viewer or an admin"}}) {
    const Finished finished = Ctl(wrong.flags);
    EXPECT_EQ(finished.exit_code, wrong.exit_code) << finished.errors;
    EXPECT_THAT(finished.errors, HasSubstr(wrong.part));
    EXPECT_EQ(finished.errors.find('\n'), finished.errors.size() - 1) << finished.errors;
  }
  EXPECT_EQ(Ctl(FlagsOf(authority_->FilesOf(viewer_))).exit_code, 0);

  // A worker ends with the same sentences, however long it would wait for the network.
  Process plain = StartWorker("east", coordinator_->address(), {});
  EXPECT_EQ(plain.Wait(kPatience).value_or(-1), 2) << Log("east");
  EXPECT_THAT(Log("east"), HasSubstr("it wants TLS; give --tls-cert"));
  Process as_west = StartWorker("west", coordinator_->address(), FlagsOf(authority_->FilesOf(east_)));
  EXPECT_EQ(as_west.Wait(kPatience).value_or(-1), 2) << Log("west");
  EXPECT_THAT(Log("west"), HasSubstr("is for spiffe://secret/worker/east"));
}

TEST_F(TlsE2eTest, APlaintextCoordinatorIsSaidToBeOne) {
  ASSERT_TRUE(StartCoordinator(/*tls=*/false).ok()) << (coordinator_ ? coordinator_->Log() : "");
  Process east = StartWorker(east_, coordinator_->address());
  EXPECT_EQ(east.Wait(kPatience).value_or(-1), 2) << Log("east");
  EXPECT_THAT(Log("east"), HasSubstr("it speaks plaintext; leave out --tls-cert"));
}

TEST_F(TlsE2eTest, ACoordinatorStartsWithItsOwnCertificateOnly) {
  testing::WriteFile(folder_.File("run.yaml"), kRun);
  std::vector<std::string> command = {testing::Program("diloco-coordinator"),
                                      "--config",
                                      folder_.File("run.yaml"),
                                      "--data-dir",
                                      folder_.File("data"),
                                      "--listen",
                                      "127.0.0.1:0",
                                      "--http",
                                      "none"};
  for (const std::string& flag : FlagsOf(authority_->FilesOf(east_))) command.push_back(flag);
  const absl::StatusOr<Finished> finished = RunProcess(command, kPatience);
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->exit_code, 2) << finished->errors;
  EXPECT_THAT(finished->errors,
              HasSubstr("is for spiffe://secret/worker/east; this needs one for spiffe://secret/coordinator"));
}

}  // namespace
}  // namespace diloco
