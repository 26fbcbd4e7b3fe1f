// Numbers for people. All of it is pure.
#pragma once

#include <cstdint>
#include <string>

#include "google/protobuf/duration.pb.h"

#include "coordinator/ctl/table.h"
#include "diloco/v1/admin.pb.h"
#include "diloco/v1/types.pb.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {

double ToSeconds(const google::protobuf::Duration& duration);

// "12.3s", "3m05s", "2h05m", "4d06h".
std::string HumanDuration(double seconds);

// "999 B", "1.5 kB", "12.3 MB", in powers of 1000.
std::string HumanBytes(uint64_t bytes);

// Nats a token, "2.3456"; "-" for a loss that is not a number.
std::string LossText(double loss);

// Share of the wall time that the training thread did not wait, in percent: "99.1"; "-" before training began.
std::string UtilizationText(const v1::WorkerProgress& progress);

// "training", "waiting for workers"; also for states that this program does not know.
std::string StateText(v1::RunState state);
std::string StateText(v1::RoundState state);
std::string StateText(v1::WorkerState state);
std::string StateText(v1::WorkerRoundState state);

// The same with its tone; `rest` follows it.
Cell StateCell(v1::RunState state, std::string rest = "");
Cell StateCell(v1::RoundState state, std::string rest = "");
Cell StateCell(v1::WorkerState state, std::string rest = "");
Cell StateCell(v1::WorkerRoundState state);

std::string SettlementText(v1::Settlement settlement);

}  // namespace diloco
