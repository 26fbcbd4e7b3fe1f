// `dilococtl plan` without a coordinator: output, JSON shape, bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/ctl/ctl.h"
#include "coordinator/ctl/plan_plot.h"
#include "tests/support/temp_folder.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using ::testing::HasSubstr;

class PlanCommandTest : public ::testing::Test {
 protected:
  // The exit code of `dilococtl plan ARGUMENTS`; what was printed is in out_ and err_.
  int Run(const std::vector<std::string>& arguments) {
    std::vector<const char*> argv = {"dilococtl", "plan"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    out_.clear();
    err_.clear();
    return RunCtl(static_cast<int>(argv.size()), argv.data(),
                  {.out = [this](std::string_view text) { out_ += text; },
                   .err = [this](std::string_view text) { err_ += text; }});
  }

  std::string out_;
  std::string err_;
};

TEST_F(PlanCommandTest, PaperPrintsTheTablesAndTheHonestLine) {
  EXPECT_EQ(Run({"--paper"}), 0);
  EXPECT_EQ(err_, "");
  EXPECT_THAT(out_, HasSubstr("112 of 120 cells agree exactly, the others within one point."));
  EXPECT_THAT(out_, HasSubstr("the paper prints 0.4 Gbit/s for \"eager H=100, 1 outer step, fp4\", 1177 times less"));
  EXPECT_THAT(out_, HasSubstr("0.82 Gbit/s (steady bound), about 575 times less than data-parallel."));
}

TEST_F(PlanCommandTest, PaperJsonHasAnObjectACell) {
  EXPECT_EQ(Run({"--paper", "-o", "json"}), 0);
  const nlohmann::json cells = nlohmann::json::parse(out_);
  ASSERT_EQ(cells.size(), 120u);
  std::map<std::string, int> methods;
  for (const nlohmann::json& cell : cells) {
    ++methods[cell.at("method").get<std::string>()];
    EXPECT_TRUE(cell.at("published").is_number()) << cell;
    EXPECT_TRUE(cell.at("ours").is_number()) << cell;
  }
  EXPECT_EQ(methods.size(), 8u);
  EXPECT_EQ(methods["data-parallel"], 15);
  const nlohmann::json headline = {{"table", "arXiv 2502.12996, table 5"},
                                   {"method", "eager H=100, 1 outer step, fp4"},
                                   {"row", "100B"},
                                   {"column", "99%"},
                                   {"published", 0.4},
                                   {"ours", 0.5},
                                   {"steady_bound", 1e11 * 4 / (100 * 4.9) / 1e9}};
  EXPECT_EQ(cells.back(), headline);
}

TEST_F(PlanCommandTest, PrintsARowForEachMethodAndH) {
  EXPECT_EQ(Run({"--preset", "1B-paper", "--inner-steps", "30", "--inner-steps", "100"}), 0);
  EXPECT_EQ(err_, "");
  EXPECT_THAT(out_, HasSubstr("1B-paper: 1e+09 parameters, 24 layers, 0.1 s an inner step"));
  EXPECT_THAT(out_, HasSubstr("2 with 1 Gbit/s up, 1 Gbit/s down, 0 ms one way"));
  for (const char* row : {"data-parallel    1 ", "diloco          30 ", "diloco         100 ", "streaming       30 ",
                          "streaming      100 ", "delayed         30 ", "eager          100 "}) {
    EXPECT_THAT(out_, HasSubstr(row));
  }
}

TEST_F(PlanCommandTest, JsonHoldsTheSettingAndEachMethod) {
  EXPECT_EQ(Run({"-o",   "json",          "--layers", "4",         "--parameters", "256e6", "--step-seconds",
                 "0.5",  "--inner-steps", "10",       "--method",  "eager",        "--up",  "1Gbit",
                 "--up", "500Mbit",       "--down",   "unlimited", "--latency",    "20ms",  "--uplink",
                 "e3m0", "--downlink",    "bf16",     "--egress",  "1Gbit"}),
            0);
  const nlohmann::json json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["model"],
            (nlohmann::json{{"name", "model"}, {"parameters", 256'000'000}, {"layers", 4}, {"step_seconds", 0.5}}));
  ASSERT_EQ(json["network"]["links"].size(), 2u);
  EXPECT_EQ(json["network"]["links"][1],
            (nlohmann::json{{"workers", 1}, {"up_gbps", 0.5}, {"down_gbps", nullptr}, {"latency_seconds", 0.02}}));
  EXPECT_EQ(json["network"]["egress_gbps"], 1.0);
  ASSERT_EQ(json["methods"].size(), 1u);
  const nlohmann::json& eager = json["methods"][0];
  EXPECT_EQ(eager["method"], "eager");
  EXPECT_EQ(eager["overlap"], 10);
  EXPECT_EQ(eager["max_late"], 1);
  EXPECT_EQ(eager["fragments"], 4);
  // Two downloads of 256e6 * 16 bits in 5 s are 1.64 Gbit/s, where the egress carries 1.
  EXPECT_EQ(eager["bottleneck"], "egress");
  EXPECT_NEAR(eager["utilization"].get<double>(), 1 / 1.6384, 1e-6);
  EXPECT_NEAR(eager["steady_bound_gbps"].get<double>(), 0.8192, 1e-9);
  const double rounds = 86400 / 5.0 / 1.6384;
  EXPECT_NEAR(eager["coordinator_egress_bytes_per_day"].get<double>(), 2 * rounds * 512e6, 1e6);
  EXPECT_NEAR(eager["worker_upload_bytes_per_day"].get<double>(), rounds * 132e6, 1e6);
  ASSERT_EQ(eager["needed"].size(), 5u);
  EXPECT_EQ(eager["needed"][0]["utilization"], 0.5);
  EXPECT_NEAR(eager["needed"][0]["gbps"].get<double>(), 0.4096, 1e-3);
  EXPECT_TRUE(eager["needed"][4]["gbps"].is_null());
}

TEST_F(PlanCommandTest, APresetThatIsChangedHasNoName) {
  EXPECT_EQ(Run({"--preset", "1B", "--step-seconds", "2", "--method", "eager"}), 0);
  EXPECT_THAT(out_, HasSubstr("1B: 1.339e+09 parameters"));
  EXPECT_EQ(Run({"--preset", "1B", "--layers", "12", "--method", "eager"}), 0);
  EXPECT_THAT(out_, HasSubstr("model: 1.339e+09 parameters"));
  EXPECT_EQ(Run({"--preset", "1B", "--parameters", "2e9", "--method", "eager"}), 0);
  EXPECT_THAT(out_, HasSubstr("model: 2e+09 parameters"));
}

TEST_F(PlanCommandTest, PlotHasALineForEachMethod) {
  const diloco::testing::TempFolder folder;
  const std::string path = folder.path() + "/plan.svg";
  EXPECT_EQ(Run({"--preset", "1B", "--method", "eager", "--method", "diloco", "--plot", path}), 0);
  EXPECT_THAT(out_, HasSubstr("1B: 1.339e+09 parameters"));
  std::ifstream file(path);
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(svg, HasSubstr(">1B: utilization against the workers' links</text>"));
  EXPECT_THAT(svg, HasSubstr(">eager, H = 30</text>"));
  EXPECT_THAT(svg, HasSubstr(">diloco, H = 30</text>"));
}

// Eager at its steady bound: from half of it, where half the time is computed, to all of it.
TEST(PlanPlotTest, LinesGoThroughThePlannersFigures) {
  const PlanModel model = {.layers = 8, .layer_parameters = 64'000, .step_seconds = 0.1};
  const PlanNetwork network = {.links = {{.workers = 2}}};
  const std::vector<MethodPlan> methods = {PlanFor(model, network, {.method = "eager"}).value()};
  const Plot plot = UtilizationPlot({.model_name = "m", .model = model, .network = network, .methods = methods});
  ASSERT_EQ(plot.series.size(), 1u);
  const double bound = methods[0].steady_link * 8 / 1e9;
  EXPECT_NEAR(plot.series[0].points.front().x, bound / 10, bound * 1e-9);
  EXPECT_NEAR(plot.series[0].points.back().x, bound * 10, bound * 1e-6);
  for (const PlotPoint& point : plot.series[0].points) {
    EXPECT_NEAR(point.y, 100 * std::min(1.0, point.x / bound), 1e-3) << point.x;
  }
}

// It has no H of its own, so that other values of H say nothing about it.
TEST_F(PlanCommandTest, DataParallelIsPlannedOnce) {
  EXPECT_EQ(
      Run({"-o", "json", "--preset", "1B", "--method", "data-parallel", "--inner-steps", "30", "--inner-steps", "1"}),
      0);
  EXPECT_EQ(nlohmann::json::parse(out_)["methods"].size(), 1u);
}

TEST_F(PlanCommandTest, HelpBeginsWithExamples) {
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_LT(out_.find("Examples:\n  dilococtl plan --preset 1B"), out_.find("Options:"));
}

TEST_F(PlanCommandTest, BadInputIsOneSentenceAndExitsWithTwo) {
  std::vector<std::string> many_lines = {"--preset", "1B", "--method", "eager", "--plot", "/nowhere/plan.svg"};
  for (int h = 1; h <= 17; ++h) many_lines.insert(many_lines.end(), {"--inner-steps", std::to_string(h)});
  std::vector<std::string> many_plans = {"--preset", "1B", "--method", "eager"};
  for (int h = 1; h <= 257; ++h) many_plans.insert(many_plans.end(), {"--inner-steps", std::to_string(h)});
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "no model: give --preset"},
      {{"--preset", "2B"}, "preset \"2B\" is not known; use one of 35M"},
      {{"--preset", "35M"}, "give --step-seconds"},
      {{"--preset", "1B", "--step-seconds", "-1"}, "--step-seconds: Value -1 not in range"},
      {{"--preset", "1B", "--step-seconds", "nan"}, "--step-seconds: Value nan not in range"},
      {{"--layers", "4", "--parameters", "-5", "--step-seconds", "1"}, "--parameters"},
      {{"--layers", "4", "--parameters", "1", "--step-seconds", "1"}, "1 parameters in 4 layers"},
      {{"--layers", "4", "--parameters", "1e300", "--step-seconds", "1"}, "--parameters: Value 1e300 not in range"},
      {{"--layers", "4", "--parameters", "nan", "--step-seconds", "1"}, "--parameters: Value nan not in range"},
      {{"--layers", "0", "--parameters", "1e9", "--step-seconds", "1"}, "--layers: Value 0 not in range"},
      {{"--preset", "1B", "--up", "0Gbit"}, "--up 0Gbit: use a rate above zero"},
      {{"--preset", "1B", "--down", "-1Gbit"}, "--down -1Gbit: use a rate above zero"},
      {{"--preset", "1B", "--egress", "fast"}, "--egress fast: use a rate above zero"},
      {{"--preset", "1B", "--latency", "-1ms"}, "--latency -1ms: use a duration"},
      {{"--preset", "1B", "--latency", "inf"}, "--latency inf: use a duration"},
      {{"--preset", "1B", "--workers", "257"}, "--workers: Value 257 not in range"},
      {{"--preset", "1B", "--workers", "3", "--up", "1Gbit", "--up", "2Gbit"}, "--up is given 2 times for 3 workers"},
      {{"--preset", "1B", "--inner-steps", "0"}, "--inner-steps: Value 0 not in range"},
      {{"--preset", "1B", "--inner-steps", "1"},
       "streaming with an overlap of 1 inner steps: use fewer than H, which is 1"},
      {{"--preset", "1B", "--fragments", "0"}, "--fragments: Value 0 not in range"},
      {{"--preset", "1B", "--method", "lazy"}, "method \"lazy\" is not known"},
      {{"--preset", "1B", "--uplink", "int3"}, "--uplink int3: use one of fp32"},
      {{"--preset", "1B", "--paper"}, "--paper: stands alone"},
      {{"--preset", "1B", "--plot", ""}, "--plot: needs the name of a file"},
      {many_lines, "--plot with 17 lines: use at most 16"},
      {many_plans, "1 methods times 257 values of H: use at most 256"},
      {{"--layers", "4097", "--parameters", "1e9", "--step-seconds", "1"}, "--layers: Value 4097 not in range"},
      {{"--layers", "4", "--parameters", "2e12", "--step-seconds", "1"}, "--parameters: Value 2e12 not in range"},
      {{"--preset", "1B", "--step-seconds", "1e7"}, "--step-seconds: Value 1e7 not in range"},
      {{"--preset", "1B", "--latency", "61s"}, "--latency 61s: use a duration such as 40ms, 0s to 60s"},
      {{"--preset", "1B", "--fragments", "1025"}, "--fragments: Value 1025 not in range"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_EQ(Run(arguments), 2) << message;
    EXPECT_EQ(out_, "");
    EXPECT_THAT(err_, ::testing::StartsWith("dilococtl: "));
    EXPECT_THAT(err_, HasSubstr(message));
    EXPECT_EQ(err_.find('\n'), err_.size() - 1) << err_;
  }
}

}  // namespace
}  // namespace diloco
