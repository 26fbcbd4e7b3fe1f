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

TEST(TableTest, ColoursTakeNoWidth) {
  Table table({{"NAME"}, {"STATE"}, {"NOTE"}}, Colors::kOn);
  table.AddRow({"east", Cell(Tone::kGood, "alive"), "x"});
  table.AddRow({"west", Cell(Tone::kBad, "lost", ": \x1B[2J"), "y"});
  table.AddRow({"", Cell(Tone::kPlain, "left"), Cell(Tone::kCaution, "")});
  EXPECT_EQ(table.ToString(),
            "NAME  STATE          NOTE\n"
            "east  \x1B[32malive\x1B[0m          x\n"
            "west  \x1B[31mlost\x1B[0m: \\x1b[2J  y\n"
            "-     left           -\n");
  EXPECT_EQ(Fields({{"state", Cell(Tone::kCaution, "draining", ", soon")}}, Colors::kOn),
            "state  \x1B[33mdraining\x1B[0m, soon\n");
  EXPECT_EQ(Fields({{"state", Cell(Tone::kCaution, "draining", ", soon")}}), "state  draining, soon\n");
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
  EXPECT_EQ(CutText("ab\x1B[32mcdef\x1B[0m gh\n", 2, 3), "ab\x1B[32mc\x1B[0m\n") << "what is begun is ended";
}

}  // namespace
}  // namespace diloco
