// The commands against a service in this process: output, errors, every exit code.
#include "coordinator/ctl/ctl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <future>
#include <string>

#include "coordinator/ctl/views.h"
#include "coordinator/ctl/worker_views.h"
#include "tests/coordinator/ctl/fake_admin.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(CtlTest, EachCommandPrintsItsTable) {
  admin_.status.set_run_id("demo");
  EXPECT_EQ(Run({"status"}), 0);
  EXPECT_EQ(out_, StatusText(admin_.status));
  admin_.rounds.add_rounds()->set_round(7);
  EXPECT_EQ(Run({"round", "list"}), 0);
  EXPECT_EQ(out_, RoundListText(admin_.rounds));
  EXPECT_EQ(admin_.limit, 20u);
  EXPECT_EQ(Run({"round", "list", "--limit", "1000"}), 0);
  EXPECT_EQ(admin_.limit, 1000u);
  admin_.round.mutable_summary()->set_round(42);
  EXPECT_EQ(Run({"round", "describe", "42"}), 0);
  EXPECT_EQ(out_, RoundText(admin_.round));
  EXPECT_EQ(admin_.described, 42);
  admin_.workers.add_workers()->set_worker_id("east");
  EXPECT_EQ(Run({"worker", "list"}), 0);
  EXPECT_EQ(out_, WorkerListText(admin_.workers));
  EXPECT_EQ(Run({"worker", "list", "-o", "wide"}), 0);
  EXPECT_EQ(out_, WorkerListText(admin_.workers, {.wide = true}));
  admin_.worker.mutable_summary()->set_worker_id("east");
  EXPECT_EQ(Run({"worker", "describe", "east"}), 0);
  EXPECT_EQ(out_, WorkerText(admin_.worker));
  EXPECT_THAT(admin_.orders, ::testing::ElementsAre("describe east"));
  admin_.checkpoints.add_checkpoints()->set_path("/c");
  EXPECT_EQ(Run({"checkpoint", "list"}), 0);
  EXPECT_EQ(out_, CheckpointListText(admin_.checkpoints));
  admin_.config.set_config_yaml("run: {id: demo}\n");
  EXPECT_EQ(Run({"config", "show"}), 0);
  EXPECT_EQ(out_, RunningConfigText(admin_.config));
  admin_.saved.set_path("/c");
  EXPECT_EQ(Run({"checkpoint", "save"}), 0);
  EXPECT_EQ(out_, CheckpointText(admin_.saved));
  EXPECT_EQ(err_, "");
}

TEST_F(CtlTest, EachCommandPrintsJson) {
  admin_.status.set_run_id("demo");
  admin_.workers.add_workers()->mutable_progress()->set_loss(NAN);
  admin_.saved.set_path("/c");
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{{"status"},
                                                                                       {"round", "list"},
                                                                                       {"round", "describe", "0"},
                                                                                       {"worker", "list"},
                                                                                       {"worker", "describe", "east"},
                                                                                       {"checkpoint", "list"},
                                                                                       {"config", "show"},
                                                                                       {"checkpoint", "save"}}) {
    std::vector<std::string> arguments = {"-o", "json"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    EXPECT_EQ(Run(arguments), 0);
    EXPECT_TRUE(nlohmann::json::accept(out_)) << out_;
    EXPECT_EQ(err_, "");
  }
  EXPECT_EQ(Run({"worker", "list", "-o", "json"}), 0) << "global flags may follow";
  EXPECT_TRUE(nlohmann::json::parse(out_)["workers"][0]["progress"]["loss"].is_null());
}

TEST_F(CtlTest, NamesTheRun) {
  EXPECT_EQ(Run({"status"}), 0);
  EXPECT_EQ(admin_.run_id, "");
  EXPECT_EQ(Run({"--run", "demo", "worker", "list"}), 0);
  EXPECT_EQ(admin_.run_id, "demo");
}

TEST_F(CtlTest, TakesTheAddressFromTheEnvironment) {
  ::setenv("DILOCO_COORDINATOR", server_.address.ToString().c_str(), 1);
  EXPECT_EQ(RunAsGiven({"dilococtl", "status"}), 0);
  ::setenv("DILOCO_COORDINATOR", "127.0.0.1:1", 1);
  EXPECT_EQ(Run({"status"}), 0) << "the flag goes before the environment";
  EXPECT_EQ(RunAsGiven({"dilococtl", "status"}), 3);
  ::unsetenv("DILOCO_COORDINATOR");
}

TEST_F(CtlTest, HelpAndVersionNeedNoCoordinator) {
  StopServer();
  EXPECT_EQ(RunAsGiven({"dilococtl", "--help"}), 0);
  EXPECT_THAT(out_, StartsWith("Shows and steers a run, by way of its coordinator.\n\nExamples:\n  dilococtl status "));
  EXPECT_EQ(RunAsGiven({"dilococtl", "round", "describe", "--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("ROUND"));
  EXPECT_EQ(RunAsGiven({"dilococtl", "--version"}), 0);
  EXPECT_EQ(out_, "dilococtl " DILOCO_VERSION "\n");
}

TEST_F(CtlTest, WrongUsageExitsWithTwo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"frobnicate"},
                                             {"round"},
                                             {"round", "describe"},
                                             {"round", "describe", "-1"},
                                             {"round", "describe", "12abc"},
                                             {"round", "describe", "99999999999999999999"},
                                             {"round", "list", "--limit", "0"},
                                             {"round", "list", "--limit", "1001"},
                                             {"round", "list", "--limit", "4294967297"},
                                             {"round", "list", "--limit", "99999999999999999999"},
                                             {"status", "extra"},
                                             {"status", "--wacth"},
                                             {"-o", "xml", "status"},
                                             {"--timeout", "5", "status"},
                                             {"--timeout", "0s", "status"},
                                             {"--timeout", "inf", "status"},
                                             {"status", "--watch", "--interval", "-1s"},
                                             {"--run", "../up", "status"}}) {
    EXPECT_EQ(Run(arguments), 2) << testing::PrintToString(arguments);
    EXPECT_THAT(err_, StartsWith("dilococtl: "));
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_EQ(out_, "");
  }
  EXPECT_EQ(RunAsGiven({"dilococtl", "--coordinator", "nowhere", "status"}), 2);
  EXPECT_THAT(err_, HasSubstr("--coordinator"));
}

TEST_F(CtlTest, AnUnreachableCoordinatorExitsWithThree) {
  StopServer();
  EXPECT_EQ(Run({"status"}), 3);
  EXPECT_THAT(err_, StartsWith("dilococtl: cannot reach the coordinator at " + server_.address.ToString() + ": "));
  EXPECT_EQ(out_, "");
}

TEST_F(CtlTest, ACoordinatorThatDoesNotAnswerExitsWithThree) {
  std::promise<void> release;
  admin_.on_status = [released = release.get_future().share()] { released.wait(); };
  EXPECT_EQ(Run({"--timeout", "50ms", "status"}), 3);
  EXPECT_THAT(err_, HasSubstr("cannot reach the coordinator at " + server_.address.ToString()));
  release.set_value();
}

TEST_F(CtlTest, AProxyInTheEnvironmentIsNotUsed) {
  ::setenv("http_proxy", "http://127.0.0.1:1", 1);
  EXPECT_EQ(Run({"status"}), 0) << err_;
  ::unsetenv("http_proxy");
}

struct ErrorCase {
  grpc::StatusCode code;
  int exit_code;
};

TEST_F(CtlTest, ErrorsOfTheServiceHaveTheirExitCodes) {
  for (const auto& [code, exit_code] : {ErrorCase{grpc::StatusCode::NOT_FOUND, 4},
                                        {grpc::StatusCode::FAILED_PRECONDITION, 5},
                                        {grpc::StatusCode::INVALID_ARGUMENT, 2},
                                        {grpc::StatusCode::INTERNAL, 1},
                                        {grpc::StatusCode::UNIMPLEMENTED, 1},
                                        {grpc::StatusCode::UNAVAILABLE, 3}}) {
    admin_.error = grpc::Status(code, "what \x1B[2J is wrong");
    for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{{"status"},
                                                                                         {"status", "--watch"},
                                                                                         {"round", "list"},
                                                                                         {"round", "describe", "3"},
                                                                                         {"worker", "list"},
                                                                                         {"worker", "describe", "east"},
                                                                                         {"checkpoint", "list"},
                                                                                         {"config", "show"},
                                                                                         {"checkpoint", "save"}}) {
      EXPECT_EQ(Run(command), exit_code) << testing::PrintToString(command);
      EXPECT_EQ(out_, "");
      EXPECT_THAT(err_, HasSubstr("what \\x1b[2J is wrong"));
    }
  }
}

TEST_F(CtlTest, RecoverSaysWhatItMeansAndAsksBeforeItIsDone) {
  admin_.recovered.set_version(17);
  admin_.recovered.set_folder_version(-1);
  const std::string sentence =
      "the run goes on from version 17 of the consensus, which worker east holds, and the data folder's nothing is no "
      "more";
  EXPECT_EQ(Run({"run", "recover", "--from", "east"}), 2);
  EXPECT_EQ(err_, "dilococtl: " + sentence + "; give --yes, there is no terminal to ask at\n");
  ASSERT_EQ(admin_.recover_requests.size(), 1U);
  EXPECT_TRUE(admin_.recover_requests[0].dry_run());

  EXPECT_EQ(Run({"run", "recover", "--from", "east", "--force", "--yes"}), 0);
  EXPECT_EQ(out_, sentence + "; `dilococtl status` shows how far it is\n");
  ASSERT_EQ(admin_.recover_requests.size(), 3U);
  EXPECT_EQ(admin_.recover_requests[2].worker_id(), "east");
  EXPECT_TRUE(admin_.recover_requests[2].force());
  EXPECT_FALSE(admin_.recover_requests[2].discard_workers());
  EXPECT_FALSE(admin_.recover_requests[2].dry_run());

  EXPECT_EQ(Run({"-o", "json", "run", "recover", "--discard-workers", "--yes"}), 0);
  EXPECT_TRUE(nlohmann::json::accept(out_));
  EXPECT_TRUE(admin_.recover_requests.back().discard_workers());
  EXPECT_EQ(Run({"run", "recover", "--discard-workers", "--from", "east"}), 2);
  EXPECT_EQ(Run({"run"}), 2);
}

TEST_F(CtlTest, ColoursGoToATerminalThatWantsThem) {
  admin_.workers.add_workers()->set_state(v1::WORKER_STATE_LOST);
  EXPECT_EQ(Run({"worker", "list"}), 0);
  EXPECT_THAT(out_, Not(HasSubstr("\x1B"))) << "not into a file";
  terminal_ = {.columns = 80, .rows = 24};
  EXPECT_EQ(Run({"worker", "list"}), 0);
  EXPECT_THAT(out_, HasSubstr("\x1B[31mlost\x1B[0m"));
  EXPECT_EQ(Run({"worker", "list", "-o", "json"}), 0);
  EXPECT_TRUE(nlohmann::json::accept(out_)) << out_;
  no_color_ = true;
  EXPECT_EQ(Run({"worker", "list"}), 0);
  EXPECT_THAT(out_, Not(HasSubstr("\x1B"))) << "NO_COLOR";
}

TEST_F(CtlTest, AHeldRunExitsWithSix) {
  admin_.status.set_state(v1::RUN_STATE_TRAINING);
  admin_.status.set_workers_alive(1);
  admin_.status.set_quorum(2);
  EXPECT_EQ(Run({"status"}), 6);
  EXPECT_EQ(out_, StatusText(admin_.status));
  EXPECT_EQ(err_, "dilococtl: the run does not go on: 1 workers are alive and a round needs 2; start workers\n");
  EXPECT_EQ(Run({"-o", "json", "status"}), 6);
  EXPECT_TRUE(nlohmann::json::accept(out_));
}

TEST_F(CtlTest, WorkersAreDrainedEvictedAndAdmitted) {
  EXPECT_EQ(Run({"worker", "drain", "west", "--yes"}), 0);
  EXPECT_THAT(out_, HasSubstr("worker  west\n"));
  EXPECT_THAT(out_, HasSubstr("draining: it finishes its round"));
  admin_.evicted.set_worker_id("west");
  admin_.evicted.set_contributions_dropped(3);
  EXPECT_EQ(Run({"--run", "demo", "worker", "evict", "--yes", "west"}), 0);
  EXPECT_THAT(out_, HasSubstr("evicted: `dilococtl worker admit west` lets it join again"));
  EXPECT_THAT(out_, HasSubstr("3 contributions"));
  EXPECT_EQ(admin_.run_id, "demo");
  EXPECT_EQ(Run({"worker", "admit", "west"}), 0);
  EXPECT_THAT(out_, HasSubstr("left: it may join again"));
  EXPECT_EQ(question_, "");
  EXPECT_THAT(admin_.orders, ::testing::ElementsAre("drain west", "evict west", "admit west"));
  EXPECT_EQ(Run({"-o", "json", "worker", "evict", "west", "--yes"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out_)["contributions_dropped"], 3);
  EXPECT_EQ(Run({"-o", "json", "worker", "drain", "west", "--yes"}), 0);
  EXPECT_EQ(nlohmann::json::parse(out_)["worker_id"], "west");
}

TEST_F(CtlTest, WhatCannotBeTakenBackIsConfirmed) {
  for (const std::string verb : {"drain", "evict"}) {
    answer_ = std::nullopt;
    EXPECT_EQ(Run({"worker", verb, "west"}), 2);
    EXPECT_THAT(err_, HasSubstr("give --yes, there is no terminal to ask at"));
    for (const std::string refusal : {"", "n", "no", "yesterday"}) {
      answer_ = refusal;
      EXPECT_EQ(Run({"worker", verb, "west"}), 130);
      EXPECT_EQ(err_, "dilococtl: not confirmed; nothing was changed\n");
    }
    EXPECT_THAT(question_, HasSubstr("worker west"));
    EXPECT_THAT(admin_.orders, ::testing::IsEmpty());
    for (const std::string consent : {"y", " YES \n"}) {
      answer_ = consent;
      EXPECT_EQ(Run({"worker", verb, "west"}), 0);
    }
    EXPECT_THAT(admin_.orders, ::testing::ElementsAre(verb + " west", verb + " west"));
    admin_.orders.clear();
  }
}

TEST_F(CtlTest, AnOrderNeedsTheNameOfAWorker) {
  for (const std::string verb : {"drain", "evict", "admit"}) {
    EXPECT_EQ(Run({"worker", verb}), 2);
    EXPECT_EQ(Run({"worker", verb, "../west"}), 2);
    EXPECT_THAT(err_, HasSubstr("NAME"));
  }
  EXPECT_EQ(Run({"worker", "admit", "west", "--yes"}), 2);
  EXPECT_THAT(admin_.orders, ::testing::IsEmpty());
  admin_.error = grpc::Status(grpc::StatusCode::NOT_FOUND, "the run has no worker \"north\"");
  EXPECT_EQ(Run({"worker", "admit", "north"}), 4);
  EXPECT_THAT(err_, HasSubstr("the run has no worker \"north\""));
}

}  // namespace
}  // namespace diloco
