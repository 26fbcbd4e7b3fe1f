#include "common/config/yaml_reader.h"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/utf8.h"

namespace diloco {
namespace {

// As it stands in an error: quoted, escaped, and not too long.
std::string Quoted(std::string_view text) {
  constexpr size_t kShown = 60;
  return absl::StrFormat("\"%s%s\"", absl::CHexEscape(std::string(text.substr(0, kShown))),
                         text.size() > kShown ? "..." : "");
}

// Letters to insert, delete or change to get from one word to the other.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// What to write instead: the nearest word when one is near, else all of them.
template <typename Words>
std::string Suggest(std::string_view word, const Words& words) {
  std::string_view nearest;
  size_t distance = std::min(word.size(), 1 + std::max<size_t>(2, word.size() / 3));
  if (word.size() <= 64) {  // No key is longer, and the distance is quadratic.
    for (const auto& candidate : words) {
      const size_t d = EditDistance(word, candidate);
      if (d < distance) {
        distance = d;
        nearest = candidate;
      }
    }
  }
  if (!nearest.empty()) return absl::StrFormat("did you mean `%s`?", nearest);
  std::vector<std::string> all;
  for (const auto& candidate : words) all.emplace_back(candidate);
  return absl::StrFormat("use one of %s", absl::StrJoin(all, ", "));
}

// First byte that a YAML file cannot have: a control character or broken UTF-8. text.size() when there is none.
size_t FirstBadByte(std::string_view text) {
  const size_t valid = ValidUtf8Prefix(text);
  for (size_t i = 0; i < valid; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F) return i;
  }
  return valid;
}

// The tab in the indentation of the line that holds byte `offset`, which YAML forbids and yaml-cpp does not name.
std::optional<size_t> IndentingTab(std::string_view text, size_t offset) {
  const size_t start = text.substr(0, offset).rfind('\n') + 1;  // npos + 1 is 0.
  const size_t tab = text.find_first_not_of(' ', start);
  if (tab == std::string_view::npos || text[tab] != '\t') return std::nullopt;
  return tab;
}

// Sees where a document starts, and nothing else. YAML::LoadAll is no way to count documents: yaml-cpp 0.7 finds
// endless empty ones in front of a stray flow character such as `,`.
class DocumentStart final : public YAML::EventHandler {
 public:
  YAML::Mark mark;

  void OnDocumentStart(const YAML::Mark& start) override { mark = start; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

}  // namespace

bool Range::Contains(double value) const {
  return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
}

std::string Range::ToString() const {
  return absl::StrFormat("%c%g, %g%c", low_open ? '(' : '[', low, high, high_open ? ')' : ']');
}

YamlReader::YamlReader(std::string_view text, std::string_view source, Extent extent)
    : text_(text), source_(source), extent_(extent) {
  Load();
}

YamlReader::Position YamlReader::At(const YAML::Mark& mark) {
  return mark.is_null() ? Position{} : Position{mark.line + 1, mark.column + 1};
}

YamlReader::Position YamlReader::AtByte(size_t offset) const {
  const std::string_view before = text_.substr(0, offset);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0.
  return {.line = 1 + static_cast<int>(std::count(before.begin(), before.end(), '\n')),
          .column = 1 + static_cast<int>(offset - line_start)};
}

void YamlReader::Load() {
  if (text_.size() > kMaxConfigBytes) {
    return Fail(Severity::kPresent, {}, absl::StrFormat("%d bytes; use at most %d", text_.size(), kMaxConfigBytes));
  }
  if (const size_t bad = FirstBadByte(text_); bad < text_.size()) {
    return Fail(Severity::kPresent, AtByte(bad),
                absl::StrFormat("byte 0x%02x; use UTF-8 without control characters",
                                static_cast<unsigned>(static_cast<unsigned char>(text_[bad]))));
  }
  try {
    const std::string text(text_);
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    DocumentStart start;
    if (!parser.HandleNextDocument(start)) return;  // Nothing but comments.
    if (parser.HandleNextDocument(start)) {
      const bool marked = text_.substr(std::min(text_.size(), static_cast<size_t>(start.mark.pos))).starts_with("---");
      return Fail(Severity::kPresent, At(start.mark),
                  marked ? "a second YAML document; use one" : "not valid YAML: nothing may follow here");
    }
    const YAML::Node document = YAML::Load(text);
    if (document.IsNull()) return;
    if (!document.IsMap()) {
      return Fail(Severity::kPresent, At(document.Mark()), "not a map; write `key: value` lines");
    }
    scope_ = OpenScope(document, "", At(document.Mark()));
  } catch (const YAML::Exception& exception) {
    const bool placed = !exception.mark.is_null() && static_cast<size_t>(exception.mark.pos) <= text_.size();
    if (const auto tab = IndentingTab(text_, placed ? static_cast<size_t>(exception.mark.pos) : 0); tab.has_value()) {
      return Fail(Severity::kPresent, AtByte(*tab), "a tab in the indentation; use spaces");
    }
    Fail(Severity::kPresent, At(exception.mark), absl::StrFormat("not valid YAML: %s", exception.msg));
  }
}

YamlReader::Scope YamlReader::OpenScope(const YAML::Node& map, std::string prefix, Position position) {
  Scope scope{.prefix = std::move(prefix), .position = position};
  for (const auto& item : map) {
    const Position at = At(item.first.Mark());
    if (!item.first.IsScalar()) {
      Fail(Severity::kPresent, at, "a key that is not a word");
      continue;
    }
    const std::string& key = item.first.Scalar();
    if (key == "<<") {
      Fail(Severity::kPresent, at, "merge key `<<`; write the keys out");
      continue;
    }
    const auto [entry, inserted] = scope.entries.try_emplace(key, Entry{item.second, at});
    if (!inserted) {
      Fail(Severity::kPresent, at,
           absl::StrFormat("key %s%s repeats line %d; remove one", scope.prefix,
                           absl::CHexEscape(key.substr(0, kMaxNameBytes)), entry->second.key.line));
    }
  }
  return scope;
}

void YamlReader::CloseScope() {
  for (const auto& [key, entry] : scope_.entries) {
    if (std::find(scope_.known.begin(), scope_.known.end(), key) != scope_.known.end()) continue;
    Fail(Severity::kPresent, entry.key,
         absl::StrFormat("unknown key %s%s; %s", scope_.prefix, Quoted(key), Suggest(key, scope_.known)));
  }
}

void YamlReader::Finish() { CloseScope(); }

void YamlReader::Fail(Severity severity, Position position, std::string_view message) {
  if (error_.has_value() && std::pair(error_->severity, error_->position) <= std::pair(severity, position)) return;
  error_ = Error{severity, position, std::string(message)};
}

absl::Status YamlReader::status() const {
  if (ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s:%d:%d: %s", source_, error_->position.line, error_->position.column, error_->message));
}

const YamlReader::Entry* YamlReader::Find(std::string_view key, Need need) {
  scope_.known.emplace_back(key);
  const auto found = scope_.entries.find(key);
  if (found != scope_.entries.end()) {
    const Position value = At(found->second.value.Mark());
    positions_[scope_.prefix + std::string(key)] = found->second.value.IsNull() ? found->second.key : value;
    return &found->second;
  }
  if (need == Need::kRequired && extent_ == Extent::kWhole) {
    Fail(Severity::kAbsent, scope_.position, absl::StrFormat("%s%s is missing; add it", scope_.prefix, key));
  }
  return nullptr;
}

bool YamlReader::Section(std::string_view key, Need need, const std::function<void(YamlReader&)>& read) {
  const Entry* entry = Find(key, need);
  if (entry == nullptr) return false;
  if (!entry->value.IsMap() && !entry->value.IsNull()) {
    Fail(Severity::kPresent, At(entry->value.Mark()), absl::StrFormat("%s%s: not a map of keys", scope_.prefix, key));
    return true;
  }
  Scope outer = std::move(scope_);
  const Entry& section = outer.entries.find(key)->second;
  scope_ = OpenScope(section.value, absl::StrFormat("%s%s.", outer.prefix, key), section.key);
  read(*this);
  CloseScope();
  scope_ = std::move(outer);
  return true;
}

std::optional<YamlReader::ScalarText> YamlReader::FindScalar(std::string_view key, Need need) {
  const Entry* entry = Find(key, need);
  if (entry == nullptr) return std::nullopt;
  if (!entry->value.IsScalar()) {
    Fail(Severity::kPresent, entry->value.IsNull() ? entry->key : At(entry->value.Mark()),
         absl::StrFormat("%s%s: %s", scope_.prefix, key,
                         entry->value.IsNull() ? "no value; write one or remove the key" : "not a single value"));
    return std::nullopt;
  }
  return TextOf(entry->value);
}

YamlReader::ScalarText YamlReader::TextOf(const YAML::Node& scalar) const {
  return {.text = scalar.Scalar(),
          .plain = scalar.Tag() == "?",  // yaml-cpp: "!" for a quoted one, else its tag.
          .position = At(scalar.Mark())};
}

void YamlReader::ReadInteger(std::string_view key, Need need, uint64_t low, uint64_t high, uint64_t& value) {
  const std::optional<ScalarText> scalar = FindScalar(key, need);
  if (!scalar.has_value()) return;
  value = ParseInteger(key, *scalar, low, high).value_or(value);
}

std::optional<uint64_t> YamlReader::ParseInteger(std::string_view key, const ScalarText& scalar, uint64_t low,
                                                 uint64_t high) {
  const std::string_view text = scalar.text;
  const auto fail = [&](std::string_view what) {
    Fail(Severity::kPresent, scalar.position,
         absl::StrFormat("%s%s: %s %s; use [%d, %d]", scope_.prefix, key, Quoted(text), what, low, high));
    return std::nullopt;
  };
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool whole = !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
  if (!scalar.plain) return fail("is quoted or tagged, not a plain number");
  if (!whole || (digits.size() > 1 && digits.front() == '0')) return fail("is not a whole number");
  uint64_t parsed = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed);
  if (digits.size() != text.size() || error != std::errc() || parsed < low || parsed > high) {
    return fail("is out of range");
  }
  return parsed;
}

std::optional<std::vector<uint64_t>> YamlReader::ParseIntegers(std::string_view key, const YAML::Node& list,
                                                               uint64_t low, uint64_t high) {
  if (list.size() == 0) {
    Fail(Severity::kPresent, At(list.Mark()), absl::StrFormat("%s%s: an empty list", scope_.prefix, key));
    return std::nullopt;
  }
  std::vector<uint64_t> integers;
  for (const YAML::Node& item : list) {
    if (!item.IsScalar()) {
      Fail(Severity::kPresent, At(item.Mark()),
           absl::StrFormat("%s%s: not a whole number in a list of them", scope_.prefix, key));
      return std::nullopt;
    }
    const std::optional<uint64_t> integer = ParseInteger(key, TextOf(item), low, high);
    if (!integer.has_value()) return std::nullopt;
    integers.push_back(*integer);
  }
  return integers;
}

void YamlReader::WordOrIntegers(std::string_view key, absl::Span<const std::string_view> words, int64_t low,
                                int64_t high, std::string& word, std::vector<int64_t>& list) {
  const auto found = scope_.entries.find(key);
  if (found == scope_.entries.end() || !found->second.value.IsSequence()) return Word(key, words, word);
  const auto integers =
      ParseIntegers(key, Find(key, Need::kOptional)->value, static_cast<uint64_t>(low), static_cast<uint64_t>(high));
  if (!integers.has_value()) return;
  list.assign(integers->begin(), integers->end());
  word.clear();
}

void YamlReader::IntegerLists(std::string_view key, int low, int high, std::vector<std::vector<int>>& lists) {
  const Entry* entry = Find(key, Need::kOptional);
  if (entry == nullptr) return;
  std::vector<std::vector<int>> read;
  const size_t count = entry->value.IsSequence() ? entry->value.size() : 0;
  for (size_t i = 0; i < count && entry->value[i].IsSequence(); ++i) {
    const YAML::Node list = entry->value[i];
    const auto integers = ParseIntegers(key, list, static_cast<uint64_t>(low), static_cast<uint64_t>(high));
    if (!integers.has_value()) return;
    read.emplace_back(integers->begin(), integers->end());
  }
  if (read.empty() || read.size() != count) {
    return Fail(Severity::kPresent, entry->value.IsNull() ? entry->key : At(entry->value.Mark()),
                absl::StrFormat("%s%s: not a list of lists such as [[0, 2], [1, 3]]", scope_.prefix, key));
  }
  lists = std::move(read);
}

std::optional<double> YamlReader::ParseNumber(std::string_view key, const ScalarText& scalar, const Range& range) {
  const std::string& text = scalar.text;
  const auto fail = [&](std::string_view what) {
    Fail(Severity::kPresent, scalar.position,
         absl::StrFormat("%s%s: %s %s; use %s", scope_.prefix, key, Quoted(text), what, range.ToString()));
    return std::nullopt;
  };
  if (!scalar.plain) return fail("is quoted or tagged, not a plain number");
  double parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error == std::errc::invalid_argument || end != text.data() + text.size() || !std::isfinite(parsed)) {
    return fail("is not a finite number");
  }
  if (error != std::errc() || !range.Contains(parsed)) return fail("is out of range");
  return parsed;
}

void YamlReader::Number(std::string_view key, Need need, const Range& range, double& value) {
  const std::optional<ScalarText> scalar = FindScalar(key, need);
  if (!scalar.has_value()) return;
  value = ParseNumber(key, *scalar, range).value_or(value);
}

void YamlReader::NumberOr(std::string_view key, std::string_view word, const Range& range,
                          std::optional<double>& value) {
  const std::optional<ScalarText> scalar = FindScalar(key, Need::kOptional);
  if (!scalar.has_value()) return;
  if (scalar->text == word) {
    value.reset();
  } else if (absl::ascii_isalpha(static_cast<unsigned char>(scalar->text.c_str()[0]))) {
    Fail(Severity::kPresent, scalar->position,
         absl::StrFormat("%s%s: %s; use `%s` or a number in %s", scope_.prefix, key, Quoted(scalar->text), word,
                         range.ToString()));
  } else {
    value = ParseNumber(key, *scalar, range);
  }
}

void YamlReader::Duration(std::string_view key, absl::Duration low, absl::Duration high, absl::Duration& value) {
  std::optional<absl::Duration> read = value;
  DurationOr(key, "", low, high, read);
  value = read.value_or(value);
}

void YamlReader::DurationOr(std::string_view key, std::string_view word, absl::Duration low, absl::Duration high,
                            std::optional<absl::Duration>& value) {
  const std::optional<ScalarText> scalar = FindScalar(key, Need::kOptional);
  if (!scalar.has_value()) return;
  if (!word.empty() && scalar->text == word) {
    value.reset();
    return;
  }
  absl::Duration parsed;
  const bool is_duration = absl::ParseDuration(scalar->text, &parsed);
  if (!is_duration || parsed < low || parsed > high) {
    return Fail(Severity::kPresent, scalar->position,
                absl::StrFormat("%s%s: %s %s; use [%s, %s]%s", scope_.prefix, key, Quoted(scalar->text),
                                is_duration ? "is out of range" : "is not a duration such as 500ms or 30s",
                                absl::FormatDuration(low), absl::FormatDuration(high),
                                word.empty() ? "" : absl::StrFormat(" or `%s`", word)));
  }
  value = parsed;
}

void YamlReader::Text(std::string_view key, Need need, const std::function<absl::Status(std::string_view)>& check,
                      std::string& value) {
  const std::optional<ScalarText> scalar = FindScalar(key, need);
  if (!scalar.has_value()) return;
  if (const absl::Status status = check(scalar->text); !status.ok()) {
    return Fail(Severity::kPresent, scalar->position,
                absl::StrFormat("%s%s: %s", scope_.prefix, key, std::string(status.message())));
  }
  value = scalar->text;
}

void YamlReader::Word(std::string_view key, absl::Span<const std::string_view> words, std::string& value) {
  const std::optional<ScalarText> scalar = FindScalar(key, Need::kOptional);
  if (!scalar.has_value()) return;
  if (std::find(words.begin(), words.end(), scalar->text) == words.end()) {
    return Fail(Severity::kPresent, scalar->position,
                absl::StrFormat("%s%s: %s is unknown; use one of %s", scope_.prefix, key, Quoted(scalar->text),
                                absl::StrJoin(words, ", ", absl::StreamFormatter())));
  }
  value = scalar->text;
}

void YamlReader::Contradiction(absl::Span<const std::string_view> paths, std::string_view message) {
  for (const std::string_view path : paths) {
    if (const auto found = positions_.find(path); found != positions_.end()) {
      return Fail(Severity::kPresent, found->second, message);
    }
  }
  DILOCO_CHECK(false && "defaults contradict each other");
}

}  // namespace diloco
