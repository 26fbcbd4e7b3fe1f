#include "worker/trainer/token_source.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace diloco {
namespace {

constexpr int64_t kHeaderBytes = 1024;
constexpr int32_t kHeaderMagic = 20240520;
constexpr int32_t kHeaderVersion = 1;
constexpr int64_t kPieceTokens = int64_t{1} << 20;  // Read at once in a pass over everything.

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The run of digits that `text` starts with, without leading zeros; removes it from `text`.
std::string_view TakeNumber(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) {
    ++end;
  }
  std::string_view number = text.substr(0, end);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  text.remove_prefix(end);
  return number;
}

// Numbers inside names compare by value.
bool NaturallyBefore(const std::string& left, const std::string& right) {
  std::string_view a = left;
  std::string_view b = right;
  while (!a.empty() && !b.empty()) {
    if (IsDigit(a[0]) && IsDigit(b[0])) {
      const std::string_view x = TakeNumber(a);
      const std::string_view y = TakeNumber(b);
      if (x != y) {
        return x.size() != y.size() ? x.size() < y.size() : x < y;
      }
    } else if (a[0] != b[0]) {
      return a[0] < b[0];
    } else {
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.empty() != b.empty() ? a.empty() : left < right;
}

absl::Status Unreadable(const std::string& path, int error) {
  return absl::InvalidArgumentError(absl::StrCat("cannot read data `", path, "`: ", std::strerror(error),
                                                 "; name a file or folder that can be read"));
}

bool IsTokenFile(const std::string& path) { return absl::EndsWith(path, ".bin"); }

bool Unchanged(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

// Reads exactly `size` bytes, or returns false with errno (0 at the end of the file).
bool ReadExactly(int fd, int64_t offset, char* out, size_t size) {
  while (size > 0) {
    const ssize_t count = pread(fd, out, size, offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      errno = count == 0 ? 0 : errno;
      return false;
    }
    out += count;
    offset += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

// Bytes in front of the tokens of a token file: 0 without a header.
absl::StatusOr<int64_t> CheckHeader(const std::string& path, int fd, int64_t size) {
  std::array<int32_t, 3> header = {};
  if (size < static_cast<int64_t>(sizeof(header)) ||
      !ReadExactly(fd, 0, reinterpret_cast<char*>(header.data()), sizeof(header)) || header[0] != kHeaderMagic) {
    return 0;
  }
  if (header[1] != kHeaderVersion) {
    return absl::InvalidArgumentError(absl::StrCat("data `", path, "` has a header of version ", header[1],
                                                   ": only version 1 (uint16) is read; convert it"));
  }
  if (header[2] < 0 || size != kHeaderBytes + 2 * int64_t{header[2]}) {
    return absl::InvalidArgumentError(absl::StrCat("data `", path, "` has ", size, " bytes, but its header says ",
                                                   header[2], " tokens, which take ",
                                                   kHeaderBytes + 2 * int64_t{header[2]}, "; write it anew"));
  }
  return kHeaderBytes;
}

}  // namespace

absl::StatusOr<TokenSource> TokenSource::Open(const std::string& path) {
  TokenSource source;
  source.path_ = path;
  std::error_code error;
  std::vector<std::string> paths;
  if (std::filesystem::is_directory(path, error)) {
    std::filesystem::directory_iterator entry(path, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      if (entry->is_regular_file(error) && entry->path().filename().native().front() != '.') {
        paths.push_back(entry->path().native());
      }
    }
    if (error) {
      return Unreadable(path, error.value());
    }
    if (paths.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("data folder `", path, "` holds no files; put text or .bin files into it or name another"));
    }
    std::sort(paths.begin(), paths.end(), NaturallyBefore);
  } else {
    paths.push_back(path);
  }
  source.bytes_per_token_ = IsTokenFile(paths.front()) ? 2 : 1;
  for (const std::string& file : paths) {
    if (IsTokenFile(file) != IsTokenFile(paths.front())) {
      return absl::InvalidArgumentError(absl::StrCat("data folder `", path, "` mixes text and uint16 tokens: `",
                                                     paths.front(), "` and `", file, "`; keep them in folders apart"));
    }
    DILOCO_RETURN_IF_ERROR(source.Append(file));
  }
  return source;
}

absl::Status TokenSource::Append(const std::string& path) {
  File file;
  file.path = path;
  if (stat(path.c_str(), &file.opened) != 0) {
    return Unreadable(path, errno);
  }
  if (!S_ISREG(file.opened.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("data `", path, "` is neither a regular file nor a folder; name one of these"));
  }
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Unreadable(path, errno);
  }
  const absl::Cleanup closer = [fd] { close(fd); };
  const int64_t size = file.opened.st_size;
  if (bytes_per_token_ == 2) {
    DILOCO_ASSIGN_OR_RETURN(file.header_bytes, CheckHeader(path, fd, size));
    if (size % 2 != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "data `", path, "` has ", size,
          " bytes, which is not a whole number of uint16 tokens; name another file, without .bin if it is text"));
    }
  }
  file.first_token = token_count_;
  file.tokens = (size - file.header_bytes) / bytes_per_token_;
  token_count_ += file.tokens;
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status TokenSource::Read(int64_t position, int vocabulary, absl::Span<uint16_t> out) const {
  DILOCO_CHECK(position >= 0 && position + static_cast<int64_t>(out.size()) <= token_count_);
  // The last file that starts at or before `position`; empty ones before it are skipped by the order.
  auto file = std::upper_bound(files_.begin(), files_.end(), position,
                               [](int64_t value, const File& f) { return value < f.first_token; });
  for (--file; !out.empty(); ++file) {
    const int64_t first = position - file->first_token;
    const int64_t count = std::min(file->tokens - first, static_cast<int64_t>(out.size()));
    DILOCO_RETURN_IF_ERROR(ReadFile(*file, first, vocabulary, out.subspan(0, static_cast<size_t>(count))));
    out.remove_prefix(static_cast<size_t>(count));
    position += count;
  }
  return absl::OkStatus();
}

absl::Status TokenSource::CheckTokens(int vocabulary) const {
  if (vocabulary >= 1 << (8 * bytes_per_token_)) {
    return absl::OkStatus();
  }
  std::vector<uint16_t> piece;
  for (int64_t position = 0; position < token_count_; position += kPieceTokens) {
    piece.resize(static_cast<size_t>(std::min(kPieceTokens, token_count_ - position)));
    DILOCO_RETURN_IF_ERROR(Read(position, vocabulary, absl::MakeSpan(piece)));
  }
  return absl::OkStatus();
}

absl::Status TokenSource::ReadFile(const File& file, int64_t first, int vocabulary, absl::Span<uint16_t> out) const {
  const int fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::DataLossError(absl::StrCat("data `", file.path, "` cannot be read any more: ", std::strerror(errno)));
  }
  const absl::Cleanup closer = [fd] { close(fd); };
  const int64_t begin = file.header_bytes + first * bytes_per_token_;
  const size_t bytes = out.size() * static_cast<size_t>(bytes_per_token_);
  std::vector<char> buffer(bytes);
  const bool complete = ReadExactly(fd, begin, buffer.data(), bytes);
  const int error = errno;
  struct stat now = {};
  if (fstat(fd, &now) != 0 || !Unchanged(file.opened, now)) {
    return absl::DataLossError(absl::StrCat("data `", file.path, "` changed while in use: it had ", file.opened.st_size,
                                            " bytes and has ", now.st_size, "; start again with the old file"));
  }
  if (!complete) {
    return absl::DataLossError(absl::StrCat("data `", file.path, "` cannot be read at byte ", begin, ": ",
                                            error == 0 ? "unexpected end" : std::strerror(error)));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const auto low = static_cast<unsigned char>(buffer[i * static_cast<size_t>(bytes_per_token_)]);
    const auto high = bytes_per_token_ == 2 ? static_cast<unsigned char>(buffer[2 * i + 1]) : 0;
    out[i] = static_cast<uint16_t>(low | high << 8);
    if (out[i] >= vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat("data `", file.path, "` holds token ", out[i], " at byte ",
                                                     begin + static_cast<int64_t>(i) * bytes_per_token_,
                                                     ", beyond the model's vocabulary of ", vocabulary,
                                                     "; use data of the model's tokenizer"));
    }
  }
  return absl::OkStatus();
}

}  // namespace diloco
