#include "coordinator/plan/paper_simulator.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "absl/strings/str_format.h"

namespace diloco {
namespace {

constexpr int kLayersAFragment = 3;
constexpr int kGridPoints = 50;

double GridGbps(int point) { return std::pow(10.0, -1 + 4.0 * point / (kGridPoints - 1)); }

bool Sends(const PaperModel& model, const PaperMethod& method, int step, int layer) {
  const int fragments = (model.layers + kLayersAFragment - 1) / kLayersAFragment;
  const int fragment = layer % fragments;
  switch (method.send) {
    case PaperSend::kAllEachStep:
      return true;
    case PaperSend::kAllEachRound:
      return (step + 1) % method.inner_steps == 0;
    case PaperSend::kFragmentEachStep:
      return step % fragments == fragment;
    case PaperSend::kFragmentsAtOffsets:
      return (step + 1 - fragment * std::max(1, method.inner_steps / (fragments + 1))) % method.inner_steps == 0;
  }
  return false;
}

struct Reduction {
  int due_step;  // Whose forward pass waits for it.
  double arrives;
};

double Rounded(double value, int decimals) {
  return std::strtod(absl::StrFormat("%.*f", decimals, value).c_str(), nullptr);
}

}  // namespace

double PaperUtilization(const PaperModel& model, const PaperMethod& method, double gbps) {
  const double node = model.step_seconds / (3 * model.layers);
  const double transfer = model.parameters * method.bits / model.layers / (gbps * 1e9);
  double now = 0;
  double compute = 0;
  double link_free = 0;
  std::vector<std::vector<Reduction>> pending(static_cast<size_t>(model.layers));
  for (int step = 0; step < method.steps; ++step) {
    for (std::vector<Reduction>& layer : pending) {
      std::erase_if(layer, [&](const Reduction& reduction) {
        if (reduction.due_step > step) return false;
        now = std::max(now, reduction.arrives);
        return true;
      });
      now += node;
      compute += node;
    }
    for (int layer = model.layers - 1; layer >= 0; --layer) {
      const int nodes = layer > 0 ? 2 : 1;
      now += nodes * node;
      compute += nodes * node;
      if (!Sends(model, method, step, layer)) continue;
      link_free = std::max(link_free, now) + transfer;
      pending[static_cast<size_t>(layer)].push_back({.due_step = step + 1 + method.overlap, .arrives = link_free});
    }
  }
  return compute / (method.drain ? std::max(now, link_free) : now);
}

std::array<double, kPaperTargets.size()> PrintedGbps(const PaperModel& model, const PaperMethod& method) {
  std::array<int, kPaperTargets.size()> first;
  first.fill(kGridPoints);
  for (int point = kGridPoints - 1; point >= 0; --point) {
    const double utilization = PaperUtilization(model, method, GridGbps(point));
    for (size_t t = 0; t < first.size(); ++t) {
      if (utilization >= kPaperTargets[t]) first[t] = point;
    }
  }
  std::array<double, kPaperTargets.size()> printed;
  for (size_t t = 0; t < first.size(); ++t) printed[t] = Rounded(Rounded(GridGbps(std::max(0, first[t] - 1)), 2), 1);
  return printed;
}

double SteadyBoundGbps(const PaperModel& model, int inner_steps, int bits) {
  return model.parameters * bits / (inner_steps * model.step_seconds) / 1e9;
}

}  // namespace diloco
