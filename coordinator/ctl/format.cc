#include "coordinator/ctl/format.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace diloco {
namespace {

// RUN_STATE_TRAINING, with prefix RUN_STATE_: "training".
std::string EnumText(const std::string& name, const char* prefix, int number) {
  if (name.empty()) return absl::StrFormat("state %d", number);
  std::string text(absl::StripPrefix(name, prefix));
  absl::AsciiStrToLower(&text);
  return absl::StrReplaceAll(text, {{"_", " "}});
}

}  // namespace

double ToSeconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + static_cast<double>(duration.nanos()) * 1e-9;
}

std::string HumanDuration(double seconds) {
  if (!std::isfinite(seconds) || seconds > 1e15) return "-";
  seconds = std::max(0.0, seconds);
  if (seconds < 59.95) return absl::StrFormat("%.1fs", seconds);  // 59.95 would read "60.0s".
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const int64_t minutes = whole / 60;
  const int64_t hours = minutes / 60;
  if (hours == 0) return absl::StrFormat("%dm%02ds", minutes, whole % 60);
  if (hours < 24) return absl::StrFormat("%dh%02dm", hours, minutes % 60);
  return absl::StrFormat("%dd%02dh", hours / 24, hours % 24);
}

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1000) return absl::StrFormat("%d B", bytes);
  double value = static_cast<double>(bytes);
  const char* units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  value /= 1000;
  while (value >= 999.95) {  // Which would read "1000.0".
    value /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, units[unit]);
}

std::string LossText(double loss) { return std::isfinite(loss) ? absl::StrFormat("%.4f", loss) : "-"; }

std::string UtilizationText(const v1::WorkerProgress& progress) {
  if (!(progress.wall_seconds() > 0)) return "-";
  const double share = 1 - progress.blocked_seconds() / progress.wall_seconds();
  return absl::StrFormat("%.1f", 100 * std::clamp(share, 0.0, 1.0));
}

std::string StateText(v1::RunState state) { return EnumText(v1::RunState_Name(state), "RUN_STATE_", state); }
std::string StateText(v1::RoundState state) { return EnumText(v1::RoundState_Name(state), "ROUND_STATE_", state); }
std::string StateText(v1::WorkerState state) { return EnumText(v1::WorkerState_Name(state), "WORKER_STATE_", state); }
std::string StateText(v1::WorkerRoundState state) {
  return EnumText(v1::WorkerRoundState_Name(state), "WORKER_ROUND_STATE_", state);
}

Cell StateCell(v1::RunState state, std::string rest) {
  Tone tone = Tone::kCaution;
  if (state == v1::RUN_STATE_TRAINING || state == v1::RUN_STATE_ENDED) tone = Tone::kGood;
  if (state == v1::RUN_STATE_HOLDING || state == v1::RUN_STATE_PAUSED) tone = Tone::kBad;
  return {tone, StateText(state), std::move(rest)};
}

Cell StateCell(v1::RoundState state, std::string rest) {
  return {state == v1::ROUND_STATE_COMMITTED ? Tone::kGood : Tone::kPlain, StateText(state), std::move(rest)};
}

Cell StateCell(v1::WorkerState state, std::string rest) {
  Tone tone = Tone::kCaution;
  if (state == v1::WORKER_STATE_ALIVE) tone = Tone::kGood;
  if (state == v1::WORKER_STATE_LOST || state == v1::WORKER_STATE_EVICTED) tone = Tone::kBad;
  if (state == v1::WORKER_STATE_LEFT) tone = Tone::kPlain;
  return {tone, StateText(state), std::move(rest)};
}

Cell StateCell(v1::WorkerRoundState state) {
  Tone tone = Tone::kPlain;
  if (state == v1::WORKER_ROUND_STATE_PRESENT) tone = Tone::kGood;
  if (state == v1::WORKER_ROUND_STATE_ABSTAINED) tone = Tone::kCaution;
  return {tone, StateText(state)};
}

std::string SettlementText(v1::Settlement settlement) {
  return EnumText(v1::Settlement_Name(settlement), "SETTLEMENT_", settlement);
}

}  // namespace diloco
