// `dilococtl plan --paper`: the papers' tables beside this program's own figures. Pure.
#pragma once

#include <string>

namespace diloco {

// A line a row of the tables, `published / ours` in each cell, then how many agree and what the headline leaves out.
std::string PaperPlanText();

// An array with an object a cell: `table`, `method`, `row` (the model), `column` (the utilization), `published` and
// `ours` in Gbit/s, and `steady_bound`, the Gbit/s that a run without an end needs at the row's H.
std::string PaperPlanJson();

}  // namespace diloco
