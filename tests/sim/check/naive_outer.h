// The consensus once more, from the prose of outer_optimizer.h alone: one element after the other, one rule a line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diloco/v1/types.pb.h"

namespace diloco::sim {

struct NaiveConsensus {
  int64_t version = 0;
  std::vector<float> parameters;
  std::vector<std::vector<float>> state;
  std::vector<bool> decayed;  // By element.

  // As many state arrays as the optimizer has, all 0.
  void Start(const std::string& optimizer, std::vector<float> initial, std::vector<bool> decays);
  void Apply(const std::string& optimizer, const v1::StepScalars& scalars, const std::vector<float>& average);
  // As the wire has it: of the parameters, then the state arrays.
  std::string Digest() const;
};

}  // namespace diloco::sim
