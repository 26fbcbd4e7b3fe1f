// Probes: what they answer, and that nobody can hold or overrun one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/coordinator/service/service_fixture.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(60);

class ProbeTest : public ServiceTest {
 protected:
  struct Probe {
    std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
    std::unique_ptr<grpc::ClientReaderWriter<v1::ProbeRequest, v1::ProbeResponse>> stream;
  };
  static Probe Open(WireWorker& worker) {
    Probe probe;
    SetDeadline(probe.context.get());
    probe.stream = worker.stub().Probe(probe.context.get());
    return probe;
  }
  static v1::ProbeRequest Request(size_t payload, uint32_t answer) {
    v1::ProbeRequest request;
    request.set_payload(std::string(payload, 'p'));
    request.set_answer_bytes(answer);
    return request;
  }
  static bool Exchange(const Probe& probe, const v1::ProbeRequest& request, v1::ProbeResponse* response) {
    return probe.stream->Write(request) && probe.stream->Read(response);
  }
};

TEST_F(ProbeTest, AnswersEachRequestWithAsManyBytesAsItAsksFor) {
  Start();
  WireWorker worker = Worker();
  const Probe probe = Open(worker);
  v1::ProbeResponse response;
  for (const uint32_t bytes : {0U, 1U, 1000U, static_cast<uint32_t>(kMaxChunkBytes)}) {
    ASSERT_TRUE(Exchange(probe, Request(kMaxChunkBytes - bytes, bytes), &response));
    EXPECT_EQ(response.payload().size(), bytes);
    EXPECT_EQ(response.run_id(), "r1");
    EXPECT_EQ(response.identity(), "");
  }
  probe.stream->WritesDone();
  EXPECT_FALSE(probe.stream->Read(&response));
  EXPECT_TRUE(probe.stream->Finish().ok());
}

TEST_F(ProbeTest, OneIsOpenAtATime) {
  Start();
  WireWorker worker = Worker();
  const Probe first = Open(worker);
  v1::ProbeResponse response;
  ASSERT_TRUE(Exchange(first, Request(1, 1), &response));
  const grpc::Status second = Open(worker).stream->Finish();
  EXPECT_EQ(second.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(second.error_message(), "another probe is under way; try again in a few seconds");
  ASSERT_TRUE(Exchange(first, Request(1, 1), &response)) << "it does not disturb the first";
  first.stream->WritesDone();
  ASSERT_TRUE(first.stream->Finish().ok());
  const Probe third = Open(worker);
  EXPECT_TRUE(Exchange(third, Request(1, 1), &response)) << "the place is free as soon as the caller is answered";
  third.context->TryCancel();
}

TEST_F(ProbeTest, EndsInTimeWhateverItsCallerDoes) {
  probe_time_ = absl::Milliseconds(50);
  Start();
  WireWorker worker = Worker();
  const grpc::Status status = Open(worker).stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "a probe ends after 50ms");
}

TEST_F(ProbeTest, EndsAfterSoManyBytesBothWays) {
  Start();
  WireWorker worker = Worker();
  const Probe probe = Open(worker);
  const v1::ProbeRequest request = Request(kMaxChunkBytes, kMaxChunkBytes);
  v1::ProbeResponse response;
  uint64_t bytes = 0;
  while (Exchange(probe, request, &response)) bytes += request.payload().size() + response.payload().size();
  EXPECT_EQ(bytes, kMaxProbeBytes);
  const grpc::Status status = probe.stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "a probe ends after 4294967296 bytes");
}

TEST_F(ProbeTest, ACallerThatIsGoneFreesThePlace) {
  Start();
  WireWorker worker = Worker();
  const Probe gone = Open(worker);
  v1::ProbeResponse response;
  ASSERT_TRUE(Exchange(gone, Request(1, 1), &response));
  gone.context->TryCancel();
  // The coordinator learns of it a moment later.
  const MonotonicTime give_up = clock_.Now() + kPatience;
  bool free = false;
  while (!free && clock_.Now() < give_up) free = Exchange(Open(worker), Request(1, 1), &response);
  EXPECT_TRUE(free);
}

TEST_F(ProbeTest, RefusesAnotherRunAndWhatIsTooLarge) {
  Start();
  WireWorker worker = Worker();
  v1::ProbeRequest other = Request(1, 1);
  other.set_run_id("r2");
  v1::ProbeResponse response;
  {
    const Probe probe = Open(worker);
    EXPECT_FALSE(Exchange(probe, other, &response));
    const grpc::Status status = probe.stream->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_THAT(status.error_message(), HasSubstr("run \"r2\" is not here"));
  }
  const Probe probe = Open(worker);
  EXPECT_FALSE(Exchange(probe, Request(1, kMaxChunkBytes + 1), &response));
  EXPECT_EQ(probe.stream->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace diloco
