#include "coordinator/ctl/table.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/utf8.h"

namespace diloco {
namespace {

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

constexpr char kReset[] = "\x1b[0m";

const char* ColorOf(Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      break;
    case Tone::kGood:
      return "\x1b[32m";
    case Tone::kCaution:
      return "\x1b[33m";
    case Tone::kBad:
      return "\x1b[31m";
  }
  return "";
}

// Length of the colour that `text` begins with; 0: none. There is no other escape in what is Printable.
size_t ColorBytes(std::string_view text) { return text.front() == '\x1b' ? text.find('m') + 1 : 0; }

void AppendEscaped(std::string& out, char byte) {
  absl::StrAppendFormat(&out, "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(byte)));
}

void AppendCell(std::string& line, std::string_view cell, size_t width, Align align, bool last) {
  const std::string padding(width - DisplayWidth(cell), ' ');
  if (align == Align::kRight) line += padding;
  line += cell;
  if (align == Align::kLeft && !last) line += padding;
  line += last ? "\n" : "  ";
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view valid = text.substr(0, ValidUtf8Prefix(text));
    for (size_t i = 0; i < valid.size(); ++i) {
      const auto byte = static_cast<uint8_t>(valid[i]);
      const bool c1 = byte == 0xC2 && static_cast<uint8_t>(valid[i + 1]) < 0xA0;
      if (byte < 0x20 || byte == 0x7F || c1) AppendEscaped(out, valid[i]);
      if (c1) AppendEscaped(out, valid[++i]);
      if (byte >= 0x20 && byte != 0x7F && !c1) out.push_back(valid[i]);
    }
    text.remove_prefix(valid.size());
    if (text.empty()) break;
    AppendEscaped(out, text.front());
    text.remove_prefix(1);
  }
  return out;
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    const size_t color = ColorBytes(text);
    width += color == 0 && !IsContinuation(text.front()) ? 1 : 0;
    text.remove_prefix(std::max<size_t>(color, 1));
  }
  return width;
}

std::string CutText(std::string_view text, size_t rows, size_t columns) {
  std::string out;
  size_t row = 0;
  size_t column = 0;
  while (!text.empty() && row < rows) {
    const char c = text.front();
    const size_t color = ColorBytes(text);
    const size_t bytes = std::max<size_t>(color, 1);
    if (c == '\n') {
      column = 0;
      ++row;
    } else if (color == 0 && !IsContinuation(c)) {
      ++column;
    }
    if (color > 0 || column <= columns) out += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return out;
}

std::string Cell::Render(Colors colors) const {
  const char* const color = colors == Colors::kOn && !word.empty() ? ColorOf(tone) : "";
  return absl::StrCat(color, Printable(word), *color == '\0' ? "" : kReset, Printable(rest));
}

Table::Table(std::vector<Column> columns, Colors colors) : colors_(colors) {
  rows_.emplace_back();
  for (Column& column : columns) {
    aligns_.push_back(column.align);
    rows_[0].push_back(std::move(column.header));
  }
}

void Table::AddRow(const std::vector<Cell>& cells) {
  DILOCO_CHECK(cells.size() == aligns_.size());
  std::vector<std::string>& row = rows_.emplace_back();
  for (const Cell& cell : cells) {
    row.push_back(cell.Render(colors_));
    if (row.back().empty()) row.back() = "-";
  }
}

std::string Table::ToString() const {
  std::vector<size_t> widths(aligns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], DisplayWidth(row[c]));
  }
  std::string text;
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) AppendCell(text, row[c], widths[c], aligns_[c], c + 1 == row.size());
  }
  return text;
}

std::string Fields(const std::vector<std::pair<std::string, Cell>>& fields, Colors colors) {
  size_t width = 0;
  for (const auto& [name, value] : fields) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, value] : fields) {
    absl::StrAppendFormat(&text, "%-*s  %s\n", static_cast<int>(width), name, value.Render(colors));
  }
  return text;
}

}  // namespace diloco
