// What a preflight found, step by step: printed as it comes, or as one object at the end.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "coordinator/ctl/command.h"
#include "coordinator/ctl/preflight_need.h"

namespace diloco {

class PreflightReport {
 public:
  // `context` outlives the object.
  explicit PreflightReport(const CommandContext* context) : context_(*context) {}

  // `found`: what there is to say when `status` is OK. `advice`: what to do when it is not. Returns whether it is.
  bool Step(const std::string& name, const absl::Status& status, const std::string& advice,
            const std::function<std::string()>& found);
  void Skip(const std::string& name, const std::string& why);

  void SetLink(const MeasuredLink& link) { link_ = link; }
  void SetNeed(const LinkNeed& need) { need_ = need; }

  bool failed() const { return failed_; }
  // {"ok": ..., "steps": [{"name", "outcome", "text", "advice"}], "round_trip_seconds", "up_bytes_per_second", ...},
  // with null for what was not found out.
  std::string Json() const;

 private:
  struct Line {
    std::string name;
    std::string outcome;  // "ok", "failed" or "skipped".
    std::string text;
    std::string advice;
  };
  void Add(Line line);

  const CommandContext& context_;
  std::vector<Line> lines_;
  bool failed_ = false;
  std::optional<MeasuredLink> link_;
  std::optional<LinkNeed> need_;
};

}  // namespace diloco
