// Reads typed keys out of a YAML file, and says of everything wrong where it is and what to write instead.
//
//   YamlReader reader(text, "run.yaml");
//   reader.Section("run", Need::kRequired, [&](YamlReader& section) {
//     section.Integer("workers", Need::kRequired, 1, 256, config.workers);
//   });
//   if (reader.ok()) { ...checks that span keys: reader.Contradiction("run.workers", "...") }
//   return reader.status();
//
// Reading goes on after an error; status() is the first in the file. A key that nothing read is an error too, and so
// is one that is there twice. Values keep their defaults where a key is absent. Numbers are plain decimals: quoted
// ones, hexadecimal, digit groups and leading zeros, whose meaning differs between YAML readers, are refused.
#pragma once

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace diloco {

enum class Need { kRequired, kOptional };

// Whether a file is the whole configuration, or some values that go on top of one: then a key that is absent keeps its
// value, needed or not.
enum class Extent { kWhole, kPart };

// What a number may be. Printed as in mathematics: "(0, 10]".
struct Range {
  double low = 0;
  double high = 0;
  bool low_open = false;   // `low` itself is not allowed.
  bool high_open = false;  // `high` itself is not allowed.

  bool Contains(double value) const;
  std::string ToString() const;
};

class YamlReader {
 public:
  // `source` names the text in errors. Both outlive the reader.
  YamlReader(std::string_view text, std::string_view source, Extent extent = Extent::kWhole);
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;

  // Reads the map under `key`, and refuses what `read` does not name. False when it is absent (`read` is not called).
  bool Section(std::string_view key, Need need, const std::function<void(YamlReader&)>& read);
  // The same for a section whose absence means something: `section` is there when it is in the file.
  template <typename T>
  void Section(std::string_view key, std::optional<T>& section, const std::function<void(YamlReader&)>& read) {
    section.emplace();
    if (!Section(key, Need::kOptional, read)) section.reset();
  }

  // One key of the section (or of the top) each. Bounds are inclusive; low >= 0.
  template <typename T>
  void Integer(std::string_view key, Need need, std::type_identity_t<T> low, std::type_identity_t<T> high, T& value) {
    uint64_t wide = static_cast<uint64_t>(value);
    ReadInteger(key, need, static_cast<uint64_t>(low), static_cast<uint64_t>(high), wide);
    value = static_cast<T>(wide);
  }
  void Number(std::string_view key, Need need, const Range& range, double& value);
  // A number, or `word` for none.
  void NumberOr(std::string_view key, std::string_view word, const Range& range, std::optional<double>& value);
  // Such as 500ms, 30s, 1h30m.
  void Duration(std::string_view key, absl::Duration low, absl::Duration high, absl::Duration& value);
  // The same, or `word`, which is nullopt.
  void DurationOr(std::string_view key, std::string_view word, absl::Duration low, absl::Duration high,
                  std::optional<absl::Duration>& value);
  // Text that `check` accepts; its message says what is wrong.
  void Text(std::string_view key, Need need, const std::function<absl::Status(std::string_view)>& check,
            std::string& value);
  // One of `words`.
  void Word(std::string_view key, absl::Span<const std::string_view> words, std::string& value);
  // One of `words`, each of which stands for a value.
  template <typename T>
  void Choice(std::string_view key, std::initializer_list<std::pair<std::string_view, std::type_identity_t<T>>> words,
              T& value) {
    std::vector<std::string_view> names;
    std::string name;
    for (const auto& [word, meaning] : words) {
      names.push_back(word);
      if (meaning == value) name = word;
    }
    Word(key, names, name);
    for (const auto& [word, meaning] : words) {
      if (word == name) value = meaning;
    }
  }

  // One of `words`, or a list of whole numbers such as [0, 15], not an empty one, which clears `word`.
  void WordOrIntegers(std::string_view key, absl::Span<const std::string_view> words, int64_t low, int64_t high,
                      std::string& word, std::vector<int64_t>& list);
  // A list of lists of whole numbers, such as [[0, 2], [1, 3]], none of them empty.
  void IntegerLists(std::string_view key, int low, int high, std::vector<std::vector<int>>& lists);

  // True when the key, such as "outer.momentum", is in the file.
  bool Has(const std::string& path) const { return positions_.contains(path); }
  // Values that are fine by themselves are not together. Reported where the first of `paths` that the file has stands.
  void Contradiction(absl::Span<const std::string_view> paths, std::string_view message);

  // Refuses top-level keys that nothing read. Call it once, after everything is read.
  void Finish();
  bool ok() const { return !error_.has_value(); }
  // Errors, kInvalidArgument: `source:line:column: message`.
  absl::Status status() const;
  // The message alone; empty: none.
  std::string message() const { return error_ ? error_->message : ""; }

 private:
  struct Position {
    int line = 1;
    int column = 1;
    friend auto operator<=>(const Position&, const Position&) = default;
  };
  // Absent keys come last: a misspelt key explains them.
  enum class Severity { kPresent, kAbsent };
  struct Error {
    Severity severity;
    Position position;
    std::string message;
  };
  struct Entry {
    YAML::Node value;
    Position key;
  };
  // The map that is being read.
  struct Scope {
    std::string prefix;  // "" or such as "run.".
    Position position;
    std::map<std::string, Entry, std::less<>> entries;
    std::vector<std::string> known;  // Keys that were read, present or not.
  };

  static Position At(const YAML::Mark& mark);
  Position AtByte(size_t offset) const;
  void Load();
  Scope OpenScope(const YAML::Node& map, std::string prefix, Position position);
  void CloseScope();
  void Fail(Severity severity, Position position, std::string_view message);
  // The key's value; nullptr when there is none, which is an error if the key is needed.
  const Entry* Find(std::string_view key, Need need);
  // The same, as text; plain: not quoted and without a tag.
  struct ScalarText {
    std::string text;
    bool plain = false;
    Position position;
  };
  std::optional<ScalarText> FindScalar(std::string_view key, Need need);
  ScalarText TextOf(const YAML::Node& scalar) const;
  void ReadInteger(std::string_view key, Need need, uint64_t low, uint64_t high, uint64_t& value);
  std::optional<uint64_t> ParseInteger(std::string_view key, const ScalarText& scalar, uint64_t low, uint64_t high);
  // The elements of a list; nothing when one of them is not a whole number in range.
  std::optional<std::vector<uint64_t>> ParseIntegers(std::string_view key, const YAML::Node& list, uint64_t low,
                                                     uint64_t high);
  std::optional<double> ParseNumber(std::string_view key, const ScalarText& scalar, const Range& range);

  std::string_view text_;
  std::string_view source_;
  const Extent extent_;
  Scope scope_;
  std::map<std::string, Position, std::less<>> positions_;  // Of each value that was read, by path.
  std::optional<Error> error_;
};

}  // namespace diloco
