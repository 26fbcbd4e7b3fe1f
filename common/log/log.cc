#include "common/log/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

namespace diloco {
namespace {

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 4> kLevels = {{
    {"debug", spdlog::level::debug},
    {"info", spdlog::level::info},
    {"warning", spdlog::level::warn},
    {"error", spdlog::level::err},
}};

}  // namespace

absl::Status InitLog(std::string_view level) {
  for (const auto& [name, value] : kLevels) {
    if (name != level) continue;
    auto logger = std::make_shared<spdlog::logger>("diloco", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    logger->set_pattern("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
    logger->set_level(value);
    logger->flush_on(spdlog::level::debug);
    spdlog::set_default_logger(std::move(logger));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat("log level \"%s\" does not exist; use one of %s",
                                                    absl::CHexEscape(std::string(level)), kLogLevels));
}

std::string Quoted(std::string_view value) { return absl::StrFormat("\"%s\"", absl::CHexEscape(std::string(value))); }

}  // namespace diloco
