#include "coordinator/ctl/preflight_report.h"

#include <utility>

#include "absl/strings/str_format.h"

#include "coordinator/ctl/show.h"
#include "coordinator/ctl/table.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using Object = nlohmann::ordered_json;

constexpr char kOk[] = "ok";
constexpr char kFailed[] = "failed";
constexpr char kSkipped[] = "skipped";

Tone ToneOf(const std::string& outcome) {
  if (outcome == kOk) return Tone::kGood;
  return outcome == kFailed ? Tone::kBad : Tone::kCaution;
}

}  // namespace

void PreflightReport::Add(Line line) {
  if (context_.format != OutputFormat::kJson) {
    // Widths of the longest outcome and name, so that lines which come one by one are aligned.
    const std::string padding(std::string(kSkipped).size() - line.outcome.size(), ' ');
    context_.io.out(absl::StrFormat("%s%s  %-10s  %s\n",
                                    Cell(ToneOf(line.outcome), line.outcome).Render(ViewOf(context_).colors), padding,
                                    line.name, Printable(line.text)));
    if (!line.advice.empty()) context_.io.out(absl::StrFormat("%21s%s\n", "", Printable(line.advice)));
  }
  lines_.push_back(std::move(line));
}

bool PreflightReport::Step(const std::string& name, const absl::Status& status, const std::string& advice,
                           const std::function<std::string()>& found) {
  if (status.ok()) {
    Add({.name = name, .outcome = kOk, .text = found()});
  } else {
    failed_ = true;
    const std::string why(status.message());
    Add({.name = name,
         .outcome = kFailed,
         .text = why.empty() ? absl::StatusCodeToString(status.code()) : why,
         .advice = advice});
  }
  return status.ok();
}

void PreflightReport::Skip(const std::string& name, const std::string& why) {
  Add({.name = name, .outcome = kSkipped, .text = why});
}

std::string PreflightReport::Json() const {
  Object json = {{"ok", !failed_}, {"steps", Object::array()}};
  for (const Line& line : lines_) {
    json["steps"].push_back(
        {{"name", line.name}, {"outcome", line.outcome}, {"text", line.text}, {"advice", line.advice}});
  }
  const auto number = [](bool known, double value) { return known ? Object(value) : Object(nullptr); };
  const MeasuredLink link = link_.value_or(MeasuredLink());
  const LinkNeed need = need_.value_or(LinkNeed());
  json["round_trip_seconds"] = number(link_.has_value(), link.round_trip_seconds);
  json["up_bytes_per_second"] = number(link_.has_value(), link.up);
  json["down_bytes_per_second"] = number(link_.has_value(), link.down);
  json["needed_up_bytes_per_second"] = number(need_.has_value(), need.up);
  json["needed_down_bytes_per_second"] = number(need_.has_value(), need.down);
  json["utilization"] = number(need_.has_value(), need.utilization);
  return json.dump(2, ' ', false, Object::error_handler_t::replace) + "\n";
}

}  // namespace diloco
