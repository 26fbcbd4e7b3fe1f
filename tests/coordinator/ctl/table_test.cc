#include "coordinator/ctl/table.h"

#include <gtest/gtest.h>

#include <string>

namespace diloco {
namespace {

TEST(TableTest, AlignsColumns) {
  Table table({{"NAME"}, {"COUNT", Align::kRight}, {"NOTE"}});
  table.AddRow({"east", "7", "fine"});
  table.AddRow({"a", "12345", ""});
  table.AddRow({"caf\xC3\xA9", "", "x"});
  EXPECT_EQ(table.ToString(),
            "NAME  COUNT  NOTE\n"
            "east      7  fine\n"
            "a     12345  -\n"
            "caf\xC3\xA9      -  x\n");
}

TEST(TableTest, EmptyTableIsItsHeader) { EXPECT_EQ(Table({{"A"}, {"B"}}).ToString(), "A  B\n"); }

TEST(TableTest, FieldsAreAlignedAndPrintable) {
  EXPECT_EQ(Fields({{"run", "demo"}, {"checkpoint", "/a\nb"}}), "run         demo\ncheckpoint  /a\\x0ab\n");
}

TEST(PrintableTest, NothingReachesTheTerminalButText) {
  EXPECT_EQ(Printable("plain <b>&\"\\"), "plain <b>&\"\\");
  EXPECT_EQ(Printable("\x1B[2J\x07\r\n\t\x7F"), "\\x1b[2J\\x07\\x0d\\x0a\\x09\\x7f");
  EXPECT_EQ(Printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "31m"),
            "\\xc2\\x9b31m")
      << "C1: an escape sequence of one character";
  EXPECT_EQ(Printable("\xC2\xA0\xC3\xA9\xE6\x97\xA5"), "\xC2\xA0\xC3\xA9\xE6\x97\xA5");
  EXPECT_EQ(Printable("a\xC0\xA7z\xFF"), "a\\xc0\\xa7z\\xff");
}

TEST(CutTextTest, KeepsLinesWithinTheTerminal) {
  EXPECT_EQ(CutText("abcdef\nab\n\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\n", 9, 3), "abc\nab\n\xC3\xA9\xC3\xA9\xC3\xA9\n");
  EXPECT_EQ(CutText("a\nb\nc\n", 2, 9), "a\nb\n");
}

}  // namespace
}  // namespace diloco
