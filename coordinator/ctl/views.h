// What each command prints as a table: message in, text out. Pure.
#pragma once

#include <optional>
#include <string>

#include "coordinator/ctl/view_options.h"
#include "diloco/v1/admin.pb.h"

namespace diloco {

std::string StatusText(const v1::GetStatusResponse& status, const ViewOptions& options = {});

// Why the run cannot go on without somebody's doing; nothing when it can.
std::optional<std::string> Held(const v1::GetStatusResponse& status);

std::string RoundListText(const v1::ListRoundsResponse& rounds, const ViewOptions& options = {});
std::string RoundText(const v1::DescribeRoundResponse& round, const ViewOptions& options = {});
// The file, then the changes as comments, so that it is a file still.
std::string RunningConfigText(const v1::GetConfigResponse& config);
std::string CheckpointListText(const v1::ListCheckpointsResponse& checkpoints);
std::string CheckpointText(const v1::SaveCheckpointResponse& checkpoint);
std::string DrainText(const v1::DrainWorkerResponse& drained);
std::string EvictText(const v1::EvictWorkerResponse& evicted);
std::string AdmitText(const v1::AdmitWorkerResponse& admitted);
// What a recovery means, without a full stop.
std::string RecoverSentence(const v1::RecoverConsensusRequest& request, const v1::RecoverConsensusResponse& response);

// "2.3456 nats a token at version 10".
std::string EvaluationText(const v1::Evaluation& evaluation);

}  // namespace diloco
