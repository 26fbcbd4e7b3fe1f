#include "coordinator/page/run_history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "nlohmann/json.hpp"

namespace diloco {
namespace {

using nlohmann::json;

constexpr MonotonicTime At(int64_t seconds) { return {seconds * 1'000'000'000}; }

v1::WorkerProgress Progress(int64_t step, double loss) {
  v1::WorkerProgress progress;
  progress.set_step(step);
  progress.set_loss(loss);
  return progress;
}

TEST(CurveTest, KeepsEverySampleWhileTheyAreFew) {
  Curve curve;
  curve.Add(1, 4);
  curve.Add(2, 3);
  EXPECT_EQ(curve.Points(), (std::vector<CurvePoint>{{1, 4}, {2, 3}}));
}

TEST(CurveTest, StaysSmallAndEachPointIsTheMeanOfAsManySamples) {
  Curve curve;
  for (int i = 0; i < 100'000; ++i) curve.Add(i, 10 + (i % 2));
  const std::vector<CurvePoint> points = curve.Points();
  ASSERT_LE(points.size(), kMaxCurvePoints);
  ASSERT_GE(points.size(), kMaxCurvePoints / 2);
  // Of 512 samples each it would take 196 points, of 1,024 it takes 98; each lies where its last sample does.
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    EXPECT_EQ(points[i].x, static_cast<double>(1024 * (i + 1) - 1));
    EXPECT_EQ(points[i].y, 10.5);
  }
  EXPECT_EQ(points.back().x, 99'999) << "the newest sample is there";
}

TEST(CurveTest, ASampleThatIsNotFiniteOrWasThereAddsNothing) {
  Curve curve;
  curve.Add(1, 4);
  curve.Add(1, 5);
  curve.Add(2, NAN);
  curve.Add(3, INFINITY);
  EXPECT_EQ(curve.Points(), (std::vector<CurvePoint>{{1, 4}}));
}

TEST(CurveTest, WhoBeginsAgainFurtherBackIsDrawnFromThere) {
  Curve curve;
  for (int i = 1; i <= 5; ++i) curve.Add(i, i);
  curve.Add(3, 30);
  EXPECT_EQ(curve.Points(), (std::vector<CurvePoint>{{1, 1}, {2, 2}, {3, 30}}));
}

TEST(RunHistoryTest, IsJson) {
  RunHistory history;
  history.AddCommit(0, 7, At(10));
  history.AddCommit(1, 7, At(11));
  history.AddCommit(0, 8, At(12));
  v1::Evaluation evaluation;
  evaluation.set_version(5);
  evaluation.set_loss(2.5);
  history.AddEvaluation(evaluation);
  history.AddProgress("west", Progress(30, 3.25));
  history.AddProgress("east", Progress(0, 9));  // No step yet.
  EXPECT_EQ(json::parse(history.ToJson(At(13))),
            json::parse(R"({"commits": [{"round": 7, "seconds_ago": 3.0}, {"round": 8, "seconds_ago": 1.0}],
                            "held_out": [[5, 2.5]], "workers": [{"worker_id": "west", "points": [[30, 3.25]]}]})"));
}

TEST(RunHistoryTest, StaysSmallHoweverLongTheRunAndHoweverManyTheWorkers) {
  RunHistory history;
  for (int round = 0; round < 1000; ++round) history.AddCommit(0, round, At(round));
  for (int worker = 0; worker < 2 * kMaxWorkers; ++worker) history.AddProgress(std::to_string(worker), Progress(1, 1));
  const json parsed = json::parse(history.ToJson(At(1000)));
  ASSERT_EQ(parsed["commits"].size(), kMaxCommitTimes);
  EXPECT_EQ(parsed["commits"].back(), json({{"round", 999}, {"seconds_ago", 1.0}}));
  EXPECT_EQ(parsed["workers"].size(), static_cast<size_t>(kMaxWorkers));
}

TEST(RunHistoryTest, RoundsThatAreCommittedAgainReplaceTheFirstOnes) {
  RunHistory history;
  for (int round = 5; round <= 8; ++round) history.AddCommit(0, round, At(round));
  history.AddCommit(0, 6, At(20));
  const json parsed = json::parse(history.ToJson(At(20)));
  ASSERT_EQ(parsed["commits"].size(), 2U);
  EXPECT_EQ(parsed["commits"][0]["round"], 5);
  EXPECT_EQ(parsed["commits"][1]["round"], 6);
}

}  // namespace
}  // namespace diloco
