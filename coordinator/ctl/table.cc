#include "coordinator/ctl/table.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/utf8.h"

namespace diloco {
namespace {

bool IsContinuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

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
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !IsContinuation(c); }));
}

std::string CutText(std::string_view text, size_t rows, size_t columns) {
  std::string out;
  size_t row = 0;
  size_t column = 0;
  for (const char c : text) {
    if (row == rows) break;
    if (c == '\n') {
      column = 0;
      ++row;
    } else if (!IsContinuation(c)) {
      ++column;
    }
    if (column <= columns) out.push_back(c);
  }
  return out;
}

Table::Table(std::vector<Column> columns) {
  rows_.emplace_back();
  for (Column& column : columns) {
    aligns_.push_back(column.align);
    rows_[0].push_back(std::move(column.header));
  }
}

void Table::AddRow(std::vector<std::string> cells) {
  DILOCO_CHECK(cells.size() == aligns_.size());
  for (std::string& cell : cells) cell = cell.empty() ? "-" : Printable(cell);
  rows_.push_back(std::move(cells));
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

std::string Fields(const std::vector<std::pair<std::string, std::string>>& fields) {
  size_t width = 0;
  for (const auto& [name, value] : fields) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, value] : fields) {
    absl::StrAppendFormat(&text, "%-*s  %s\n", static_cast<int>(width), name, Printable(value));
  }
  return text;
}

}  // namespace diloco
