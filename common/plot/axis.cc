#include "common/plot/axis.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"

#include "common/base/check.h"

namespace diloco {
namespace {

// About so many numbers on a linear axis.
constexpr double kLinearSteps = 6;
// A power of ten is taken for one also when rounding left it a little beside.
constexpr double kSlack = 1e-9;

double PowerOfTen(int exponent) { return std::pow(10.0, exponent); }

// The least of 1, 2, 5 times a power of ten that is at least `value`.
double RoundStep(double value) {
  const double power = std::pow(10.0, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * (1 - kSlack)) return factor * power;
  }
  return 10 * power;
}

double StepOf(double min, double max) { return RoundStep((max - min) / kLinearSteps); }

std::string NumberText(double value) { return absl::StrFormat("%.6g", value); }

}  // namespace

AxisRange::AxisRange(const PlotAxis& axis, const std::vector<double>& values)
    : log_(axis.scale == AxisScale::kLog), min_(log_ ? 1 : 0), max_(log_ ? 10 : 1) {
  std::vector<double> shown;
  std::copy_if(values.begin(), values.end(), std::back_inserter(shown), [&](double value) { return Shows(value); });
  if (!shown.empty()) {
    min_ = *std::min_element(shown.begin(), shown.end());
    max_ = *std::max_element(shown.begin(), shown.end());
  }
  if (log_) {
    min_ = PowerOfTen(static_cast<int>(std::floor(std::log10(min_) + kSlack)));
    max_ = PowerOfTen(static_cast<int>(std::ceil(std::log10(max_) - kSlack)));
    if (max_ <= min_) max_ = 10 * min_;
  } else {
    if (max_ == min_) max_ = min_ + std::max(1.0, std::abs(min_));  // One value only: any width will do.
    const double step = StepOf(min_, max_);
    min_ = step * std::floor(min_ / step + kSlack);
    max_ = step * std::ceil(max_ / step - kSlack);
  }
  min_ = axis.min.value_or(min_);
  max_ = axis.max.value_or(max_);
  DILOCO_CHECK(Shows(min_) && Shows(max_) && min_ < max_);
}

bool AxisRange::Shows(double value) const { return std::isfinite(value) && (!log_ || value > 0); }

double AxisRange::Place(double value) const {
  if (!log_) return (value - min_) / (max_ - min_);
  return std::log10(value / min_) / std::log10(max_ / min_);
}

std::vector<Tick> AxisRange::Ticks() const { return log_ ? LogTicks() : LinearTicks(); }

std::vector<Tick> AxisRange::LinearTicks() const {
  const double step = StepOf(min_, max_);
  std::vector<Tick> ticks;
  // Adding zero turns -0 into 0.
  for (double i = std::ceil(min_ / step - kSlack) + 0.0; i * step <= max_ + kSlack * step; ++i) {
    ticks.push_back({.value = i * step, .label = NumberText(i * step)});
  }
  return ticks;
}

std::vector<Tick> AxisRange::LogTicks() const {
  const int first = static_cast<int>(std::floor(std::log10(min_) + kSlack));
  const int last = static_cast<int>(std::ceil(std::log10(max_) - kSlack));
  const auto within = [&](double value) { return value >= min_ * (1 - kSlack) && value <= max_ * (1 + kSlack); };
  int powers = 0;
  for (int exponent = first; exponent <= last; ++exponent) powers += within(PowerOfTen(exponent)) ? 1 : 0;
  std::vector<Tick> ticks;
  for (int exponent = first; exponent <= last; ++exponent) {
    for (int factor = 1; factor < 10; ++factor) {
      const double value = factor * PowerOfTen(exponent);
      if (!within(value)) continue;
      ticks.push_back({.value = value, .label = factor == 1 || powers < 2 ? NumberText(value) : ""});
    }
  }
  return ticks;
}

}  // namespace diloco
