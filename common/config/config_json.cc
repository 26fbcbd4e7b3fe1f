#include "common/config/config_json.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/config/run_config_keys.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using Json = nlohmann::ordered_json;

// A visitor of VisitRunConfig, as the reader is.
class JsonWriter {
 public:
  void Section(std::string_view key, Need, const std::function<void(JsonWriter&)>& visit) {
    JsonWriter section;
    visit(section);
    json_[std::string(key)] = std::move(section.json_);
  }
  template <typename T>
  void Section(std::string_view key, const std::optional<T>& section, const std::function<void(JsonWriter&)>& visit) {
    if (section.has_value()) Section(key, Need::kOptional, visit);
  }
  template <typename T>
  void Integer(std::string_view key, Need, std::type_identity_t<T>, std::type_identity_t<T>, const T& value) {
    Put(key, value);
  }
  void Number(std::string_view key, Need, const Range&, double value) { Put(key, value); }
  void NumberOr(std::string_view key, std::string_view word, const Range&, const std::optional<double>& value) {
    value.has_value() ? Put(key, *value) : Put(key, word);
  }
  void Duration(std::string_view key, absl::Duration, absl::Duration, absl::Duration value) {
    Put(key, absl::FormatDuration(value));
  }
  void DurationOr(std::string_view key, std::string_view word, absl::Duration, absl::Duration,
                  const std::optional<absl::Duration>& value) {
    value.has_value() ? Put(key, absl::FormatDuration(*value)) : Put(key, word);
  }
  void Text(std::string_view key, Need, const std::function<absl::Status(std::string_view)>&,
            const std::string& value) {
    Put(key, value);
  }
  void Word(std::string_view key, absl::Span<const std::string_view>, const std::string& value) { Put(key, value); }
  template <typename T>
  void Choice(std::string_view key, std::initializer_list<std::pair<std::string_view, std::type_identity_t<T>>> words,
              const T& value) {
    for (const auto& [word, meaning] : words) {
      if (meaning == value) Put(key, word);
    }
  }
  void WordOrIntegers(std::string_view key, absl::Span<const std::string_view>, int64_t, int64_t,
                      const std::string& word, const std::vector<int64_t>& list) {
    word.empty() ? Put(key, list) : Put(key, word);
  }
  void IntegerLists(std::string_view key, int, int, const std::vector<std::vector<int>>& lists) {
    if (!lists.empty()) Put(key, lists);
  }

  Json& json() { return json_; }

 private:
  template <typename T>
  void Put(std::string_view key, const T& value) {
    json_[std::string(key)] = value;
  }

  Json json_ = Json::object();
};

Json ToJson(const RunConfig& config) {
  RunConfig copy = config;  // The walk is the one that reading uses, which needs somewhere to write.
  JsonWriter writer;
  internal::VisitRunConfig(writer, copy);
  constexpr std::pair<const char*, const char*> kOfMethods[] = {
      {"eager", "lookahead"}, {"streaming", "streaming"}, {"blend", "blend"}};
  for (const auto& [method, section] : kOfMethods) {
    if (config.method != method) writer.json().erase(section);
  }
  return std::move(writer.json());
}

}  // namespace

std::string ConfigJson(const RunConfig& config) { return ToJson(config).dump(2) + "\n"; }

std::string ConfigText(const RunConfig& config) {
  std::vector<std::pair<std::string, std::string>> lines;
  const auto add = [&lines](const std::string& key, const Json& value) {
    lines.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  };
  const Json json = ToJson(config);
  for (const auto& [key, value] : json.items()) {
    if (!value.is_object()) {
      add(key, value);
      continue;
    }
    for (const auto& [name, setting] : value.items()) add(absl::StrCat(key, ".", name), setting);
  }
  size_t width = 0;
  for (const auto& [key, value] : lines) width = std::max(width, key.size());
  std::string text;
  for (const auto& [key, value] : lines) {
    absl::StrAppendFormat(&text, "%-*s  %s\n", static_cast<int>(width), key, value);
  }
  return text;
}

}  // namespace diloco
