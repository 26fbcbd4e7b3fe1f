#include "worker/trainer/initial_parameters.h"

#include <cstddef>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace diloco {

absl::StatusOr<std::vector<float>> ReadInitialParameters(const SafetensorsReader& file,
                                                         absl::Span<const TensorSpec> tensors) {
  std::set<std::string> known;
  size_t elements = 0;
  for (const TensorSpec& tensor : tensors) {
    known.insert(tensor.name);
    elements += static_cast<size_t>(tensor.ElementCount());
  }
  for (const SafetensorsTensor& tensor : file.tensors()) {
    if (known.count(tensor.name) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--init ", file.path(), ": the model has no tensor `", tensor.name, "`"));
    }
  }
  std::vector<float> values(elements);
  absl::Span<float> rest = absl::MakeSpan(values);
  for (const TensorSpec& tensor : tensors) {
    const auto count = static_cast<size_t>(tensor.ElementCount());
    DILOCO_RETURN_IF_ERROR(file.Read(tensor, rest.first(count)));
    rest.remove_prefix(count);
  }
  return values;
}

}  // namespace diloco
