// Where values lie on an axis, and which of them it names. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/plot/plot.h"

namespace diloco {

struct Tick {
  double value;
  std::string label;  // Empty: a line without a number.
};

// An axis with its ends.
class AxisRange {
 public:
  // `values`: all that shall be seen; those that the axis cannot show are left out. Without any, 0 to 1 or 1 to 10.
  AxisRange(const PlotAxis& axis, const std::vector<double>& values);

  double min() const { return min_; }
  double max() const { return max_; }
  // Whether the axis has a place for `value`, be it outside its ends.
  bool Shows(double value) const;
  // 0 at min, 1 at max.
  double Place(double value) const;
  // In [min, max], ascending. Linear: 1, 2 or 5 times a power of ten apart. Logarithmic: powers of ten, with unnamed
  // ticks at their multiples; where fewer than two powers are within the ends, the multiples are named.
  std::vector<Tick> Ticks() const;

 private:
  std::vector<Tick> LinearTicks() const;
  std::vector<Tick> LogTicks() const;

  const bool log_;
  double min_;
  double max_;
};

}  // namespace diloco
