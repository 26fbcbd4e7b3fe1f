// Speed of the codecs, SIMD beside the scalar reference, and of a merge of four contributions on one thread. Bytes are
// those of the float32 side. Run: build/tests/codec_benchmark
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/codec/codec.h"
#include "common/codec/reference_codec.h"
#include "common/merge/merge.h"

namespace diloco {
namespace {

constexpr size_t kElements = size_t{4} << 20;  // 16 MiB of float32: outside L1 and L2.

using EncodeFunction = void (*)(absl::Span<const float>, Rounding, absl::Span<char>);
using DecodeFunction = void (*)(std::string_view, absl::Span<float>);

const std::vector<float>& Values() {
  static const std::vector<float>* const values = [] {
    auto* const made = new std::vector<float>(kElements);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0.0f, 1e-3f);
    for (float& value : *made) {
      value = normal(random);
    }
    return made;
  }();
  return *values;
}

std::string Encoded(const Codec& codec) {
  std::string encoded(codec.encoded_bytes(kElements), '\0');
  codec.encode(Values(), kNearest, absl::MakeSpan(encoded));
  return encoded;
}

void CountFloats(benchmark::State& state, size_t elements) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(elements * sizeof(float)));
}

void BM_Encode(benchmark::State& state, const char* name, EncodeFunction encode, Rounding rounding) {
  std::string encoded(FindCodec(name)->encoded_bytes(kElements), '\0');
  for (auto _ : state) {
    encode(Values(), rounding, absl::MakeSpan(encoded));
    benchmark::DoNotOptimize(encoded.data());
  }
  CountFloats(state, kElements);
}

void BM_Decode(benchmark::State& state, const char* name, DecodeFunction decode) {
  const std::string encoded = Encoded(*FindCodec(name));
  std::vector<float> decoded(kElements);
  for (auto _ : state) {
    decode(encoded, absl::MakeSpan(decoded));
    benchmark::DoNotOptimize(decoded.data());
  }
  CountFloats(state, kElements);
}

void BM_Check(benchmark::State& state, const char* name) {
  const Codec& codec = *FindCodec(name);
  const std::string encoded = Encoded(codec);
  for (auto _ : state) {
    DILOCO_CHECK(CheckEncoded(codec, encoded, kElements).ok());
  }
  CountFloats(state, kElements);
}

void BM_MergeOfFour(benchmark::State& state, const char* uplink, const char* downlink) {
  const std::string encoded = Encoded(*FindCodec(uplink));
  const std::vector<MergeInput> inputs(4, {.encoded = encoded, .weight = 1.0});
  for (auto _ : state) {
    const absl::StatusOr<MergeResult> result =
        Merge(inputs, kElements, *FindCodec(uplink), *FindCodec(downlink), SerialFor);
    DILOCO_CHECK(result.ok());
  }
  CountFloats(state, kElements * inputs.size());
}

void RegisterAll() {
  struct Reference {
    const char* name;
    EncodeFunction encode;
    DecodeFunction decode;
  };
  for (const Reference& row : {Reference{"bf16", reference::EncodeBf16, reference::DecodeBf16},
                               Reference{"fp8", reference::EncodeFp8, reference::DecodeFp8},
                               Reference{"int8", reference::EncodeInt8, reference::DecodeInt8},
                               Reference{"int4", reference::EncodeInt4, reference::DecodeInt4},
                               Reference{"e3m0", reference::EncodeE3m0, reference::DecodeE3m0}}) {
    const Codec& codec = *FindCodec(row.name);
    const std::string name = row.name;
    benchmark::RegisterBenchmark(("encode/" + name + "/simd").c_str(), BM_Encode, row.name, codec.encode, kNearest);
    benchmark::RegisterBenchmark(("encode stochastically/" + name + "/simd").c_str(), BM_Encode, row.name, codec.encode,
                                 Rounding{.stochastic = true, .key = 1});
    benchmark::RegisterBenchmark(("encode/" + name + "/reference").c_str(), BM_Encode, row.name, row.encode, kNearest);
    benchmark::RegisterBenchmark(("decode/" + name + "/simd").c_str(), BM_Decode, row.name, codec.decode);
    benchmark::RegisterBenchmark(("decode/" + name + "/reference").c_str(), BM_Decode, row.name, row.decode);
    benchmark::RegisterBenchmark(("check/" + name).c_str(), BM_Check, row.name);
  }
  benchmark::RegisterBenchmark("merge of 4/fp32 to fp32", BM_MergeOfFour, "fp32", "fp32");
  benchmark::RegisterBenchmark("merge of 4/e3m0 to int8", BM_MergeOfFour, "e3m0", "int8");
}

}  // namespace
}  // namespace diloco

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  diloco::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
