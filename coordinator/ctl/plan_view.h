// `dilococtl plan` for people and for programs. Pure.
#pragma once

#include <string>
#include <vector>

#include "coordinator/plan/plan.h"

namespace diloco {

struct PlanView {
  std::string model_name;
  const PlanModel& model;
  const PlanNetwork& network;
  const std::vector<MethodPlan>& methods;
};

// The setting, what each method does over the links as given, and the link that each utilization takes.
std::string PlanText(const PlanView& view);

// An object with `model`, `network` and `methods`. Rates are Gbit/s; null is unlimited for a link, and "no link is
// enough" for a rate that is needed.
std::string PlanJson(const PlanView& view);

}  // namespace diloco
