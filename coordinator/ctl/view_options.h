// How people want to see a result.
#pragma once

#include "coordinator/ctl/table.h"

namespace diloco {

struct ViewOptions {
  bool wide = false;  // More columns.
  Colors colors = Colors::kOff;
};

}  // namespace diloco
