// The papers' simulator against their published tables, and against the same tables as an independent program in
// another language computes them from the description (double precision, its own loops).
#include "coordinator/plan/paper_simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"

#include "coordinator/plan/paper_tables.h"

namespace diloco {
namespace {

using Cells = std::array<std::array<double, kPaperTargets.size()>, kPaperModels.size()>;

// What the independent program prints, by row.
constexpr Cells kIndependent[] = {
    {{{86.8, 152.6, 184.2, 222.3, 569.0},
      {104.8, 222.3, 222.3, 268.3, 471.5},
      {184.2, 323.8, 390.7, 390.7, 471.5}}},                                                          // data-parallel
    {{{1.4, 6.2, 13.3, 23.3, 86.8}, {1.7, 7.5, 16.0, 33.9, 104.8}, {3.0, 11.0, 23.3, 49.4, 184.2}}},  // diloco H=100
    {{{1.4, 5.2, 9.1, 16.0, 28.1}, {1.7, 5.2, 9.1, 13.3, 19.3}, {2.4, 6.2, 9.1, 11.0, 23.3}}},        // streaming H=100
    {{{1.4, 4.3, 6.2, 9.1, 11.0},
      {1.7, 3.6, 5.2, 6.2, 7.5},
      {2.0, 3.6, 4.3, 5.2, 5.2}}},  // streaming H=100, 1 inner step
    {{{0.4, 0.9, 1.7, 2.0, 3.0},
      {0.4, 0.9, 1.4, 1.4, 1.7},
      {0.5, 0.9, 1.1, 1.1, 1.4}}},  // streaming H=100, 1 inner step, fp4
    {{{2.4, 3.6, 4.3, 4.3, 4.3},
      {1.4, 2.4, 2.4, 3.0, 3.0},
      {0.9, 1.7, 2.0, 2.0, 2.0}}},  // streaming H=30, 1 inner step, fp4
    {{{1.1, 1.7, 2.0, 2.0, 2.4},
      {0.7, 1.1, 1.4, 1.4, 1.4},
      {0.5, 0.8, 0.9, 0.9, 0.9}}},  // eager H=30, 1 outer step, fp4
    {{{0.1, 0.1, 0.2, 0.2, 0.2},
      {0.1, 0.2, 0.2, 0.3, 0.3},
      {0.2, 0.4, 0.4, 0.4, 0.5}}},  // eager H=100, 1 outer step, fp4
};

// Indices of the papers' grid of 50 points that are printed as `value`.
std::vector<int> GridPoints(double value) {
  std::vector<int> points;
  for (int i = 0; i < 50; ++i) {
    const double hundredths = std::atof(absl::StrFormat("%.2f", 0.1 * std::pow(1e4, i / 49.0)).c_str());
    if (absl::StrFormat("%.1f", hundredths) == absl::StrFormat("%.1f", value)) points.push_back(i);
  }
  return points;
}

bool WithinOnePoint(double a, double b) {
  for (const int i : GridPoints(a)) {
    for (const int j : GridPoints(b)) {
      if (std::abs(i - j) <= 1) return true;
    }
  }
  return false;
}

TEST(PaperSimulatorTest, PrintsWhatTheIndependentProgramPrints) {
  ASSERT_EQ(PaperRows().size(), std::size(kIndependent));
  for (size_t row = 0; row < PaperRows().size(); ++row) {
    for (size_t m = 0; m < kPaperModels.size(); ++m) {
      EXPECT_EQ(PrintedGbps(kPaperModels[m], PaperRows()[row].setting), kIndependent[row][m])
          << PaperRows()[row].method << ", " << kPaperModels[m].name;
    }
  }
}

TEST(PaperSimulatorTest, AgreesWithThePublishedTables) {
  int cells = 0;
  int exact = 0;
  for (const PaperRow& row : PaperRows()) {
    const bool blocking = row.setting.send == PaperSend::kAllEachStep || row.setting.send == PaperSend::kAllEachRound;
    for (size_t m = 0; m < kPaperModels.size(); ++m) {
      const auto ours = PrintedGbps(kPaperModels[m], row.setting);
      for (size_t t = 0; t < ours.size(); ++t) {
        ++cells;
        exact += ours[t] == row.published[m][t] ? 1 : 0;
        EXPECT_TRUE(WithinOnePoint(ours[t], row.published[m][t]))
            << row.method << ", " << kPaperModels[m].name << ": " << ours[t] << ", published " << row.published[m][t];
        EXPECT_TRUE(!blocking || ours[t] == row.published[m][t]) << row.method << ", " << kPaperModels[m].name;
      }
    }
  }
  EXPECT_EQ(cells, 120);
  EXPECT_EQ(exact, 112);
}

// Blocking, with one layer: after each of the H-th steps the link carries all bits while nobody computes.
TEST(PaperSimulatorTest, BlockingFollowsItsClosedForm) {
  const PaperModel model = {.name = "one layer", .layers = 1, .step_seconds = 0.5, .parameters = 1e9};
  const PaperMethod method = {
      .send = PaperSend::kAllEachRound, .inner_steps = 10, .overlap = 0, .bits = 16, .steps = 40, .drain = true};
  for (const double gbps : {0.5, 4.0, 100.0}) {
    // A step of one layer is a forward and one backward node: two thirds of step_seconds.
    const double compute = 10 * 0.5 * 2 / 3;
    EXPECT_NEAR(PaperUtilization(model, method, gbps), compute / (compute + 16 / gbps), 1e-12);
  }
}

TEST(PaperSimulatorTest, SteadyBoundsConserveBits) {
  const std::vector<std::pair<int, std::array<double, 3>>> bounds = {{100, {0.40, 0.50, 0.82}},
                                                                     {30, {1.33, 1.67, 2.72}}};
  for (const auto& [inner_steps, expected] : bounds) {
    for (size_t m = 0; m < kPaperModels.size(); ++m) {
      EXPECT_NEAR(SteadyBoundGbps(kPaperModels[m], inner_steps, 4), expected[m], 0.005);
    }
  }
}

// Over a long window the overlap of an outer step no longer hides what the short one hides: the steady bound holds.
TEST(PaperSimulatorTest, EagerMeetsItsSteadyBoundInALongWindow) {
  PaperMethod eager = PaperRows().back().setting;
  eager.steps = 10'000;
  for (const PaperModel& model : kPaperModels) {
    const double bound = SteadyBoundGbps(model, eager.inner_steps, eager.bits);
    EXPECT_NEAR(PaperUtilization(model, eager, bound / 2), 0.5, 0.02) << model.name;
    EXPECT_GT(PaperUtilization(model, eager, bound * 1.05), 0.99) << model.name;
  }
}

}  // namespace
}  // namespace diloco
