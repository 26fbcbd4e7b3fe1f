#include "common/log/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/json_string.h"
#include "common/base/mutex.h"

namespace diloco {
namespace {

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 4> kLevels = {{
    {"debug", spdlog::level::debug},
    {"info", spdlog::level::info},
    {"warning", spdlog::level::warn},
    {"error", spdlog::level::err},
}};
// Up to the event, by spdlog's pattern.
constexpr char kTextHead[] = "time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v";
constexpr char kJsonHead[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l",%v})";

// Besides letters and digits, what text has that needs no quotes.
constexpr std::string_view kBarePunctuation = "_.:/+@%-";

std::atomic<bool> as_json = false;

struct Context {
  Mutex mutex;
  std::vector<std::pair<std::string, std::string>> fields ABSL_GUARDED_BY(mutex);
};
Context& ProcessContext() {
  static auto* const context = new Context;  // Never destroyed: threads may log to the last.
  return *context;
}

bool IsBare(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || kBarePunctuation.find(c) != std::string_view::npos;
  });
}

std::string Rendered(const LogField::Value& value, bool json) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    return !json && IsBare(*text) ? std::string(*text) : JsonString(*text);
  }
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value)) {
    return json && !std::isfinite(*number) ? "null" : absl::StrFormat("%.6g", *number);
  }
  if (const auto* number = std::get_if<uint64_t>(&value)) return absl::StrCat(*number);
  return absl::StrCat(std::get<int64_t>(value));
}

// A line from the event on.
class Body {
 public:
  explicit Body(bool json) : json_(json) {}
  void Add(const LogField& field) {
    if (!text_.empty()) text_ += json_ ? ',' : ' ';
    const std::string value = Rendered(field.value(), json_);
    absl::StrAppend(&text_, json_ ? JsonString(field.key()) : std::string(field.key()), json_ ? ":" : "=", value);
  }
  const std::string& text() const { return text_; }

 private:
  const bool json_;
  std::string text_;
};

void Log(spdlog::level::level_enum level, std::string_view event, LogFields fields) {
  spdlog::logger* const logger = spdlog::default_logger_raw();
  if (!logger->should_log(level)) return;
  Body body(as_json);
  body.Add({"event", event});
  for (const LogField& field : fields) body.Add(field);
  {
    Context& context = ProcessContext();
    MutexLock lock(&context.mutex);
    for (const auto& [key, value] : context.fields) {
      const bool said = std::any_of(fields.begin(), fields.end(), [&key](const auto& f) { return f.key() == key; });
      if (!said) body.Add({key, value});
    }
  }
  logger->log(level, spdlog::string_view_t(body.text()));
}

}  // namespace

absl::Status InitLog(const LogOptions& options) {
  const auto* const level =
      std::find_if(kLevels.begin(), kLevels.end(), [&](const auto& l) { return l.first == options.level; });
  if (level == kLevels.end()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("log level \"%s\" does not exist; use one of %s", absl::CHexEscape(options.level), kLogLevels));
  }
  const bool json = options.format == "json";
  if (!json && options.format != "text") {
    return absl::InvalidArgumentError(absl::StrFormat("log format \"%s\" does not exist; use one of %s",
                                                      absl::CHexEscape(options.format), kLogFormats));
  }
  auto logger = std::make_shared<spdlog::logger>("diloco", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(json ? kJsonHead : kTextHead, spdlog::pattern_time_type::utc);
  logger->set_level(level->second);
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  as_json = json;
  return absl::OkStatus();
}

void LogDebug(std::string_view event, LogFields fields) { Log(spdlog::level::debug, event, fields); }
void LogInfo(std::string_view event, LogFields fields) { Log(spdlog::level::info, event, fields); }
void LogWarning(std::string_view event, LogFields fields) { Log(spdlog::level::warn, event, fields); }
void LogError(std::string_view event, LogFields fields) { Log(spdlog::level::err, event, fields); }

void SetLogContext(std::vector<std::pair<std::string, std::string>> context) {
  Context& process = ProcessContext();
  MutexLock lock(&process.mutex);
  process.fields = std::move(context);
}

void SayFailure(std::string_view program, std::string_view message) {
  if (as_json) {
    LogError("failed", {{"reason", message}});
  } else {
    absl::FPrintF(stderr, "%s: %s\n", program, message);
  }
}

}  // namespace diloco
