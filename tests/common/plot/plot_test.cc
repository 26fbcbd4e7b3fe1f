// The document is read back with regular expressions; what it looks like is for eyes.
#include "common/plot/plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Axes from 0 to 10 and from 1 to 100, logarithmic.
Plot MakePlot(std::vector<PlotPoint> points) {
  return {.title = "title",
          .x = {.label = "x axis", .min = 0, .max = 10},
          .y = {.label = "y axis", .scale = AxisScale::kLog, .min = 1, .max = 100},
          .series = {{.name = "line", .points = std::move(points)}}};
}

struct Frame {
  double left, top, width, height;
};

Frame FrameOf(const std::string& svg) {
  std::smatch match;
  const std::regex pattern(R"re(<rect x="([0-9.]+)" y="([0-9.]+)" width="([0-9.]+)" height="([0-9.]+)" fill="none")re");
  EXPECT_TRUE(std::regex_search(svg, match, pattern)) << svg;
  return {std::stod(match[1]), std::stod(match[2]), std::stod(match[3]), std::stod(match[4])};
}

// The path of the only series.
std::string LineOf(const std::string& svg) {
  std::smatch match;
  EXPECT_TRUE(std::regex_search(svg, match, std::regex(R"re(<path d="([^"]*)" fill="none")re"))) << svg;
  return match[1];
}

TEST(PlotTest, DrawsPointsWhereTheAxesPlaceThem) {
  const std::string svg = PlotSvg(MakePlot({{.x = 0, .y = 1}, {.x = 5, .y = 10}, {.x = 10, .y = 100}}));
  const Frame frame = FrameOf(svg);
  EXPECT_EQ(LineOf(svg), absl::StrFormat("M%.2f %.2fL%.2f %.2fL%.2f %.2f", frame.left, frame.top + frame.height,
                                         frame.left + frame.width / 2, frame.top + frame.height / 2,
                                         frame.left + frame.width, frame.top));
}

TEST(PlotTest, APointThatAnAxisCannotShowBreaksTheLine) {
  for (const double y : {kNan, 0.0, -1.0}) {
    const std::string line = LineOf(PlotSvg(MakePlot({{.x = 0, .y = 1}, {.x = 5, .y = y}, {.x = 10, .y = 100}})));
    EXPECT_EQ(std::count(line.begin(), line.end(), 'M'), 2) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), 'L'), 0) << line;
  }
}

TEST(PlotTest, ErrorBarsSpanTheirEnds) {
  const std::string svg = PlotSvg(MakePlot({{.x = 5, .y = 10, .low = 1, .high = 100}}));
  const Frame frame = FrameOf(svg);
  EXPECT_THAT(svg, HasSubstr(absl::StrFormat("M%.2f %.2fV%.2fm-3 0h6", frame.left + frame.width / 2,
                                             frame.top + frame.height, frame.top)));
}

TEST(PlotTest, NamesEverything) {
  const std::string svg = PlotSvg(MakePlot({{.x = 1, .y = 2}}));
  for (const char* text : {">title</text>", ">x axis</text>", ">y axis</text>", ">line</text>", ">10</text>"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST(PlotTest, TextCannotLeaveItsPlace) {
  Plot plot = MakePlot({});
  plot.title = "a < b & \"c\" >\nd";
  plot.series[0].name = "</text><script>alert(1)</script>";
  const std::string svg = PlotSvg(plot);
  EXPECT_THAT(svg, HasSubstr(">a &lt; b &amp; &quot;c&quot; &gt; d</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST(PlotTest, ManyPointsHaveNoMarkersAndManySeriesAreDashed) {
  Plot plot = MakePlot(std::vector<PlotPoint>(kMaxMarkedPoints, {.x = 1, .y = 2}));
  EXPECT_THAT(PlotSvg(plot), HasSubstr("<circle"));
  plot.series[0].points.push_back({.x = 1, .y = 2});
  EXPECT_THAT(PlotSvg(plot), Not(HasSubstr("<circle")));
  EXPECT_THAT(PlotSvg(plot), Not(HasSubstr("stroke-dasharray")));
  plot.series.resize(kMaxPlotSeries, plot.series[0]);
  EXPECT_THAT(PlotSvg(plot), HasSubstr("stroke-dasharray"));
}

// Every tag that is opened is closed, in order.
TEST(PlotTest, IsWellFormed) {
  Plot plot = MakePlot({{.x = 1, .y = 2, .low = 1.5, .high = 3}, {.x = 3, .y = kNan}});
  plot.series.resize(kMaxPlotSeries, plot.series[0]);
  const std::string svg = PlotSvg(plot);
  std::vector<std::string> open;
  const std::regex tag(R"re(<(/?)([a-zA-Z]+)((?: [a-zA-Z:-]+="[^"<>]*")*)(/?)>)re");
  size_t tags = 0;
  for (std::sregex_iterator it(svg.begin(), svg.end(), tag), end; it != end; ++it, ++tags) {
    if ((*it)[1] == "/") {
      ASSERT_FALSE(open.empty());
      EXPECT_EQ(open.back(), (*it)[2]);
      open.pop_back();
    } else if ((*it)[4] != "/") {
      open.push_back((*it)[2]);
    }
  }
  EXPECT_TRUE(open.empty());
  EXPECT_EQ(static_cast<size_t>(std::count(svg.begin(), svg.end(), '<')), tags);
}

}  // namespace
}  // namespace diloco
