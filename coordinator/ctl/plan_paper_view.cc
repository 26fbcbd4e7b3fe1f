#include "coordinator/ctl/plan_paper_view.h"

#include <vector>

#include "absl/strings/str_format.h"

#include "coordinator/ctl/table.h"
#include "coordinator/plan/paper_tables.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

std::string TargetText(double target) { return absl::StrFormat("%.0f%%", 100 * target); }

// The papers' headline is the last cell of the first and of the last row: 100B parameters at 99 %.
std::string Headline() {
  const PaperRow& eager = PaperRows().back();
  const double data_parallel = PaperRows().front().published.back().back();
  const double printed = eager.published.back().back();
  const double bound = SteadyBoundGbps(kPaperModels.back(), eager.setting.inner_steps, eager.setting.bits);
  const std::string bound_text = absl::StrFormat("%.2f", bound);
  return absl::StrFormat(
      "100B at 99%%: the paper prints %.1f Gbit/s for \"%s\", 1177 times less than\n"
      "data-parallel's %.1f. That holds in a short window only. In a run without an end all bits of a round have to "
      "pass\n"
      "in a round's time: %s Gbit/s (steady bound), about %.0f times less than data-parallel.\n",
      printed, eager.method, data_parallel, bound_text, data_parallel / std::stod(bound_text));
}

}  // namespace

std::string PaperPlanText() {
  std::vector<Table::Column> columns = {{"METHOD"}, {"MODEL"}};
  for (const double target : kPaperTargets) columns.push_back({TargetText(target), Align::kRight});
  columns.push_back({"STEADY BOUND", Align::kRight});
  Table table(columns);
  int exact = 0;
  int cells = 0;
  for (const PaperRow& row : PaperRows()) {
    for (size_t m = 0; m < kPaperModels.size(); ++m) {
      const auto ours = PrintedGbps(kPaperModels[m], row.setting);
      std::vector<Cell> line = {std::string(row.method), std::string(kPaperModels[m].name)};
      for (size_t t = 0; t < ours.size(); ++t) {
        line.emplace_back(absl::StrFormat("%.1f / %.1f", row.published[m][t], ours[t]));
        exact += row.published[m][t] == ours[t] ? 1 : 0;
        ++cells;
      }
      line.push_back(
          absl::StrFormat("%.2f", SteadyBoundGbps(kPaperModels[m], row.setting.inner_steps, row.setting.bits)));
      table.AddRow(line);
    }
  }
  return absl::StrFormat(
      "Gbit/s that a utilization takes, published / ours, over one all-reduce link (arXiv 2501.18512, table 4; "
      "2502.12996,\ntable 5). Printed is the point just below the crossing, of 50 from 0.1 to 1000 Gbit/s: up to 21%% "
      "less than it takes.\n\n%s\n%d of %d cells agree exactly, the others within one point.\n\n%s",
      table.ToString(), exact, cells, Headline());
}

std::string PaperPlanJson() {
  nlohmann::ordered_json cells = nlohmann::ordered_json::array();
  for (const PaperRow& row : PaperRows()) {
    for (size_t m = 0; m < kPaperModels.size(); ++m) {
      const auto ours = PrintedGbps(kPaperModels[m], row.setting);
      for (size_t t = 0; t < ours.size(); ++t) {
        cells.push_back(
            {{"table", row.table},
             {"method", row.method},
             {"row", kPaperModels[m].name},
             {"column", TargetText(kPaperTargets[t])},
             {"published", row.published[m][t]},
             {"ours", ours[t]},
             {"steady_bound", SteadyBoundGbps(kPaperModels[m], row.setting.inner_steps, row.setting.bits)}});
      }
    }
  }
  return cells.dump(2) + "\n";
}

}  // namespace diloco
