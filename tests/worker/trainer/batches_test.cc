#include "worker/trainer/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;

RunConfig Config(int sequence, double held_out) {
  RunConfig config;
  config.run.seed = 7;
  config.model = ModelSection{.layers = 1, .width = 8, .heads = 1, .ffn = 8, .vocabulary = 256, .sequence = sequence};
  config.eval.held_out = held_out;
  config.eval.sequences = 4;
  return config;
}

class BatchesTest : public ::testing::Test {
 protected:
  // Bytes 0, 1, 2, ...: each says its own position.
  static std::string Counting(int size) {
    std::string text;
    for (int i = 0; i < size; ++i) {
      text.push_back(static_cast<char>(i));
    }
    return text;
  }

  absl::StatusOr<Batches> Create(const std::string& data, const std::string& held_out, const RunConfig& config) {
    auto files = OpenDataFiles(data, held_out);
    EXPECT_TRUE(files.ok()) << files.status();
    return Batches::Create(*std::move(files), config, "east");
  }

  const testing::TempFolder folder_;
};

TEST_F(BatchesTest, TrainsOnTheFirstPartAndEvaluatesOnTheLast) {
  const auto batches = Create(folder_.Write("data", Counting(200)), "", Config(4, 0.25));
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ(batches->training_tokens(), 150);
  EXPECT_EQ(batches->held_out_tokens(), 50);
  std::vector<uint16_t> tokens(5 * 100);
  ASSERT_TRUE(batches->ReadTraining(0, 0, absl::MakeSpan(tokens)).ok());
  EXPECT_THAT(tokens, Each(Lt(150)));
  for (size_t i = 0; i < tokens.size(); i += 5) {
    EXPECT_EQ(tokens[i + 4], tokens[i] + 4);
  }
  // Starts are 150 + 15 i: 46 tokens after the first window start, in three strides.
  EXPECT_EQ(batches->evaluation_windows(), 4);
  tokens.resize(10);
  ASSERT_TRUE(batches->ReadEvaluation(2, absl::MakeSpan(tokens)).ok());
  EXPECT_THAT(tokens, ElementsAre(180, 181, 182, 183, 184, 195, 196, 197, 198, 199));
}

TEST_F(BatchesTest, WithHeldOutDataOfItsOwnTrainsOnAllOfTheData) {
  const auto batches =
      Create(folder_.Write("data", Counting(100)), folder_.Write("held_out", Counting(9)), Config(4, 0.25));
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ(batches->training_tokens(), 100);
  EXPECT_EQ(batches->evaluation_windows(), 2);
  std::vector<uint16_t> tokens(5);
  ASSERT_TRUE(batches->ReadEvaluation(1, absl::MakeSpan(tokens)).ok());
  EXPECT_THAT(tokens, ElementsAre(4, 5, 6, 7, 8));
}

TEST_F(BatchesTest, MicroBatchesAreThePartsOfTheBatch) {
  const auto batches = Create(folder_.Write("data", Counting(200)), "", Config(4, 0));
  ASSERT_TRUE(batches.ok()) << batches.status();
  std::vector<uint16_t> whole(5 * 8);
  std::vector<uint16_t> parts(5 * 8);
  ASSERT_TRUE(batches->ReadTraining(3, 0, absl::MakeSpan(whole)).ok());
  ASSERT_TRUE(batches->ReadTraining(3, 0, absl::MakeSpan(parts).first(15)).ok());
  ASSERT_TRUE(batches->ReadTraining(3, 3, absl::MakeSpan(parts).subspan(15)).ok());
  EXPECT_EQ(whole, parts);
}

TEST_F(BatchesTest, DataShorterThanASequenceIsAnErrorWithCounts) {
  for (const int size : {1, 15, 16}) {
    const auto batches = Create(folder_.Write("data", Counting(size)), "", Config(16, 0));
    EXPECT_EQ(batches.status().code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(std::string(batches.status().message()),
                AllOf(HasSubstr("data"), HasSubstr(std::to_string(size) + " tokens"), HasSubstr("at least 17")));
  }
  for (const int size : {17, 18}) {
    const auto batches = Create(folder_.Write("data", Counting(size)), "", Config(16, 0));
    ASSERT_TRUE(batches.ok()) << batches.status();
    std::vector<uint16_t> tokens(17);
    EXPECT_TRUE(batches->ReadTraining(0, 0, absl::MakeSpan(tokens)).ok());
  }
}

TEST_F(BatchesTest, HeldOutShareOfNothingLeavesNoEvaluation) {
  const auto batches = Create(folder_.Write("data", Counting(100)), "", Config(16, 0.05));
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ(batches->evaluation_windows(), 0);
}

TEST_F(BatchesTest, HeldOutFileShorterThanASequenceIsAnError) {
  const auto batches =
      Create(folder_.Write("data", Counting(100)), folder_.Write("held_out", Counting(16)), Config(16, 0));
  EXPECT_THAT(std::string(batches.status().message()), AllOf(HasSubstr("held_out"), HasSubstr("16 tokens")));
}

TEST_F(BatchesTest, TokensBeyondTheVocabularyAreFoundBeforeAnyBatch) {
  RunConfig config = Config(4, 0);
  config.model->vocabulary = 200;
  const std::string good = folder_.Write("good", Counting(200));
  const std::string bad = folder_.Write("bad", Counting(201));  // The last byte alone.
  EXPECT_TRUE(Create(good, good, config).ok());
  for (const auto& [data, held_out] : {std::pair(bad, good), std::pair(good, bad), std::pair(bad, std::string())}) {
    const absl::Status status = Create(data, held_out, config).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(std::string(status.message()),
              "data `" + bad +
                  "` holds token 200 at byte 200, beyond the model's vocabulary of 200; use data of the "
                  "model's tokenizer");
  }
}

TEST_F(BatchesTest, EmptyFilesAreErrorsThatNameThem) {
  const std::string data = folder_.Write("data", "text");
  EXPECT_THAT(std::string(OpenDataFiles(folder_.Write("void", ""), "").status().message()),
              AllOf(HasSubstr("void"), HasSubstr("empty")));
  EXPECT_THAT(std::string(OpenDataFiles(data, folder_.File("void")).status().message()), HasSubstr("void"));
}

}  // namespace
}  // namespace diloco
