// Training data on disk: a stream of tokens with 64-bit positions. Free of LibTorch.
//
// A file whose name ends in `.bin` holds little-endian uint16 tokens, either bare (the nanoGPT layout) or behind a
// header of 256 int32: magic 20240520, version 1, token count (the llm.c layout). Every other file is a stream of
// bytes, each a token of its own, whatever the bytes are. The files of a folder make up one stream, in natural order
// (`part9` before `part10`); hidden files and folders inside it are left out.
//
// Files are read piece by piece, never mapped, so one that is cut or replaced while in use is an error that names it.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace diloco {

// Immutable and without open files, so copyable and thread-safe.
class TokenSource {
 public:
  // Opens the file or folder `path` and counts its tokens, of which there may be none.
  // Errors, kInvalidArgument: the path is missing or cannot be read, is neither a regular file nor a folder, a folder
  // without files or one that mixes bytes with uint16 tokens, an uneven size or a header that contradicts it.
  static absl::StatusOr<TokenSource> Open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t token_count() const { return token_count_; }

  // Reads tokens [position, position + out.size()), which must lie within the stream.
  // Errors, kInvalidArgument: a token is not below `vocabulary`; kDataLoss: a file changed since it was opened, or
  // cannot be read any more. Both name the file.
  absl::Status Read(int64_t position, int vocabulary, absl::Span<uint16_t> out) const;

  // That Read would find every token below `vocabulary`. Takes one pass, unless no token could be beyond. Errors: of
  // Read.
  absl::Status CheckTokens(int vocabulary) const;

 private:
  struct File {
    std::string path;
    struct stat opened = {};   // As of Open, to notice changes.
    int64_t first_token = 0;   // Position of its first token in the stream.
    int64_t tokens = 0;        // How many it holds.
    int64_t header_bytes = 0;  // In front of them.
  };

  TokenSource() = default;
  absl::Status Append(const std::string& path);
  absl::Status ReadFile(const File& file, int64_t first, int vocabulary, absl::Span<uint16_t> out) const;

  std::string path_;
  int bytes_per_token_ = 1;
  int64_t token_count_ = 0;
  std::vector<File> files_;  // Ascending in first_token.
};

}  // namespace diloco
