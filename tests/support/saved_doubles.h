// Parameters that a trainer holds in double precision, in its state: their bits, two float32 each.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "common/base/status_macros.h"
#include "worker/trainer/trainer_state.h"

namespace diloco {

inline constexpr char kDoubles[] = "doubles";

inline TrainerState SaveDoubles(const std::vector<double>& values) {
  TrainerState state;
  std::vector<float>& halves = state.arrays[kDoubles];
  halves.resize(2 * values.size());
  std::memcpy(halves.data(), values.data(), values.size() * sizeof(double));
  return state;
}

inline absl::Status LoadDoubles(TrainerState state, std::vector<double>* values) {
  DILOCO_ASSIGN_OR_RETURN(const std::vector<float> halves, state.TakeArray(kDoubles, 2 * values->size()));
  std::memcpy(values->data(), halves.data(), values->size() * sizeof(double));
  return state.CheckEmpty();
}

}  // namespace diloco
