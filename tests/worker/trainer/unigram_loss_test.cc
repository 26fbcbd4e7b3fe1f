#include "worker/trainer/unigram_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

class UnigramLossTest : public ::testing::Test {
 protected:
  TokenSource Source(const std::string& name, const std::string& text) {
    auto source = TokenSource::Open(folder_.Write(name, text));
    EXPECT_TRUE(source.ok()) << source.status();
    return *std::move(source);
  }

  const testing::TempFolder folder_;
};

TEST_F(UnigramLossTest, IsTheMeanOfTheLogFrequencies) {
  const TokenSource training = Source("training", "aaab");
  const TokenSource held_out = Source("held_out", "xabbcx");
  // With a vocabulary of 256 and one added to each count: a 4/260, b 2/260, c 1/260.
  const double expected = -(std::log(4 / 260.0) + 2 * std::log(2 / 260.0) + std::log(1 / 260.0)) / 4;
  const auto loss = UnigramLoss(training, {0, 4}, held_out, {1, 5}, 256);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_NEAR(*loss, expected, 1e-12);
}

TEST_F(UnigramLossTest, NothingLearnedIsTheUniformLoss) {
  const TokenSource source = Source("any", "any text at all");
  const auto loss = UnigramLoss(source, {0, 0}, source, {0, source.token_count()}, 256);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_NEAR(*loss, std::log(256.0), 1e-12);
}

TEST_F(UnigramLossTest, LargeInputIsCountedWhole) {
  // More than one piece, and not a multiple of one: a third of the tokens is `b`.
  std::string text;
  for (int i = 0; i < 1'100'000; ++i) {
    text += "aab";
  }
  const TokenSource source = Source("large", text);
  const double n = 3'300'000 + 256;
  const double expected = -(2 * std::log(2'200'001 / n) + std::log(1'100'001 / n)) / 3;
  const auto loss = UnigramLoss(source, {0, source.token_count()}, source, {0, source.token_count()}, 256);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_NEAR(*loss, expected, 1e-9);
}

}  // namespace
}  // namespace diloco
