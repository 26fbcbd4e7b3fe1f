// What a trainer's next step depends on besides its parameters, the step's number and its settings: for checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"

namespace diloco {

struct TrainerState {
  // By name, such as "inner.mean". At most kMaxTensors of both.
  std::map<std::string, std::vector<float>> arrays;
  std::map<std::string, int64_t> counts;

  // Moves an array of `size` elements out. Errors, kFailedPrecondition: there is none, or it has another size.
  absl::StatusOr<std::vector<float>> TakeArray(const std::string& name, size_t size) {
    const auto found = arrays.find(name);
    if (found == arrays.end() || found->second.size() != size) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "the checkpoint's trainer state has %s of \"%s\", this model needs %d",
          found == arrays.end() ? "no elements" : absl::StrFormat("%d elements", found->second.size()), name, size));
    }
    std::vector<float> values = std::move(found->second);
    arrays.erase(found);
    return values;
  }
  // Likewise a count, >= 0.
  absl::StatusOr<int64_t> TakeCount(const std::string& name) {
    const auto found = counts.find(name);
    if (found == counts.end() || found->second < 0) {
      return absl::FailedPreconditionError(absl::StrFormat("the checkpoint's trainer state has no count \"%s\"", name));
    }
    const int64_t count = found->second;
    counts.erase(found);
    return count;
  }
  // After everything known was taken. Errors, kFailedPrecondition: something is left, which it names.
  absl::Status CheckEmpty() const {
    if (arrays.empty() && counts.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrFormat("the checkpoint's trainer state has \"%s\", which this trainer does not know",
                        arrays.empty() ? counts.begin()->first : arrays.begin()->first));
  }
};

}  // namespace diloco
