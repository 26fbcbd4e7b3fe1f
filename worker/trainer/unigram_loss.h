// The loss of a model that knows nothing but how often each token occurs: what a trained model has to beat.
#pragma once

#include "absl/status/statusor.h"

#include "worker/trainer/token_source.h"
#include "worker/trainer/windows.h"

namespace diloco {

// Mean of -log p(token) over `held_out`, in nats a token, where p counts the tokens of `training`, one added to each
// count. Takes one pass over both. `held_out` must not be empty.
// Errors: those of TokenSource::Read.
absl::StatusOr<double> UnigramLoss(const TokenSource& training, const TokenRange& training_range,
                                   const TokenSource& held_out, const TokenRange& held_out_range, int vocabulary);

}  // namespace diloco
