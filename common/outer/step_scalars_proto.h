// Step scalars on the wire.
#pragma once

#include "common/outer/step_scalars.h"
#include "diloco/v1/types.pb.h"

namespace diloco {

v1::StepScalars StepScalarsToProto(const StepScalars& scalars);

// Takes every field as it is: ValidateStepScalars checks them.
StepScalars StepScalarsFromProto(const v1::StepScalars& scalars);

}  // namespace diloco
