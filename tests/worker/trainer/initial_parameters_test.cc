#include "worker/trainer/initial_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/safetensors/safetensors_writer.h"
#include "tests/support/temp_folder.h"

namespace diloco {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const TensorSpec kRows = {.name = "rows", .shape = {2, 2}};
const TensorSpec kScale = {.name = "scale", .shape = {3}};

class InitialParametersTest : public ::testing::Test {
 protected:
  // A file of these tensors, whose values count from 1.
  SafetensorsReader File(const std::vector<TensorSpec>& tensors) {
    auto writer = SafetensorsWriter::Create(PosixFileSystem(), folder_.File("init"), tensors, {});
    EXPECT_TRUE(writer.ok()) << writer.status();
    float next = 1;
    for (const TensorSpec& tensor : tensors) {
      for (int64_t i = 0; i < tensor.ElementCount(); ++i) {
        EXPECT_TRUE(writer->Append({next}).ok());
        next += 1;
      }
    }
    EXPECT_TRUE(writer->Finish().ok());
    auto reader = SafetensorsReader::Open(folder_.File("init"));
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  const testing::TempFolder folder_;
};

TEST_F(InitialParametersTest, AreInTheModelsOrderWhateverTheFiles) {
  const auto values = ReadInitialParameters(File({kScale, kRows}), {kRows, kScale});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_THAT(*values, ElementsAre(4, 5, 6, 7, 1, 2, 3));
}

TEST_F(InitialParametersTest, MissingTensorIsAnErrorThatNamesIt) {
  const auto values = ReadInitialParameters(File({kRows}), {kRows, kScale});
  EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(values.status().message()), AllOf(HasSubstr("init"), HasSubstr("scale")));
}

TEST_F(InitialParametersTest, TensorThatTheModelDoesNotHaveIsAnErrorThatNamesIt) {
  const auto values = ReadInitialParameters(File({kRows, kScale}), {kRows});
  EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(values.status().message()), AllOf(HasSubstr("init"), HasSubstr("scale")));
}

TEST_F(InitialParametersTest, OtherShapeIsAnErrorThatNamesBoth) {
  const auto values = ReadInitialParameters(File({{.name = "rows", .shape = {4}}}), {kRows});
  EXPECT_EQ(values.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(values.status().message()), AllOf(HasSubstr("rows"), HasSubstr("[4]"), HasSubstr("[2, 2]")));
}

}  // namespace
}  // namespace diloco
