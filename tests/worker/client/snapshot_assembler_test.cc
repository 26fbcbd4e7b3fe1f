#include "worker/client/snapshot_assembler.h"

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/crc32c.h"
#include "common/outer/step_scalars_proto.h"

namespace diloco {
namespace {

using testing::ElementsAre;
constexpr StepScalars kScalars{.rate = 0.5f, .momentum = 0.25f, .participating_weight = 3};
using Items = std::vector<v1::FetchSnapshotResponse>;

class SnapshotAssemblerTest : public testing::Test {
 protected:
  // Two fragments of 2 and 1 elements; parameters, then Nesterov's one state array, fragment by fragment.
  const Layout layout_ =
      Layout::Cut({{.name = "a", .shape = {2}, .layer = 0}, {.name = "b", .shape = {1}, .layer = 1}}, {.count = 2})
          .value();
  const OuterOptimizer* const nesterov_ = FindOuterOptimizer("nesterov");

  Items Make() const {
    const std::vector<float> all = {1, 2, 10, 20, 3, 30};
    std::string bytes(all.size() * sizeof(float), '\0');
    std::memcpy(bytes.data(), all.data(), bytes.size());
    Items items(1);
    v1::SnapshotHeader* header = items[0].mutable_header();
    header->set_run_id("run");
    header->set_version(7);
    header->mutable_layout_digest()->set_value(layout_.digest().Bytes());
    header->set_total_bytes(bytes.size());
    header->add_consensus_digests()->set_value(DigestOf(bytes.substr(0, 16)).Bytes());
    header->add_consensus_digests()->set_value(DigestOf(bytes.substr(16)).Bytes());
    header->add_settled_rounds(6);
    header->add_settled_rounds(-1);
    *header->mutable_scalars() = StepScalarsToProto(kScalars);
    for (size_t offset = 0; offset < bytes.size(); offset += 10) {
      v1::SnapshotChunk* chunk = items.emplace_back().mutable_chunk();
      chunk->set_run_id("run");
      chunk->set_offset(offset);
      chunk->set_payload(bytes.substr(offset, 10));
      chunk->set_crc32c(ComputeCrc32c(chunk->payload()).value);
    }
    return items;
  }

  absl::StatusOr<Snapshot> Feed(const Items& items) const {
    SnapshotAssembler assembler("run", &layout_, nesterov_);
    for (const v1::FetchSnapshotResponse& item : items) {
      if (const absl::Status status = assembler.Add(item); !status.ok()) {
        return status;
      }
    }
    return assembler.Finish();
  }
};

TEST_F(SnapshotAssemblerTest, GivesTheConsensusOfEachFragment) {
  const absl::StatusOr<Snapshot> snapshot = Feed(Make());
  ASSERT_EQ(snapshot.status(), absl::OkStatus());
  EXPECT_EQ(snapshot->version, 7);
  ASSERT_EQ(snapshot->fragments.size(), 2u);
  EXPECT_EQ(snapshot->fragments[0].version(), 7);
  EXPECT_THAT(snapshot->fragments[0].parameters(), ElementsAre(1, 2));
  EXPECT_THAT(snapshot->fragments[0].state()[0], ElementsAre(10, 20));
  EXPECT_THAT(snapshot->fragments[1].parameters(), ElementsAre(3));
  EXPECT_THAT(snapshot->fragments[1].state()[0], ElementsAre(30));
  EXPECT_THAT(snapshot->settled_rounds, ElementsAre(6, -1));
  EXPECT_EQ(snapshot->scalars, kScalars);
}

TEST_F(SnapshotAssemblerTest, VersionZeroHasNoScalars) {
  Items items = Make();
  items[0].mutable_header()->clear_scalars();
  EXPECT_EQ(Feed(items)->scalars, std::nullopt);
}

TEST_F(SnapshotAssemblerTest, DamageIsDataLoss) {
  const std::vector<std::function<void(Items*)>> damages = {
      [](Items* items) { items->clear(); },
      [](Items* items) { items->pop_back(); },
      [](Items* items) { items->erase(items->begin()); },
      [](Items* items) { items->erase(items->begin() + 1); },
      [](Items* items) { items->push_back(items->back()); },
      [](Items* items) { items->push_back(items->front()); },
      [](Items* items) { (*(*items)[2].mutable_chunk()->mutable_payload())[0] ^= 1; },
      [](Items* items) { (*items)[2].mutable_chunk()->set_crc32c(0); },
      [](Items* items) { (*items)[0].mutable_header()->mutable_consensus_digests(1)->set_value(std::string(16, 'x')); },
  };
  for (size_t i = 0; i < damages.size(); ++i) {
    Items items = Make();
    damages[i](&items);
    EXPECT_EQ(Feed(items).status().code(), absl::StatusCode::kDataLoss) << "damage " << i;
  }
}

TEST_F(SnapshotAssemblerTest, AnotherRunOrLayoutIsInvalid) {
  const std::vector<std::function<void(v1::SnapshotHeader*)>> changes = {
      [](v1::SnapshotHeader* header) { header->set_run_id("walk"); },
      [](v1::SnapshotHeader* header) { header->mutable_layout_digest()->clear_value(); },
      [](v1::SnapshotHeader* header) { header->set_total_bytes(20); },
      [](v1::SnapshotHeader* header) { header->add_consensus_digests(); },
      [](v1::SnapshotHeader* header) { header->clear_settled_rounds(); },
      [](v1::SnapshotHeader* header) { header->set_version(-1); },
      [](v1::SnapshotHeader* header) { header->mutable_scalars()->set_rate(-1); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Items items = Make();
    changes[i](items[0].mutable_header());
    EXPECT_EQ(Feed(items).status().code(), absl::StatusCode::kInvalidArgument) << "change " << i;
  }
}

}  // namespace
}  // namespace diloco
