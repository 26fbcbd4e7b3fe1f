#include "tests/sim/shims.h"

#include "common/base/check.h"
#include "common/base/digest.h"
#include "diloco/v1/worker.pb.h"

namespace diloco::sim {

std::string SettledLie::Tell(Shim shim, std::string_view message) {
  if (shim != Shim::kSettledListDrops && shim != Shim::kSettledListAdds) return std::string(message);
  v1::SubscribeResponse item;
  DILOCO_CHECK(item.ParseFromArray(message.data(), static_cast<int>(message.size())));
  if (item.has_settled()) {
    v1::SettledList* list = item.mutable_settled();
    if (list->settled_size() > 0 && shim == Shim::kSettledListDrops) {
      list->mutable_settled()->RemoveLast();
    } else if (list->settled_size() > 0) {
      v1::SettledContribution* added = list->add_settled();
      *added = list->settled(list->settled_size() - 2);
      added->mutable_id()->set_round(added->id().round() + 1);
    }
    digest_ = DigestOf(list->SerializeAsString()).Bytes();
    merged_count_ = 0;
    for (const v1::SettledContribution& line : list->settled()) {
      merged_count_ += line.settlement() == v1::SETTLEMENT_MERGED ? 1 : 0;
    }
  } else if (item.has_commit()) {
    item.mutable_commit()->mutable_settled_digest()->set_value(digest_);
    item.mutable_commit()->set_merged_count(merged_count_);
  }
  return item.SerializeAsString();
}

}  // namespace diloco::sim
