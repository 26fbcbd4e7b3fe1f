// `dilococtl checkpoint verify`: what the coordinator wrote, what another program did, and each kind of damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "common/safetensors/safetensors_writer.h"
#include "tests/coordinator/ctl/offline.h"
#include "tests/coordinator/driver/sim_cluster.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using ::testing::HasSubstr;

class CheckpointVerifyTest : public ::testing::Test {
 protected:
  // A run of two workers to its end, which writes a checkpoint.
  std::string RunToItsCheckpoint() {
    cluster_.Start();
    cluster_.Run();
    return cluster_.coordinator.observer.checkpoint_path;
  }
  // A file as another program writes it, without our metadata.
  std::string WriteForeign(const std::vector<float>& values, const std::map<std::string, std::string>& metadata = {}) {
    const std::string path = folder_.File("foreign.safetensors");
    const TensorSpec tensor{.name = "w", .shape = {static_cast<int64_t>(values.size())}};
    auto writer = SafetensorsWriter::Create(PosixFileSystem(), path, {tensor}, metadata);
    EXPECT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE(writer->Append(values).ok());
    EXPECT_TRUE(writer->Finish().ok());
    return path;
  }
  static void Change(const std::string& path, int64_t from_end, char value) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-from_end, std::ios::end);
    file.put(value);
  }

  SimCluster cluster_{RunYaml(2, 3, "fp32", "fp32"), 2};
  const ::diloco::testing::TempFolder folder_;
  Offline ctl_;
};

TEST_F(CheckpointVerifyTest, WhatTheCoordinatorWroteIsGood) {
  const std::string folder = RunToItsCheckpoint();
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", folder}), 0) << ctl_.err;
  EXPECT_THAT(ctl_.out, HasSubstr("run            test\nversion        3\n"));
  EXPECT_THAT(ctl_.out, HasSubstr("values         11 in 2 tensors, all finite\n"));
  EXPECT_THAT(ctl_.out, HasSubstr(", as it says\nconfiguration  " + folder + "/run.yaml\nverdict        good\n"));
  EXPECT_EQ(ctl_.Run({"-o", "json", "checkpoint", "verify", folder + "/model.safetensors"}), 0) << ctl_.err;
  const nlohmann::json json = nlohmann::json::parse(ctl_.out);
  EXPECT_EQ(json["parameters"], 11);
  EXPECT_EQ(json["version"], "3");
  EXPECT_EQ(json["data_digest"].get<std::string>().size(), 32u);
}

TEST_F(CheckpointVerifyTest, AByteThatChangedIsFound) {
  const std::string model = RunToItsCheckpoint() + "/model.safetensors";
  const std::string before = testing::ReadFile(model);
  Change(model, 44, static_cast<char>(before[before.size() - 44] ^ 1));  // The first value's lowest bit.
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", model}), 1);
  EXPECT_EQ(ctl_.out, "");
  EXPECT_THAT(ctl_.err, HasSubstr(model + ": its values have digest "));
}

TEST_F(CheckpointVerifyTest, AFileThatIsTooShortIsFound) {
  const std::string model = RunToItsCheckpoint() + "/model.safetensors";
  std::filesystem::resize_file(model, std::filesystem::file_size(model) - 1);
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", model}), 1);
  EXPECT_THAT(ctl_.err, HasSubstr(model));
  std::filesystem::resize_file(model, 4);
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", model}), 1);
  EXPECT_THAT(ctl_.err, HasSubstr("4 bytes are no safetensors file"));
}

TEST_F(CheckpointVerifyTest, AnotherConfigurationIsFound) {
  const std::string folder = RunToItsCheckpoint();
  testing::WriteFile(folder + "/run.yaml", RunYaml(2, 4, "fp32", "fp32"));
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", folder}), 1);
  EXPECT_THAT(ctl_.err, HasSubstr(folder + "/run.yaml: it has digest "));
  testing::WriteFile(folder + "/run.yaml", "run: {");
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", folder}), 1);
  EXPECT_THAT(ctl_.err, HasSubstr(folder + "/run.yaml:1:"));
}

TEST_F(CheckpointVerifyTest, OtherProgramsFilesAreReadAsFarAsTheyGo) {
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", WriteForeign({1, 2, 3})}), 0) << ctl_.err;
  EXPECT_THAT(ctl_.out, HasSubstr("digest         the file names none\n"));
  EXPECT_THAT(ctl_.out, HasSubstr("values         3 in 1 tensors, all finite\n"));
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", WriteForeign({1, NAN, 3})}), 1);
  EXPECT_THAT(ctl_.err, HasSubstr("value 1 of tensor \"w\" is not finite"));
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", WriteForeign({1, 2}, {{"data_digest", "00"}})}), 1);
  EXPECT_THAT(ctl_.err, HasSubstr("its metadata says 00"));
}

TEST_F(CheckpointVerifyTest, WhatIsNotThereIsWrongUsage) {
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", folder_.path()}), 2) << "a folder without a model";
  EXPECT_THAT(ctl_.err, HasSubstr("there is no " + folder_.path() + "/model.safetensors"));
  EXPECT_EQ(ctl_.Run({"checkpoint", "verify", "/nowhere"}), 2);
}

}  // namespace
}  // namespace diloco
