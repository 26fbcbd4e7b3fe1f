// The training thread's turns while an operator steers the run; whole workers are in run_worker_test.cc.
#include "worker/loop/training_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/worker/loop/quadratic_trainer.h"

namespace diloco {
namespace {

using ::testing::ElementsAre;
using Turn = TrainingLoop::Turn;

// One worker of two, H = 2, one fragment of three parameters, ten rounds.
class TrainingLoopTest : public testing::Test {
 protected:
  TrainingLoopTest()
      : config_(*ParseRunConfig("run: {id: r, workers: 2, rounds: 10}\nmethod: eager\ninner_steps: 2\n", "test")),
        trainer_(QuadraticTrainer::World(0, 3)),
        layout_(*Layout::Cut(trainer_.Tensors(), config_.fragments.cut)),
        exchange_({.coordinator = "host:1"}, &clock_) {
    trainer_.SetLayout(layout_);
  }

  TrainingLoop Make(int64_t first_round) {
    return TrainingLoop({.options = &options_,
                         .config = &config_,
                         .layout = &layout_,
                         .trainer = &trainer_,
                         .exchange = &exchange_,
                         .board = &board_,
                         .clock = &clock_,
                         .post =
                             [this](SyncEvent event) {
                               if (const auto* advanced = std::get_if<TrainingAdvanced>(&event)) {
                                 stops_.push_back(advanced->round);
                               }
                             },
                         .report = [](const v1::Evaluation&) {}},
                        first_round);
  }
  void StageStart(int64_t version) {
    FragmentOuter::Staged staged{.base = {1, 1, 1}, .version = version};
    exchange_.Publish(
        0, {.staged = std::make_shared<const FragmentOuter::Staged>(std::move(staged)), .published = version});
  }
  void Set(const std::string& key, const std::string& value) {
    exchange_.PublishSettings(std::make_shared<const RunSettings>(
        *RunSettings::Make(config_, {{.from_round = 0, .settings = {{key, value}}}})));
  }
  // Turns until there is nothing to do for now.
  static Turn Settle(TrainingLoop* loop) {
    while (true) {
      const absl::StatusOr<Turn> turn = loop->Advance();
      EXPECT_TRUE(turn.ok()) << turn.status();
      if (!turn.ok() || *turn != Turn::kMoved) return turn.value_or(Turn::kDone);
    }
  }

  const SteadyClock clock_;
  const RunConfig config_;
  QuadraticTrainer trainer_;
  const Layout layout_;
  WorkerOptions options_;
  StatusBoard board_;
  Exchange exchange_;
  std::vector<int64_t> stops_;  // As they were announced.
};

TEST_F(TrainingLoopTest, AWorkerThatWouldBeginBehindTheEndOfAStoppedRunEndsWithIt) {
  TrainingLoop loop = Make(/*first_round=*/8);
  StageStart(5);
  EXPECT_EQ(Settle(&loop), Turn::kWaits);
  Set("run.rounds", "6");
  EXPECT_EQ(Settle(&loop), Turn::kWaits) << "its last average is on its way";
  StageStart(6);
  EXPECT_EQ(Settle(&loop), Turn::kWaits) << "the end record is on its way";
  EXPECT_EQ(stops_.back(), kNoRound);
  EXPECT_EQ(board_.Get().state, "settling");
  EXPECT_EQ(board_.Get().session_steps, 0);
  exchange_.PublishEnd();
  EXPECT_EQ(Settle(&loop), Turn::kDone);
}

TEST_F(TrainingLoopTest, ADrainedWorkerIsNotKeptBusyByOtherSettings) {
  TrainingLoop loop = Make(/*first_round=*/0);
  StageStart(0);
  exchange_.AskToDrain();
  EXPECT_EQ(Settle(&loop), Turn::kWaits);
  EXPECT_EQ(board_.Get().state, "settling");
  Set("eval.every", "7");
  EXPECT_EQ(Settle(&loop), Turn::kWaits);
  // Settings that nobody has taken end each wait at once.
  EXPECT_EQ(exchange_.TakeSettings(), nullptr);
}

}  // namespace
}  // namespace diloco
