#include "common/safetensors/safetensors_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace diloco {
namespace {

static_assert(std::endian::native == std::endian::little, "values are read in memory order");

float FromBfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float FromFloat16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1F;
  const uint32_t fraction = bits & 0x3FF;
  if (exponent == 0) {  // Zero and subnormals: multiples of 2^-24.
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1F ? 0xFF : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

std::string ShapeText(absl::Span<const int64_t> shape) { return absl::StrFormat("[%s]", absl::StrJoin(shape, ", ")); }

}  // namespace

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(std::string path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // A FIFO must not block.
  if (fd < 0) return absl::InvalidArgumentError(absl::StrFormat("cannot open %s: %s", path, std::strerror(errno)));
  SafetensorsReader reader(std::move(path), fd);
  if (const absl::Status status = reader.ReadHeader(); !status.ok()) {
    return absl::Status(status.code(), absl::StrFormat("%s: %s", reader.path_, std::string(status.message())));
  }
  return reader;
}

SafetensorsReader::~SafetensorsReader() {
  if (fd_ >= 0) ::close(fd_);
}

SafetensorsReader::SafetensorsReader(SafetensorsReader&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_offset_(other.data_offset_),
      header_(std::move(other.header_)),
      index_(std::move(other.index_)) {}

absl::Status SafetensorsReader::ReadHeader() {
  struct stat file;
  if (::fstat(fd_, &file) != 0) return absl::ErrnoToStatus(errno, "fstat");
  if (!S_ISREG(file.st_mode)) return absl::InvalidArgumentError("not a regular file");
  const uint64_t file_bytes = static_cast<uint64_t>(file.st_size);
  uint64_t header_bytes = 0;
  if (file_bytes < sizeof(header_bytes)) {
    return absl::InvalidArgumentError(absl::StrFormat("%d bytes are no safetensors file", file_bytes));
  }
  DILOCO_RETURN_IF_ERROR(ReadBytes(0, reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes)));
  data_offset_ = sizeof(header_bytes) + header_bytes;
  if (header_bytes > kMaxSafetensorsHeaderBytes || data_offset_ > file_bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("no safetensors file: a header of %d bytes in a file of %d", header_bytes, file_bytes));
  }
  std::string json(header_bytes, '\0');
  DILOCO_RETURN_IF_ERROR(ReadBytes(sizeof(header_bytes), json.data(), json.size()));
  DILOCO_ASSIGN_OR_RETURN(header_, ParseSafetensorsHeader(json, file_bytes - data_offset_));
  for (size_t i = 0; i < header_.tensors.size(); ++i) index_[header_.tensors[i].name] = i;
  return absl::OkStatus();
}

absl::Status SafetensorsReader::ReadBytes(uint64_t offset, char* out, size_t size) const {
  while (size > 0) {
    const ssize_t got = ::pread(fd_, out, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, "cannot read");
    if (got == 0) return absl::DataLossError("the file became shorter while it was read");
    offset += static_cast<uint64_t>(got);
    out += got;
    size -= static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsReader::ReadHalves(const SafetensorsTensor& tensor, float (*convert)(uint16_t),
                                           absl::Span<float> out) const {
  std::vector<uint16_t> block(std::min<size_t>(out.size(), 1 << 16));
  for (size_t first = 0; first < out.size(); first += block.size()) {
    const size_t count = std::min(block.size(), out.size() - first);
    DILOCO_RETURN_IF_ERROR(ReadBytes(data_offset_ + tensor.begin + first * sizeof(uint16_t),
                                     reinterpret_cast<char*>(block.data()), count * sizeof(uint16_t)));
    std::transform(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count), out.begin() + first, convert);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsReader::Read(const TensorSpec& tensor, absl::Span<float> out) const {
  DILOCO_CHECK(static_cast<int64_t>(out.size()) == tensor.ElementCount());
  const auto error = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: tensor \"%s\": %s", path_, absl::CHexEscape(tensor.name), what));
  };
  const auto found = index_.find(tensor.name);
  if (found == index_.end()) return error("missing");
  const SafetensorsTensor& stored = header_.tensors[found->second];
  if (stored.shape != tensor.shape) {
    return error(absl::StrFormat("its shape is %s, expected %s", ShapeText(stored.shape), ShapeText(tensor.shape)));
  }
  if (stored.dtype == "F32") {
    return ReadBytes(data_offset_ + stored.begin, reinterpret_cast<char*>(out.data()), out.size() * sizeof(float));
  }
  if (stored.dtype == "BF16") return ReadHalves(stored, &FromBfloat16, out);
  if (stored.dtype == "F16") return ReadHalves(stored, &FromFloat16, out);
  return error(absl::StrFormat("dtype %s; use F32, BF16 or F16", stored.dtype));
}

}  // namespace diloco
