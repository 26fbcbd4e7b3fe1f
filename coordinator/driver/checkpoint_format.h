// A checkpoint of the consensus on disk, for whoever writes or reads one.
#pragma once

namespace diloco {

// Names in a checkpoint's folder, and of what the model's metadata says.
inline constexpr char kModelFile[] = "model.safetensors";
inline constexpr char kConfigFile[] = "run.yaml";
inline constexpr char kRunIdKey[] = "run_id";
inline constexpr char kVersionKey[] = "version";
inline constexpr char kConfigDigestKey[] = "config_digest";
inline constexpr char kDataDigestKey[] = "data_digest";  // Of all values, in the order of the file; hex.

}  // namespace diloco
