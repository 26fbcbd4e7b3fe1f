#include "common/safetensors/safetensors_header.h"

#include <algorithm>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

std::string Quoted(std::string_view text) {
  return absl::StrFormat("\"%s\"", absl::CHexEscape(std::string(text.substr(0, kMaxTensorNameBytes))));
}

// Bytes an element; 0: unknown.
uint64_t DtypeBytes(std::string_view dtype) {
  static constexpr std::pair<std::string_view, uint64_t> kTable[] = {
      {"F32", 4}, {"BF16", 2}, {"F16", 2}, {"F64", 8}, {"I64", 8},  {"I32", 4},     {"I16", 2},    {"I8", 1},
      {"U64", 8}, {"U32", 4},  {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};
  for (const auto& [name, bytes] : kTable) {
    if (name == dtype) return bytes;
  }
  return 0;
}

// Takes the header's JSON apart as it is parsed, so that repeated keys are seen and nothing outside the format is ever
// built. Each method returns false, with `error_` set, to stop the parser.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SafetensorsHeader& header() { return header_; }
  const std::string& error() const { return error_; }

  bool start_object(size_t) override {
    if (depth_ > 1) return Unexpected("object");
    ++depth_;
    fields_.clear();
    if (depth_ == 2 && !InMetadata()) header_.tensors.push_back({.name = name_});
    return true;
  }

  bool key(string_t& key) override {
    key_ = key;
    if (depth_ == 1) {
      name_ = key;
      if (!names_.insert(key).second) return Fail(absl::StrFormat("%s is there twice", Quoted(key)));
      return true;
    }
    if (!fields_.insert(key).second) {
      return Fail(absl::StrFormat("%s has %s twice", Quoted(name_), Quoted(key)));
    }
    if (!InMetadata() && key != "dtype" && key != "shape" && key != "data_offsets") {
      return Fail(absl::StrFormat("tensor %s has a field %s that the format does not", Quoted(name_), Quoted(key)));
    }
    return true;
  }

  bool end_object() override {
    if (depth_ == 2 && !InMetadata() && fields_.size() != 3) {
      return Fail(absl::StrFormat("tensor %s lacks dtype, shape or data_offsets", Quoted(name_)));
    }
    --depth_;
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ != 2 || array_) return Unexpected("string");
    if (InMetadata()) {
      header_.metadata[key_] = value;
      return true;
    }
    if (key_ != "dtype") return Unexpected("string");
    header_.tensors.back().dtype = value;
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || array_ || InMetadata() || key_ == "dtype") return Unexpected("list");
    array_ = true;
    numbers_.clear();
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (!array_) return Unexpected("number");
    numbers_.push_back(value);
    return true;
  }

  bool end_array() override {
    array_ = false;
    SafetensorsTensor& tensor = header_.tensors.back();
    if (key_ == "shape") {
      for (const uint64_t extent : numbers_) {
        if (extent > INT64_MAX) return Fail(absl::StrFormat("tensor %s: extent %d", Quoted(name_), extent));
        tensor.shape.push_back(static_cast<int64_t>(extent));
      }
      return true;
    }
    if (numbers_.size() != 2) {
      return Fail(absl::StrFormat("tensor %s: data_offsets are not two numbers", Quoted(name_)));
    }
    tensor.begin = numbers_[0];
    tensor.end = numbers_[1];
    return true;
  }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("boolean"); }
  bool number_integer(number_integer_t) override { return Unexpected("negative number"); }
  bool number_float(number_float_t, const string_t&) override { return Unexpected("fraction"); }
  bool binary(binary_t&) override { return Unexpected("binary value"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(absl::StrFormat("not valid JSON at byte %d", position));
  }

 private:
  bool InMetadata() const { return name_ == kSafetensorsMetadataKey; }
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }
  bool Unexpected(std::string_view what) {
    if (depth_ == 2) return Fail(absl::StrFormat("%s: unexpected %s in %s", Quoted(name_), what, Quoted(key_)));
    return Fail(depth_ == 1 ? absl::StrFormat("%s: unexpected %s", Quoted(name_), what)
                            : absl::StrFormat("unexpected %s", what));
  }

  SafetensorsHeader header_;
  std::string error_;
  int depth_ = 0;       // Objects that are open: 1 is the header, 2 a tensor or the metadata.
  bool array_ = false;  // A shape or data_offsets is open.
  std::string name_;    // Newest key at depth 1.
  std::string key_;     // Newest key.
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> fields_;
  std::vector<uint64_t> numbers_;
};

absl::Status CheckTensor(SafetensorsTensor& tensor) {
  const auto error = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrFormat("tensor %s: %s", Quoted(tensor.name), what));
  };
  const uint64_t dtype_bytes = DtypeBytes(tensor.dtype);
  if (dtype_bytes == 0) return error(absl::StrFormat("dtype %s is unknown", Quoted(tensor.dtype)));
  if (tensor.begin > tensor.end) return error("data_offsets end before they begin");
  const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  uint64_t elements = empty ? 0 : 1;
  for (const int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(elements, static_cast<uint64_t>(extent), &elements) ||
        elements > static_cast<uint64_t>(kMaxElements)) {
      return error(absl::StrFormat("more than %d elements", kMaxElements));
    }
  }
  if (tensor.end - tensor.begin != elements * dtype_bytes) {
    return error(absl::StrFormat("shape and dtype need %d bytes, data_offsets give %d", elements * dtype_bytes,
                                 tensor.end - tensor.begin));
  }
  tensor.elements = static_cast<int64_t>(elements);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, uint64_t data_bytes) {
  if (!json.starts_with('{')) return absl::InvalidArgumentError("header does not start with `{`");
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler)) {
    return absl::InvalidArgumentError(absl::StrFormat("header: %s", handler.error()));
  }
  SafetensorsHeader header = std::move(handler.header());
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const auto& a, const auto& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  uint64_t covered = 0;
  for (SafetensorsTensor& tensor : header.tensors) {
    DILOCO_RETURN_IF_ERROR(CheckTensor(tensor));
    if (tensor.begin != covered) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor %s: data_offsets %s: it begins at byte %d, expected %d", Quoted(tensor.name),
                          tensor.begin < covered ? "overlap" : "leave a gap", tensor.begin, covered));
    }
    covered = tensor.end;
  }
  if (covered != data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d bytes of data, the header describes %d", data_bytes, covered));
  }
  return header;
}

}  // namespace diloco
