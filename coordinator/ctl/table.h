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

// Columns that `text`, as Printable gives it, takes: one a code point.
size_t DisplayWidth(std::string_view text);

// The first `rows` lines, and of each the first `columns` columns.
std::string CutText(std::string_view text, size_t rows, size_t columns);

enum class Align { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string header;
    Align align = Align::kLeft;
  };
  explicit Table(std::vector<Column> columns);

  // One cell a column, made Printable. An empty cell is shown as "-".
  void AddRow(std::vector<std::string> cells);

  // Header and rows, two spaces between columns, none at the ends of lines. Ends with a newline.
  std::string ToString() const;

 private:
  std::vector<Align> aligns_;
  std::vector<std::vector<std::string>> rows_;  // The header first.
};

// `name  value` lines, the names padded to one width.
std::string Fields(const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace diloco
