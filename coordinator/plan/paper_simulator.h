// The simulator behind the papers' tables of bandwidth (Streaming DiLoCo, arXiv 2501.18512, section 3.1 and table 4;
// Eager Updates, arXiv 2502.12996, table 5), rebuilt from their description. Pure.
//
// A step is a chain of compute nodes of step_seconds / (3 * layers) each: forward through layers 1..L, then for
// l = L..1 backward to activations (not for l = 1) and backward to parameters. One link carries the layers' reductions
// first in, first out, at the full bandwidth and without latency: an all-reduce among two. A layer's reduction starts
// when its backward to parameters is done; the forward pass of that layer, `overlap` steps after the next, waits for
// it. Utilization is compute time / total time.
//
// Fitted to the published cells, since the papers do not say: the grid and the point printed (PrintedGbps), windows of
// 60 to 200 steps, one fragment a step, round robin, where they say H = 30, and that the rows with an overlap of one
// outer step do not wait for what is still on the link when the window ends. The last of these flatters those rows: of
// a window of two rounds only half the traffic has to arrive. SteadyBoundGbps is what a run without an end needs.
#pragma once

#include <array>
#include <string_view>

namespace diloco {

struct PaperModel {
  std::string_view name;
  int layers;           // Each has an equal share of the parameters.
  double step_seconds;  // Pure compute of one inner step.
  double parameters;
};

// Which layers are reduced after which step. A fragment is every ceil(layers / 3)-th layer: three of them, strided.
enum class PaperSend {
  kAllEachStep,         // Data-parallel.
  kAllEachRound,        // Blocking DiLoCo.
  kFragmentEachStep,    // One fragment a step, round robin.
  kFragmentsAtOffsets,  // Each fragment once a round, H / (fragments + 1) steps after the one before it.
};

struct PaperMethod {
  PaperSend send;
  int inner_steps;  // H. Without effect on kAllEachStep and kFragmentEachStep.
  int overlap;      // Inner steps.
  int bits;         // A parameter.
  int steps;        // Of the window that is simulated.
  bool drain;       // Whether the window ends only when the link is idle.
};

// Compute time / total time over a link of `gbps` (> 0) Gbit/s, in (0, 1].
double PaperUtilization(const PaperModel& model, const PaperMethod& method, double gbps);

// The columns of the papers' tables.
inline constexpr std::array<double, 5> kPaperTargets = {0.50, 0.80, 0.90, 0.95, 0.99};

// What the papers would print for each of kPaperTargets: of 50 points, spaced by a constant factor from 0.1 to
// 1000 Gbit/s, the one just below the first that reaches the target, rounded to two decimals and then to one.
std::array<double, kPaperTargets.size()> PrintedGbps(const PaperModel& model, const PaperMethod& method);

// Gbit/s below which no schedule can keep up: all bits of a round have to pass in the time of `inner_steps` steps.
double SteadyBoundGbps(const PaperModel& model, int inner_steps, int bits);

}  // namespace diloco
