// Aligned tables for a terminal. What peers sent is shown, never obeyed: see Printable.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace diloco {

// `text` with control characters (C0, DEL, C1) and bytes that are not UTF-8 written as \xNN, so that it cannot move a
// cursor, change a colour or break a line.
std::string Printable(std::string_view text);

// Columns that `text`, as Printable or Cell gives it, takes: one a code point, none for colours.
size_t DisplayWidth(std::string_view text);

// The first `rows` lines, and of each the first `columns` columns. Colours take no column and are kept.
std::string CutText(std::string_view text, size_t rows, size_t columns);

// How a state is to be taken: green, yellow, red.
enum class Tone { kPlain, kGood, kCaution, kBad };
enum class Colors { kOff, kOn };

// Text for people. A tone covers `word`, which `rest` follows.
struct Cell {
  Cell(std::string text) : rest(std::move(text)) {}  // NOLINT(google-explicit-constructor): most cells are plain.
  Cell(const char* text) : rest(text) {}             // NOLINT(google-explicit-constructor)
  Cell(Tone tone_in, std::string word_in, std::string rest_in = "")
      : tone(tone_in), word(std::move(word_in)), rest(std::move(rest_in)) {}

  // Printable, and with its colour.
  std::string Render(Colors colors) const;

  Tone tone = Tone::kPlain;
  std::string word;
  std::string rest;
};

enum class Align { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string header;
    Align align = Align::kLeft;
  };
  explicit Table(std::vector<Column> columns, Colors colors = Colors::kOff);

  // One cell a column, made Printable. An empty cell is shown as "-".
  void AddRow(const std::vector<Cell>& cells);

  // Header and rows, two spaces between columns, none at the ends of lines. Ends with a newline.
  std::string ToString() const;

 private:
  const Colors colors_;
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;  // Rendered; the header first.
};

// `name  value` lines, the names padded to one width.
std::string Fields(const std::vector<std::pair<std::string, Cell>>& fields, Colors colors = Colors::kOff);

}  // namespace diloco
