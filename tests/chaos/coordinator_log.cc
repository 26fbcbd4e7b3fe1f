#include "tests/chaos/coordinator_log.h"

#include <sstream>

#include "common/base/check.h"

namespace diloco::testing {

std::string LogField(const std::string& line, const std::string& key) {
  const std::string before = " " + key + "=";
  const size_t at = line.find(before);
  if (at == std::string::npos) return "";
  size_t from = at + before.size();
  const char end = from < line.size() && line[from] == '"' ? '"' : ' ';
  if (end == '"') ++from;
  return line.substr(from, line.find(end, from) - from);
}

absl::Time LogTime(const std::string& line) {
  absl::Time time;
  std::string error;
  DILOCO_CHECK(absl::ParseTime("time=%Y-%m-%dT%H:%M:%E3SZ", line.substr(0, line.find(' ')), &time, &error));
  return time;
}

std::vector<std::string> LinesOf(const std::string& log, const std::string& event) {
  std::vector<std::string> found;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (LogField(line, "event") == event) found.push_back(line);
  }
  return found;
}

std::vector<LoggedRound> CommittedRounds(const std::string& log) {
  std::vector<LoggedRound> rounds;
  for (const std::string& line : LinesOf(log, "round_committed")) {
    LoggedRound& round = rounds.emplace_back();
    round.fragment = std::stoi(LogField(line, "fragment"));
    round.round = std::stoll(LogField(line, "round"));
    round.closed = LogTime(line);
    round.opened = round.closed - absl::Seconds(std::stod(LogField(line, "seconds")));
  }
  return rounds;
}

}  // namespace diloco::testing
