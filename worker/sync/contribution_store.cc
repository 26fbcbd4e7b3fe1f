#include "worker/sync/contribution_store.h"

#include <algorithm>
#include <string_view>

#include "absl/types/span.h"

#include "common/base/check.h"

namespace diloco {

ContributionStore::Contribution& ContributionStore::Insert(int64_t round, int fragment, uint64_t element_count,
                                                           double weight) {
  const auto [item, added] = contributions_.try_emplace({round, fragment});
  DILOCO_CHECK(added);
  item->second.element_count = element_count;
  item->second.weight = weight;
  return item->second;
}

void ContributionStore::Seal(Contribution* contribution) const {
  const std::string_view encoded = contribution->encoded;
  contribution->digest = DigestOf(encoded);
  // An empty contribution is one chunk without payload.
  for (size_t begin = 0; begin < std::max<size_t>(1, encoded.size()); begin += options_.chunk_bytes) {
    contribution->chunk_crcs.push_back(ComputeCrc32c(encoded.substr(begin, options_.chunk_bytes)));
  }
}

const ContributionStore::Contribution& ContributionStore::Restore(int64_t round, int fragment, uint64_t element_count,
                                                                  std::string encoded, double weight) {
  DILOCO_CHECK(encoded.size() == options_.codec->encoded_bytes(element_count));
  Contribution& contribution = Insert(round, fragment, element_count, weight);
  contribution.encoded = std::move(encoded);
  Seal(&contribution);
  return contribution;
}

absl::Span<const float> ContributionStore::residual(int fragment) const {
  const auto feedback = feedback_.find(fragment);
  return feedback == feedback_.end() ? absl::Span<const float>() : feedback->second.residual();
}

void ContributionStore::RestoreResidual(int fragment, std::vector<float> residual) {
  DILOCO_CHECK(options_.error_feedback);
  feedback_.insert_or_assign(fragment, ErrorFeedback(std::move(residual)));
}

const ContributionStore::Contribution& ContributionStore::Add(int64_t round, int fragment,
                                                              absl::Span<const float> outer_gradient, double weight) {
  Contribution& contribution = Insert(round, fragment, outer_gradient.size(), weight);
  contribution.encoded.resize(options_.codec->encoded_bytes(outer_gradient.size()));
  const absl::Span<char> out = absl::MakeSpan(contribution.encoded);
  const Rounding rounding = options_.rounding.For(round, fragment);
  if (options_.error_feedback) {
    const auto feedback = feedback_.try_emplace(fragment, std::vector<float>(outer_gradient.size())).first;
    feedback->second.Encode(*options_.codec, rounding, outer_gradient, out);
  } else {
    options_.codec->encode(outer_gradient, rounding, out);
  }
  Seal(&contribution);
  return contribution;
}

void ContributionStore::Settle(int64_t round, int fragment, ContributionFate fate) {
  const auto held = contributions_.find({round, fragment});
  if (held == contributions_.end()) {
    return;
  }
  if (const auto feedback = feedback_.find(fragment); feedback != feedback_.end()) {
    switch (fate) {
      case ContributionFate::kMerged:
        break;
      case ContributionFate::kDropped:
        feedback->second.GiveBack(*options_.codec, held->second.encoded);
        break;
      case ContributionFate::kRefused:
        feedback->second.Clear();
        break;
    }
  }
  contributions_.erase(held);
}

std::vector<int64_t> ContributionStore::Rounds(int fragment) const {
  std::vector<int64_t> rounds;
  for (const auto& [key, contribution] : contributions_) {
    if (key.second == fragment) {
      rounds.push_back(key.first);
    }
  }
  return rounds;
}

v1::UploadRequest ContributionStore::Query(int64_t round, int fragment) const {
  const Contribution& contribution = contributions_.at({round, fragment});
  v1::UploadRequest request;
  request.set_run_id(options_.run_id);
  request.set_worker_id(options_.worker_id);
  request.set_incarnation(options_.incarnation);
  request.set_fragment(static_cast<uint32_t>(fragment));
  request.set_round(round);
  request.mutable_layout_digest()->set_value(options_.layout_digest.Bytes());
  request.set_codec(std::string(options_.codec->name));
  request.set_element_count(contribution.element_count);
  request.set_contribution_bytes(contribution.encoded.size());
  request.set_chunk_bytes(static_cast<uint32_t>(options_.chunk_bytes));
  request.mutable_contribution_digest()->set_value(contribution.digest.Bytes());
  request.set_weight(contribution.weight);
  return request;
}

v1::UploadRequest ContributionStore::Chunk(int64_t round, int fragment, uint32_t chunk) const {
  const Contribution& contribution = contributions_.at({round, fragment});
  v1::UploadRequest request = Query(round, fragment);
  request.set_chunk_index(chunk);
  request.set_payload(contribution.encoded.substr(chunk * options_.chunk_bytes, options_.chunk_bytes));
  request.set_crc32c(contribution.chunk_crcs.at(chunk).value);
  return request;
}

}  // namespace diloco
