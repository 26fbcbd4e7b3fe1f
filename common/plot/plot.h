// Line plots as SVG: text in, text out, without scripts, fonts or links. Pure.
//
//   Plot plot = {.title = "Loss", .x = {.label = "tokens", .scale = AxisScale::kLog}, .y = {.label = "nats a token"}};
//   plot.series.push_back({.name = "eager", .points = {{.x = 1e6, .y = 2.1, .low = 2.0, .high = 2.2}}});
//   std::string svg = PlotSvg(plot);
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace diloco {

enum class AxisScale { kLinear, kLog };

struct PlotAxis {
  std::string label;  // With the unit.
  AxisScale scale = AxisScale::kLinear;
  // Ends of the axis; default: the least and the greatest value, widened to round numbers. min < max, and above zero on
  // a logarithmic axis.
  std::optional<double> min;
  std::optional<double> max;
};

struct PlotPoint {
  double x = 0;
  double y = 0;
  // Ends of the error bar, in units of y.
  std::optional<double> low;
  std::optional<double> high;
};

struct PlotSeries {
  std::string name;  // In the legend.
  std::vector<PlotPoint> points;
};

struct Plot {
  std::string title;
  PlotAxis x;
  PlotAxis y;
  std::vector<PlotSeries> series;
};

// As many lines as the legend has room for.
inline constexpr size_t kMaxPlotSeries = 16;
// A line of more points has no markers, which would hide it.
inline constexpr size_t kMaxMarkedPoints = 24;

// An SVG document of 800 x 480 of at most kMaxPlotSeries series. Each is a line through its points in the given order,
// in a colour and with a marker of its own (eight of each, then they repeat with dashed lines), and a line of the
// legend. A point that an axis cannot show (not finite, not above zero on a logarithmic axis) breaks the line; what
// lies outside the ends of an axis is cut off. Equal plots give equal bytes.
std::string PlotSvg(const Plot& plot);

}  // namespace diloco
