#include "common/outer/step_scalars_proto.h"

namespace diloco {

v1::StepScalars StepScalarsToProto(const StepScalars& scalars) {
  v1::StepScalars proto;
  proto.set_rate(scalars.rate);
  proto.set_momentum(scalars.momentum);
  proto.set_participating_weight(scalars.participating_weight);
  proto.set_beta1(scalars.beta1);
  proto.set_beta2(scalars.beta2);
  proto.set_epsilon(scalars.epsilon);
  proto.set_decay(scalars.decay);
  proto.set_mean_correction(scalars.mean_correction);
  proto.set_variance_correction(scalars.variance_correction);
  proto.set_clip_scale(scalars.clip_scale);
  return proto;
}

StepScalars StepScalarsFromProto(const v1::StepScalars& scalars) {
  return {.rate = scalars.rate(),
          .momentum = scalars.momentum(),
          .participating_weight = scalars.participating_weight(),
          .beta1 = scalars.beta1(),
          .beta2 = scalars.beta2(),
          .epsilon = scalars.epsilon(),
          .decay = scalars.decay(),
          .mean_correction = scalars.mean_correction(),
          .variance_correction = scalars.variance_correction(),
          .clip_scale = scalars.clip_scale()};
}

}  // namespace diloco
