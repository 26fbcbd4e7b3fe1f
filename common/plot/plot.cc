#include "common/plot/plot.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "common/base/check.h"
#include "common/plot/axis.h"

namespace diloco {
namespace {

constexpr double kWidth = 800;
constexpr double kHeight = 480;
constexpr double kLeft = 72;
constexpr double kTop = 44;
constexpr double kBottom = kHeight - 56;
constexpr double kLegendLine = 20;
// The legend's width follows its longest name, as wide characters as there are.
constexpr double kCharacter = 6.6;
constexpr double kLegendSample = 30;
constexpr size_t kLongestName = 40;

// Okabe and Ito's colours, told apart also by the colour-blind; the yellow is too light on white and replaced by grey.
constexpr std::array<std::string_view, 8> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                      "#56b4e9", "#e69f00", "#000000", "#777777"};

// XML has no way to write control characters.
std::string Escaped(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// A marker around (x, y): eight shapes.
std::string Marker(size_t shape, double x, double y, std::string_view colour) {
  const auto path = [&](std::string_view steps, bool filled) {
    return absl::StrFormat("<path d=\"M%.2f %.2f%s\" fill=\"%s\" stroke=\"%s\"/>\n", x, y, steps,
                           filled ? colour : "white", colour);
  };
  switch (shape) {
    case 0:
      return absl::StrFormat("<circle cx=\"%.2f\" cy=\"%.2f\" r=\"3\" fill=\"%s\"/>\n", x, y, colour);
    case 1:
      return path("m-3 -3h6v6h-6z", true);
    case 2:
      return path("m0 -4l4 7h-8z", true);
    case 3:
      return path("m0 -4l4 4l-4 4l-4 -4z", true);
    case 4:
      return path("m0 4l4 -7h-8z", true);
    case 5:
      return path("m-3 -3h6v6h-6z", false);
    case 6:
      return path("m0 -4l4 7h-8z", false);
    default:
      return path("m0 -4l4 4l-4 4l-4 -4z", false);
  }
}

class Canvas {
 public:
  explicit Canvas(const Plot& plot);
  std::string Draw();

 private:
  double X(double value) const { return kLeft + x_.Place(value) * (right_ - kLeft); }
  double Y(double value) const { return kBottom - y_.Place(value) * (kBottom - kTop); }
  void DrawAxes();
  void DrawSeries(size_t index);
  void DrawLegend(size_t index);

  static std::vector<double> Values(const Plot& plot, bool y);
  static double Right(const Plot& plot);

  const Plot& plot_;
  const AxisRange x_;
  const AxisRange y_;
  const double right_;
  std::string out_;
};

std::vector<double> Canvas::Values(const Plot& plot, bool y) {
  std::vector<double> values;
  for (const PlotSeries& series : plot.series) {
    for (const PlotPoint& point : series.points) {
      values.push_back(y ? point.y : point.x);
      if (y && point.low) values.push_back(*point.low);
      if (y && point.high) values.push_back(*point.high);
    }
  }
  return values;
}

double Canvas::Right(const Plot& plot) {
  size_t longest = 0;
  for (const PlotSeries& series : plot.series) longest = std::max(longest, series.name.size());
  return kWidth - kLegendSample - 28 - kCharacter * static_cast<double>(std::min(longest, kLongestName));
}

Canvas::Canvas(const Plot& plot)
    : plot_(plot), x_(plot.x, Values(plot, false)), y_(plot.y, Values(plot, true)), right_(Right(plot)) {}

void Canvas::DrawAxes() {
  absl::StrAppendFormat(&out_, "<text x=\"%.2f\" y=\"24\" text-anchor=\"middle\" font-size=\"15\">%s</text>\n",
                        (kLeft + right_) / 2, Escaped(plot_.title));
  for (const Tick& tick : x_.Ticks()) {
    absl::StrAppendFormat(&out_, "<path d=\"M%.2f %.2fV%.2f\" stroke=\"%s\"/>\n", X(tick.value), kTop, kBottom,
                          tick.label.empty() ? "#f0f0f0" : "#d0d0d0");
    if (tick.label.empty()) continue;
    absl::StrAppendFormat(&out_, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">%s</text>\n", X(tick.value),
                          kBottom + 18, tick.label);
  }
  for (const Tick& tick : y_.Ticks()) {
    absl::StrAppendFormat(&out_, "<path d=\"M%.2f %.2fH%.2f\" stroke=\"%s\"/>\n", kLeft, Y(tick.value), right_,
                          tick.label.empty() ? "#f0f0f0" : "#d0d0d0");
    if (tick.label.empty()) continue;
    absl::StrAppendFormat(&out_, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"end\">%s</text>\n", kLeft - 8,
                          Y(tick.value) + 4, tick.label);
  }
  absl::StrAppendFormat(&out_,
                        "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" stroke=\"#444\"/>\n",
                        kLeft, kTop, right_ - kLeft, kBottom - kTop);
  absl::StrAppendFormat(&out_, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"middle\">%s</text>\n", (kLeft + right_) / 2,
                        kHeight - 14, Escaped(plot_.x.label));
  absl::StrAppendFormat(&out_, "<text transform=\"translate(18 %.2f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
                        (kTop + kBottom) / 2, Escaped(plot_.y.label));
}

void Canvas::DrawSeries(size_t index) {
  const PlotSeries& series = plot_.series[index];
  const std::string_view colour = kColours[index % kColours.size()];
  std::string line;
  std::string marks;
  bool broken = true;
  for (const PlotPoint& point : series.points) {
    const bool shown = x_.Shows(point.x) && y_.Shows(point.y);
    if (shown) absl::StrAppendFormat(&line, "%s%.2f %.2f", broken ? "M" : "L", X(point.x), Y(point.y));
    broken = !shown;
    if (!shown) continue;
    const double low = point.low.value_or(point.y);
    const double high = point.high.value_or(point.y);
    if (low != high && y_.Shows(low) && y_.Shows(high)) {
      absl::StrAppendFormat(&marks, "<path d=\"M%.2f %.2fV%.2fm-3 0h6M%.2f %.2fm-3 0h6\" stroke=\"%s\"/>\n", X(point.x),
                            Y(low), Y(high), X(point.x), Y(low), colour);
    }
    if (series.points.size() <= kMaxMarkedPoints)
      marks += Marker(index % kColours.size(), X(point.x), Y(point.y), colour);
  }
  absl::StrAppendFormat(&out_, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"%s/>\n", line, colour,
                        index >= kColours.size() ? " stroke-dasharray=\"5 3\"" : "");
  out_ += marks;
}

void Canvas::DrawLegend(size_t index) {
  const std::string_view colour = kColours[index % kColours.size()];
  const double x = right_ + 14;
  const double y = kTop + 8 + kLegendLine * static_cast<double>(index);
  absl::StrAppendFormat(&out_, "<path d=\"M%.2f %.2fh%.0f\" stroke=\"%s\" stroke-width=\"1.6\"%s/>\n", x, y,
                        kLegendSample - 8, colour, index >= kColours.size() ? " stroke-dasharray=\"5 3\"" : "");
  if (plot_.series[index].points.size() <= kMaxMarkedPoints)
    out_ += Marker(index % kColours.size(), x + (kLegendSample - 8) / 2, y, colour);
  absl::StrAppendFormat(&out_, "<text x=\"%.2f\" y=\"%.2f\">%s</text>\n", x + kLegendSample - 2, y + 4,
                        Escaped(plot_.series[index].name));
}

std::string Canvas::Draw() {
  out_ = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, kHeight, kWidth, kHeight);
  DrawAxes();
  absl::StrAppendFormat(&out_,
                        "<clipPath id=\"frame\"><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>"
                        "</clipPath>\n<g clip-path=\"url(#frame)\">\n",
                        kLeft - 5, kTop - 5, right_ - kLeft + 10, kBottom - kTop + 10);
  for (size_t i = 0; i < plot_.series.size(); ++i) DrawSeries(i);
  out_ += "</g>\n";
  for (size_t i = 0; i < plot_.series.size(); ++i) DrawLegend(i);
  out_ += "</svg>\n";
  return std::move(out_);
}

}  // namespace

std::string PlotSvg(const Plot& plot) {
  DILOCO_CHECK(plot.series.size() <= kMaxPlotSeries);
  return Canvas(plot).Draw();
}

}  // namespace diloco
