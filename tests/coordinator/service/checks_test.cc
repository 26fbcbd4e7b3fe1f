// What a request may hold: each bound, at it and one above it.
#include "coordinator/service/checks.h"

#include <gtest/gtest.h>

#include <string>

#include "common/base/limits.h"

namespace diloco {
namespace {

template <typename Request>
Request Signed() {
  Request request;
  request.set_run_id("r1");
  request.set_worker_id("east");
  request.set_incarnation(7);
  return request;
}

template <typename Request>
void ExpectRefused(const Request& request, const std::string& sentence) {
  const absl::Status status = CheckForm(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()), sentence);
}

TEST(ChecksTest, NamesAreShort) {
  auto request = Signed<v1::FetchSnapshotRequest>();
  request.set_worker_id(std::string(kMaxNameBytes, 'w'));
  EXPECT_TRUE(CheckForm(request).ok());
  request.set_worker_id(std::string(kMaxNameBytes + 1, 'w'));
  ExpectRefused(request, "worker id \"" + std::string(kMaxNameBytes, 'w') +
                             "\": use 1 to 64 of [A-Za-z0-9._-], starting with a letter or digit");
}

TEST(ChecksTest, AJoinIsBounded) {
  auto request = Signed<v1::JoinRequest>();
  request.set_software_version(std::string(kMaxNameBytes, 'v'));
  for (int i = 0; i < kMaxTensors; ++i) request.add_tensors();
  request.mutable_tensors(0)->set_name(std::string(kMaxTensorNameBytes, 't'));
  EXPECT_TRUE(CheckForm(request).ok());
  request.mutable_tensors(0)->set_name(std::string(kMaxTensorNameBytes + 1, 't'));
  ExpectRefused(request, "name of a tensor, in bytes, is 257; the limit is 256");
  request.add_tensors();
  ExpectRefused(request, "number of tensors is 65537; the limit is 65536");
  request.set_software_version(std::string(kMaxNameBytes + 1, 'v'));
  ExpectRefused(request, "software version, in bytes, is 65; the limit is 64");
}

TEST(ChecksTest, AHeartbeatIsBounded) {
  auto request = Signed<v1::SessionRequest>();
  for (int i = 0; i < kMaxEvaluationsPerHeartbeat; ++i) request.add_evaluations()->set_worker_id("east");
  for (int i = 0; i < kMaxFragments; ++i) request.add_abstentions();
  request.mutable_abstentions(0)->set_fragment(kMaxFragments - 1);
  request.mutable_abstentions(0)->set_reason(std::string(kMaxReasonBytes, 'r'));
  EXPECT_TRUE(CheckForm(request).ok());
  request.mutable_abstentions(0)->set_reason(std::string(kMaxReasonBytes + 1, 'r'));
  ExpectRefused(request, "reason of an abstention, in bytes, is 257; the limit is 256");
  request.mutable_abstentions(0)->set_fragment(kMaxFragments);
  ExpectRefused(request, "fragment is 1024; the limit is 1023");
  request.add_abstentions();
  ExpectRefused(request, "number of abstentions is 1025; the limit is 1024");
  request.add_evaluations()->set_worker_id("east");
  ExpectRefused(request, "number of evaluations is 17; the limit is 16");
}

TEST(ChecksTest, AChunkIsBounded) {
  auto request = Signed<v1::UploadRequest>();
  request.set_codec(std::string(kMaxNameBytes, 'c'));
  request.set_payload(std::string(kMaxChunkBytes, 'p'));
  EXPECT_TRUE(CheckForm(request).ok());
  request.set_codec(std::string(kMaxNameBytes + 1, 'c'));
  ExpectRefused(request, "name of the codec, in bytes, is 65; the limit is 64");
  request.mutable_payload()->push_back('p');
  ExpectRefused(request, "payload, in bytes, is 1048577; the limit is 1048576");
  request.set_round(-1);
  ExpectRefused(request, "round is -1; rounds count from 0");
  request.set_fragment(kMaxFragments);
  ExpectRefused(request, "fragment is 1024; the limit is 1023");
}

TEST(ChecksTest, ASubscriptionIsBounded) {
  auto request = Signed<v1::SubscribeRequest>();
  for (int i = 0; i < kMaxFragments; ++i) request.add_next_rounds(0);
  EXPECT_TRUE(CheckForm(request).ok());
  request.add_next_rounds(0);
  ExpectRefused(request, "number of next_rounds is 1025; the limit is 1024");
}

TEST(ChecksTest, AProbeIsBounded) {
  v1::ProbeRequest request;  // It may leave the run open.
  request.set_answer_bytes(kMaxChunkBytes);
  request.set_payload(std::string(kMaxChunkBytes, 'p'));
  EXPECT_TRUE(CheckForm(request).ok());
  request.mutable_payload()->push_back('p');
  ExpectRefused(request, "payload, in bytes, is 1048577; the limit is 1048576");
  request.set_answer_bytes(kMaxChunkBytes + 1);
  ExpectRefused(request, "answer_bytes is 1048577; the limit is 1048576");
  request.set_run_id("../up");
  ExpectRefused(request, "run id \"../up\": use 1 to 64 of [A-Za-z0-9._-], starting with a letter or digit");
}

TEST(ChecksTest, ASeedIsBounded) {
  auto request = Signed<v1::SeedRequest>();
  request.set_total_bytes(kMaxSeedBytes);
  request.set_payload(std::string(kMaxChunkBytes, 'p'));
  EXPECT_TRUE(CheckForm(request).ok());
  request.mutable_payload()->push_back('p');
  ExpectRefused(request, "payload, in bytes, is 1048577; the limit is 1048576");
  request.set_total_bytes(kMaxSeedBytes + 1);
  ExpectRefused(request, "total_bytes is 68719476737; the limit is 68719476736");
  request.mutable_layout_digest()->set_value(std::string(17, 'd'));
  ExpectRefused(request, "layout_digest has 17 bytes; a digest has 16");
}

TEST(ChecksTest, SettingsAreBounded) {
  v1::SetConfigRequest request;
  ExpectRefused(request, "no setting is given; give KEY=VALUE");
  for (int i = 0; i < kMaxSettingsPerChange; ++i) {
    request.add_settings()->set_key(std::string(kMaxNameBytes, 'k'));
  }
  EXPECT_TRUE(CheckForm(request).ok());
  request.mutable_settings(0)->set_value(std::string(kMaxNameBytes + 1, 'v'));
  ExpectRefused(request, "value of a setting, in bytes, is 65; the limit is 64");
  request.mutable_settings(0)->mutable_key()->push_back('k');
  ExpectRefused(request, "name of a setting, in bytes, is 65; the limit is 64");
  request.add_settings();
  ExpectRefused(request, "number of settings is 33; the limit is 32");
  request.set_run_id("../run");
  EXPECT_FALSE(CheckForm(request).ok());
}

}  // namespace
}  // namespace diloco
