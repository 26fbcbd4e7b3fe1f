// `dilococtl plan` without a coordinator: output, JSON shape, bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "coordinator/ctl/ctl.h"
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

}  // namespace
}  // namespace diloco
