#include "worker/client/delta_assembler.h"

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/crc32c.h"
#include "common/base/digest.h"

namespace diloco {
namespace {

// A global delta of four float32 in two chunks, as the wire contract describes it.
struct Published {
  std::vector<v1::GlobalDeltaChunk> chunks;
  v1::SettledList settled;
  v1::GlobalDeltaCommit commit;
};

Published Publish(int64_t round) {
  const std::string payload = "0123456789abcde" + std::to_string(round);
  Published published;
  for (uint32_t i = 0; i < 2; ++i) {
    v1::GlobalDeltaChunk chunk;
    chunk.set_run_id("run");
    chunk.set_fragment(1);
    chunk.set_round(round);
    chunk.set_index(i);
    chunk.set_payload(payload.substr(i * 8, 8));
    chunk.set_crc32c(ComputeCrc32c(chunk.payload()).value);
    published.chunks.push_back(chunk);
  }
  published.settled.set_run_id("run");
  published.settled.set_fragment(1);
  published.settled.set_round(round);
  published.settled.add_settled()->mutable_id()->set_worker_id("east");
  v1::GlobalDeltaCommit& commit = published.commit;
  commit.set_run_id("run");
  commit.set_fragment(1);
  commit.set_round(round);
  commit.set_codec("fp32");
  commit.set_element_count(4);
  commit.set_payload_bytes(16);
  commit.set_chunk_bytes(8);
  commit.set_chunk_count(2);
  commit.mutable_payload_digest()->set_value(DigestOf(payload).Bytes());
  commit.mutable_settled_digest()->set_value(DigestOf(published.settled.SerializeAsString()).Bytes());
  return published;
}

DeltaAssembler Make(int64_t next_round) {
  return DeltaAssembler({.run_id = "run", .fragment = 1, .codec = FindCodec("fp32"), .element_count = 4}, next_round);
}

// The first error, or OK.
absl::Status Feed(DeltaAssembler* assembler, const Published& published) {
  for (const v1::GlobalDeltaChunk& chunk : published.chunks) {
    if (const absl::Status status = assembler->AddChunk(chunk); !status.ok()) {
      return status;
    }
  }
  if (const absl::Status status = assembler->AddSettled(published.settled); !status.ok()) {
    return status;
  }
  return assembler->AddCommit(published.commit).status();
}

TEST(DeltaAssemblerTest, GivesTheWholeRoundByRound) {
  DeltaAssembler assembler = Make(3);
  for (int64_t round = 3; round < 6; ++round) {
    const Published published = Publish(round);
    for (const v1::GlobalDeltaChunk& chunk : published.chunks) {
      ASSERT_EQ(assembler.AddChunk(chunk), absl::OkStatus());
    }
    ASSERT_EQ(assembler.AddSettled(published.settled), absl::OkStatus());
    const absl::StatusOr<GlobalDelta> delta = assembler.AddCommit(published.commit);
    ASSERT_EQ(delta.status(), absl::OkStatus());
    EXPECT_EQ(delta->payload, "0123456789abcde" + std::to_string(round));
    EXPECT_EQ(delta->commit.round(), round);
    EXPECT_EQ(delta->settled.settled(0).id().worker_id(), "east");
    EXPECT_EQ(assembler.next_round(), round + 1);
  }
}

struct Damage {
  const char* name;
  std::function<void(Published*)> apply;
  absl::StatusCode code = absl::StatusCode::kDataLoss;
};

class DamageTest : public testing::TestWithParam<Damage> {};

TEST_P(DamageTest, IsNoticedAndForgottenByRestart) {
  DeltaAssembler assembler = Make(3);
  Published published = Publish(3);
  GetParam().apply(&published);
  EXPECT_EQ(Feed(&assembler, published).code(), GetParam().code);
  assembler.Restart(3);
  EXPECT_EQ(Feed(&assembler, Publish(3)), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(
    Cases, DamageTest,
    testing::Values(
        Damage{"FlippedPayload", [](Published* p) { (*p->chunks[1].mutable_payload())[3] ^= 1; }},
        Damage{"FlippedChecksum", [](Published* p) { p->chunks[0].set_crc32c(p->chunks[0].crc32c() ^ 1); }},
        Damage{"MissingChunk", [](Published* p) { p->chunks.pop_back(); }},
        Damage{"SkippedChunk", [](Published* p) { p->chunks.erase(p->chunks.begin()); }},
        Damage{"RepeatedChunk", [](Published* p) { p->chunks[1] = p->chunks[0]; }},
        Damage{"TooLong",
               [](Published* p) {
                 v1::GlobalDeltaChunk more = p->chunks[1];
                 more.set_index(2);
                 p->chunks.push_back(more);
               }},
        Damage{"SwappedPayload",
               [](Published* p) {
                 std::string other = "8765432x";
                 p->chunks[1].set_payload(other);
                 p->chunks[1].set_crc32c(ComputeCrc32c(other).value);
               }},
        Damage{"OtherSettledList", [](Published* p) { p->settled.mutable_settled(0)->set_weight(2); }},
        Damage{"WrongChunkCount", [](Published* p) { p->commit.set_chunk_count(3); }},
        Damage{"OlderRound", [](Published* p) { *p = Publish(2); }},
        Damage{"NewerRound", [](Published* p) { *p = Publish(4); }},
        Damage{"OtherRun", [](Published* p) { p->chunks[0].set_run_id("walk"); }, absl::StatusCode::kInvalidArgument},
        Damage{"OtherFragment", [](Published* p) { p->chunks[0].set_fragment(0); }, absl::StatusCode::kInvalidArgument},
        Damage{"OtherCodec", [](Published* p) { p->commit.set_codec("bf16"); }, absl::StatusCode::kInvalidArgument},
        Damage{"OtherSize", [](Published* p) { p->commit.set_element_count(5); }, absl::StatusCode::kInvalidArgument}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(DeltaAssemblerTest, CommitWithoutSettledListIsNotWhole) {
  DeltaAssembler assembler = Make(3);
  const Published published = Publish(3);
  for (const v1::GlobalDeltaChunk& chunk : published.chunks) {
    ASSERT_EQ(assembler.AddChunk(chunk), absl::OkStatus());
  }
  EXPECT_EQ(assembler.AddCommit(published.commit).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace diloco
