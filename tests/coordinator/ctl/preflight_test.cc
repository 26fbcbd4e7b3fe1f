// `dilococtl preflight` against a real service, and where it stops when a step fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/rpc/server.h"
#include "common/tls/development_authority.h"
#include "diloco/v1/admin.grpc.pb.h"
#include "tests/coordinator/ctl/offline.h"
#include "tests/coordinator/service/service_fixture.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class PreflightTest : public ServiceTest {
 protected:
  int Run(std::vector<std::string> arguments, const std::string& where) {
    arguments.insert(arguments.begin(), {"--coordinator", where, "preflight", "--measure", "50ms"});
    return ctl_.Run(arguments);
  }

  Offline ctl_;
};

TEST_F(PreflightTest, SaysStepByStepWhatItFinds) {
  Start();
  EXPECT_EQ(Run({"--step-seconds", "0.1"}, address()), 0) << ctl_.out << ctl_.err;
  EXPECT_THAT(ctl_.out, StartsWith("ok       name        127.0.0.1\n"
                                   "ok       tcp         connected in "));
  EXPECT_THAT(ctl_.out, HasSubstr("ok       health      serving\n"
                                  "ok       contract    version " +
                                  std::to_string(kProtocolVersion) +
                                  ", run \"r1\"\n"
                                  "ok       round trip  "));
  EXPECT_THAT(ctl_.out, HasSubstr("ok       identity    plaintext: nobody is asked who it is\n"
                                  "ok       up          "));
  EXPECT_THAT(ctl_.out, HasSubstr("bit/s\nok       down        "));
  EXPECT_THAT(ctl_.out,
              HasSubstr("skipped  bandwidth   the model's size is not known before its first worker joins\n"));
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  EXPECT_EQ(Run({}, address()), 0) << ctl_.out << ctl_.err;
  EXPECT_THAT(ctl_.out, HasSubstr("skipped  bandwidth   how long a step takes is not known"));
  EXPECT_EQ(Run({"--step-seconds", "0.1"}, address()), 0) << ctl_.out << ctl_.err;
  // 600,000 parameters as fp32, both ways, in 5 steps of 0.1 s.
  EXPECT_THAT(ctl_.out,
              HasSubstr("ok       bandwidth   the run needs 38.4 Mbit/s up and 38.4 Mbit/s down at 0.1 s a step"));
}

TEST_F(PreflightTest, ALinkThatIsTooSlowFails) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  EXPECT_EQ(Run({"--step-seconds", "0.000001"}, address()), 1) << "no link carries that";
  EXPECT_THAT(ctl_.out, HasSubstr("failed   bandwidth   the run needs 3840 Gbit/s up"));
  EXPECT_THAT(ctl_.out, HasSubstr("raise inner_steps"));
}

TEST_F(PreflightTest, JsonHasTheStepsAndTheNumbers) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  EXPECT_EQ(Run({"-o", "json", "--step-seconds", "0.1"}, address()), 0) << ctl_.err;
  const nlohmann::json json = nlohmann::json::parse(ctl_.out);
  EXPECT_EQ(json["ok"], true);
  ASSERT_EQ(json["steps"].size(), 9u);
  EXPECT_EQ(json["steps"][0]["name"], "name");
  EXPECT_EQ(json["steps"][0]["outcome"], "ok");
  EXPECT_GT(json["round_trip_seconds"].get<double>(), 0);
  EXPECT_GT(json["up_bytes_per_second"].get<double>(), 0);
  EXPECT_GT(json["down_bytes_per_second"].get<double>(), 0);
  EXPECT_NEAR(json["needed_up_bytes_per_second"].get<double>(), 4.8e6, 1);
  EXPECT_GT(json["utilization"].get<double>(), 0);
}

TEST_F(PreflightTest, StopsAtANameThatNobodyHas) {
  const std::string host(64, 'a');  // Longer than any label: no resolver has to be asked.
  EXPECT_EQ(Run({}, host + ":7070"), 1);
  EXPECT_THAT(ctl_.out, StartsWith("failed   name        \"" + host + "\": "));
  EXPECT_THAT(ctl_.out, HasSubstr("give the coordinator's name or number"));
  EXPECT_THAT(ctl_.out, Not(HasSubstr("tcp")));
}

TEST_F(PreflightTest, StopsAtAPortThatIsClosed) {
  Start();
  const std::string where = address();
  service_->Stop(absl::ZeroDuration());
  EXPECT_EQ(Run({"-o", "json"}, where), 1);
  const nlohmann::json json = nlohmann::json::parse(ctl_.out);
  EXPECT_EQ(json["ok"], false);
  ASSERT_EQ(json["steps"].size(), 2u);
  EXPECT_EQ(json["steps"][1]["name"], "tcp");
  EXPECT_EQ(json["steps"][1]["outcome"], "failed");
  EXPECT_THAT(json["steps"][1]["text"].get<std::string>(), HasSubstr("refused"));
  EXPECT_TRUE(json["up_bytes_per_second"].is_null());
}

TEST_F(PreflightTest, StopsAtAnotherRun) {
  Start();
  EXPECT_EQ(Run({"--run", "r2"}, address()), 1);
  EXPECT_THAT(ctl_.out, HasSubstr("failed   contract    run \"r2\" is not here"));
  EXPECT_THAT(ctl_.out, Not(HasSubstr("round trip")));
  v1::AdminService::Service admin;
  absl::StatusOr<RpcServer> bare =
      StartRpcServer("--listen", {.address = {"127.0.0.1", 0}}, {{v1::AdminService::service_full_name(), &admin}});
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_EQ(Run({}, bare->address.ToString()), 1);
  EXPECT_THAT(ctl_.out, HasSubstr("failed   contract    "));
  StopRpcServer(bare->server.get(), absl::ZeroDuration());
}

TEST_F(PreflightTest, OverTlsTheCoordinatorSaysWhoItTakesTheCallerFor) {
  const absl::StatusOr<DevelopmentAuthority> authority = DevelopmentAuthority::Create(folder_.File("certs"), "r1");
  ASSERT_TRUE(authority.ok()) << authority.status();
  const Identity coordinator = {.run = "r1", .role = Role::kCoordinator, .name = ""};
  const Identity east = {.run = "r1", .role = Role::kWorker, .name = "east"};
  ASSERT_TRUE(authority->Issue(coordinator, {"127.0.0.1"}, absl::Hours(1)).ok());
  ASSERT_TRUE(authority->Issue(east, {}, absl::Hours(1)).ok());
  tls_ = authority->FilesOf(coordinator);
  Start();
  const TlsFiles files = authority->FilesOf(east);
  EXPECT_EQ(Run({"--tls-cert", files.certificate, "--tls-key", files.key, "--tls-ca", files.authority}, address()), 0)
      << ctl_.out << ctl_.err;
  EXPECT_THAT(ctl_.out, HasSubstr("ok       identity    spiffe://r1/worker/east\n"));
  EXPECT_EQ(Run({}, address()), 1) << "without a certificate";
  EXPECT_THAT(ctl_.out, HasSubstr("failed   health      "));
  EXPECT_THAT(ctl_.out, Not(HasSubstr("contract")));
}

TEST_F(PreflightTest, RefusesToMeasureForLong) {
  Start();
  EXPECT_EQ(ctl_.Run({"--coordinator", address(), "preflight", "--measure", "9s"}), 2);
  EXPECT_THAT(ctl_.err, HasSubstr("--measure 9s: use at most 8s"));
}

}  // namespace
}  // namespace diloco
