#include "common/base/exit_code.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/support/paths.h"

namespace diloco {
namespace {

// First group of every line that `pattern` matches whole, as numbers.
std::multiset<int> NumbersIn(const std::string& path, const std::string& pattern) {
  std::ifstream file(testing::SourcePath(path));
  const std::regex line_pattern(pattern);
  std::multiset<int> numbers;
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, match, line_pattern)) numbers.insert(std::stoi(match[1]));
  }
  return numbers;
}

TEST(ExitCodeTest, TheReadmeListsEachCodeOnce) {
  const std::multiset<int> codes = NumbersIn("common/base/exit_code.h", R"(\s*k\w+ = (\d+),.*)");
  EXPECT_EQ(codes, (std::multiset<int>{0, 1, 2, 3, 4, 5, 6, 130}));
  // The only table of the README whose first column is a bare number.
  EXPECT_EQ(NumbersIn("README.md", R"(\| (\d+) \| .+ \|)"), codes);
}

TEST(ExitCodeTest, FollowsFromTheStatus) {
  using Code = absl::StatusCode;
  const std::map<Code, ExitCode> expected = {
      {Code::kOk, ExitCode::kOk},
      {Code::kInvalidArgument, ExitCode::kUsage},
      {Code::kOutOfRange, ExitCode::kUsage},
      {Code::kUnavailable, ExitCode::kUnreachable},
      {Code::kDeadlineExceeded, ExitCode::kUnreachable},
      {Code::kNotFound, ExitCode::kNotFound},
      {Code::kFailedPrecondition, ExitCode::kNotAllowed},
      {Code::kAlreadyExists, ExitCode::kNotAllowed},
      {Code::kAborted, ExitCode::kNotAllowed},
      {Code::kCancelled, ExitCode::kInterrupted},
      {Code::kInternal, ExitCode::kFailure},
      {Code::kDataLoss, ExitCode::kFailure},
      {Code::kUnknown, ExitCode::kFailure},
      {Code::kPermissionDenied, ExitCode::kNotAllowed},
      {Code::kUnauthenticated, ExitCode::kNotAllowed},
      {Code::kResourceExhausted, ExitCode::kFailure},
  };
  for (const auto& [code, exit_code] : expected) {
    EXPECT_EQ(ExitCodeFor(absl::Status(code, "why")), exit_code) << absl::StatusCodeToString(code);
  }
}

}  // namespace
}  // namespace diloco
