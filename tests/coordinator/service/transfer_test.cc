// Bulk: seeds, contributions, global deltas, snapshots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/coordinator/service/service_fixture.h"

namespace diloco {
namespace {

using ::testing::HasSubstr;

class TransferTest : public ServiceTest {
 protected:
  // What a subscriber from round 0 on is sent, up to the first commit.
  std::vector<v1::SubscribeResponse> FirstGlobalDelta(WireWorker& worker) {
    auto request = worker.Signed<v1::SubscribeRequest>();
    request.add_next_rounds(0);
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto reader = worker.stub().Subscribe(&context, request);
    std::vector<v1::SubscribeResponse> messages;
    do {
      messages.emplace_back();
      if (!reader->Read(&messages.back())) {
        ADD_FAILURE() << "the stream ended before a commit";
        break;
      }
    } while (!messages.back().has_commit());
    context.TryCancel();
    return messages;
  }
};

TEST_F(TransferTest, ADamagedChunkIsNotAcknowledgedAndCountsWhenItComesAgain) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  const std::vector<v1::UploadRequest> chunks = worker.Contribution(0, Ramp());
  ASSERT_EQ(chunks.size(), 3);
  v1::UploadRequest damaged = chunks[1];
  (*damaged.mutable_payload())[77] ^= 1;

  WireWorker::Upload upload = worker.OpenUpload();
  v1::UploadResponse response;
  ASSERT_TRUE(upload.stream->Write(chunks[0]));
  ASSERT_TRUE(upload.stream->Write(damaged));
  ASSERT_TRUE(upload.stream->Write(chunks[2]));
  ASSERT_TRUE(upload.stream->Read(&response));
  ASSERT_EQ(response.held_size(), 1);
  ASSERT_TRUE(upload.stream->Read(&response));
  // The second answer is the third chunk's, and what lies between is missing.
  ASSERT_EQ(response.held_size(), 2);
  EXPECT_EQ(response.held(0).first(), 0);
  EXPECT_EQ(response.held(0).end(), 1);
  EXPECT_EQ(response.held(1).first(), 2);
  EXPECT_EQ(response.held(1).end(), 3);
  EXPECT_EQ(metrics_.chunks_corrupt.Value(), 1);

  ASSERT_TRUE(upload.stream->Write(chunks[1]));
  ASSERT_TRUE(upload.stream->Read(&response));
  EXPECT_EQ(response.verdict(), v1::CONTRIBUTION_VERDICT_STORED) << response.reason();
  upload.stream->WritesDone();
  EXPECT_FALSE(upload.stream->Read(&response));
  EXPECT_TRUE(upload.stream->Finish().ok());
}

TEST_F(TransferTest, TheAverageOfOneContributionIsThatContribution) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(std::vector<float>(kElements, 1.0f));
  worker.Contribute(0, Ramp());
  const std::vector<v1::SubscribeResponse> messages = FirstGlobalDelta(worker);
  ASSERT_EQ(messages.size(), 5);  // Three chunks, the settled list, the commit.
  std::string bytes;
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(messages[i].has_chunk());
    EXPECT_EQ(messages[i].chunk().index(), i);
    EXPECT_EQ(messages[i].chunk().crc32c(), ComputeCrc32c(messages[i].chunk().payload()).value);
    bytes += messages[i].chunk().payload();
  }
  EXPECT_TRUE(bytes == FloatBytes(Ramp()));
  ASSERT_EQ(messages[3].settled().settled_size(), 1);
  EXPECT_EQ(messages[3].settled().settled(0).settlement(), v1::SETTLEMENT_MERGED);
  EXPECT_EQ(messages[4].commit().merged_count(), 1);
}

TEST_F(TransferTest, NoAnswerIsLostWhenTheSenderReadsThemLate) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  const v1::UploadRequest chunk = worker.Contribution(0, Ramp())[0];
  constexpr int kTimes = 5 * kMaxUploadsInFlight;
  WireWorker::Upload upload = worker.OpenUpload();
  // More than may be in flight and small, so that all fit into the connection: asks which chunks are held.
  v1::UploadRequest query = chunk;
  query.clear_payload();
  query.clear_crc32c();
  for (int i = 0; i < kTimes; ++i) ASSERT_TRUE(upload.stream->Write(query));
  upload.stream->WritesDone();
  v1::UploadResponse response;
  int answers = 0;
  while (upload.stream->Read(&response)) ++answers;
  EXPECT_EQ(answers, kTimes);
  EXPECT_TRUE(upload.stream->Finish().ok());
}

TEST_F(TransferTest, AnUploadOfAnotherRunOrIncarnationEndsTheStream) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  v1::UploadRequest other_run = worker.Contribution(0, Ramp())[0];
  other_run.set_run_id("r2");
  v1::UploadRequest other_incarnation = worker.Contribution(0, Ramp())[0];
  other_incarnation.set_incarnation(8);
  v1::UploadRequest too_large = worker.Contribution(0, Ramp())[0];
  too_large.mutable_payload()->push_back('x');
  const std::vector<std::pair<v1::UploadRequest, grpc::StatusCode>> cases = {
      {other_run, grpc::StatusCode::NOT_FOUND},
      {other_incarnation, grpc::StatusCode::ABORTED},
      {too_large, grpc::StatusCode::INVALID_ARGUMENT}};
  for (const auto& [request, code] : cases) {
    WireWorker::Upload upload = worker.OpenUpload();
    upload.stream->Write(request);
    v1::UploadResponse response;
    EXPECT_FALSE(upload.stream->Read(&response));
    EXPECT_EQ(upload.stream->Finish().error_code(), code);
  }
}

TEST_F(TransferTest, AContributionOfAnotherLayoutIsRefusedAndTheStreamGoesOn) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  v1::UploadRequest chunk = worker.Contribution(0, Ramp())[0];
  chunk.mutable_layout_digest()->set_value(std::string(16, 'x'));
  WireWorker::Upload upload = worker.OpenUpload();
  ASSERT_TRUE(upload.stream->Write(chunk));
  v1::UploadResponse response;
  ASSERT_TRUE(upload.stream->Read(&response));
  EXPECT_EQ(response.verdict(), v1::CONTRIBUTION_VERDICT_REFUSED);
  EXPECT_FALSE(response.reason().empty());
  upload.stream->WritesDone();
  EXPECT_TRUE(upload.stream->Finish().ok());
}

TEST_F(TransferTest, ASubscriptionFromBeyondTheRunIsOutOfRange) {
  Start();
  WireWorker worker = Worker();
  worker.JoinAndSeed(Ramp());
  auto request = worker.Signed<v1::SubscribeRequest>();
  request.add_next_rounds(1000);
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto reader = worker.stub().Subscribe(&context, request);
  v1::SubscribeResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::OUT_OF_RANGE);
}

TEST_F(TransferTest, TheSnapshotHoldsTheSeedByteForByte) {
  Start();
  WireWorker worker = Worker();
  ASSERT_TRUE(worker.Join().ok());
  v1::FetchSnapshotResponse response;
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    const auto reader = worker.stub().FetchSnapshot(&context, worker.Signed<v1::FetchSnapshotRequest>());
    EXPECT_FALSE(reader->Read(&response));
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  }
  const std::string parameters = FloatBytes(Ramp());
  ASSERT_TRUE(worker.Seed(worker.SeedMessages(parameters)).ok());
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto reader = worker.stub().FetchSnapshot(&context, worker.Signed<v1::FetchSnapshotRequest>());
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.header().version(), 0);
  EXPECT_EQ(response.header().total_bytes(), parameters.size());
  std::string bytes;
  while (reader->Read(&response)) {
    EXPECT_EQ(response.chunk().offset(), bytes.size());
    EXPECT_EQ(response.chunk().crc32c(), ComputeCrc32c(response.chunk().payload()).value);
    bytes += response.chunk().payload();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(bytes == parameters);
}

// A snapshot is a file of its own: while joiners read it, and more of them than there are threads that read files,
// nobody waits, however many snapshots replace that one meanwhile.
TEST_F(TransferTest, JoinersThatDoNotReadTheirSnapshotsHoldNoRound) {
  config_ = std::string(kConfig) + "rounds: {snapshot_every: 1}\n";
  // More than the windows of a connection take in.
  constexpr int64_t kLarge = 4'000'000;
  constexpr int kRounds = 3;
  Start();
  WireWorker worker = Worker("east", kLarge);
  const std::vector<float> parameters = Ramp(kLarge);
  worker.JoinAndSeed(parameters);
  struct Joiner {
    explicit Joiner(const std::string& address) : worker(address, "r1", "east", kLarge) {
      SetDeadline(&context);
      snapshot = worker.stub().FetchSnapshot(&context, worker.Signed<v1::FetchSnapshotRequest>());
    }
    WireWorker worker;
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::FetchSnapshotResponse>> snapshot;
  };
  std::vector<std::unique_ptr<Joiner>> joiners;
  v1::FetchSnapshotResponse response;
  for (int i = 0; i <= kSnapshotReaders; ++i) {
    joiners.push_back(std::make_unique<Joiner>(address()));
    ASSERT_TRUE(joiners.back()->snapshot->Read(&response));
    ASSERT_EQ(response.header().version(), 0);
  }

  auto request = worker.Signed<v1::SubscribeRequest>();
  request.add_next_rounds(0);
  grpc::ClientContext subscription;
  SetDeadline(&subscription);
  const auto published = worker.stub().Subscribe(&subscription, request);
  for (int round = 0; round < kRounds; ++round) {
    worker.Contribute(round, std::vector<float>(kLarge, 1.0F));
    v1::SubscribeResponse message;
    do {
      ASSERT_TRUE(published->Read(&message)) << "round " << round << " waits for joiners";
    } while (!message.has_commit());
  }

  for (const auto& joiner : joiners) {
    std::string bytes;
    while (joiner->snapshot->Read(&response)) bytes += response.chunk().payload();
    const grpc::Status status = joiner->snapshot->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_TRUE(bytes == FloatBytes(parameters)) << "of the version that its header names";
  }
}

// The deadline is on progress, not on the whole: a large model over a thin link takes as long as it takes.
TEST_F(TransferTest, ATransferThatMovesOnMayTakeManyTimesTheProgressDeadline) {
  constexpr auto kDeadline = std::chrono::milliseconds(300);
  Start(absl::FromChrono(kDeadline));
  WireWorker worker = Worker("east", 64);
  ASSERT_TRUE(worker.Join().ok());
  const std::vector<v1::SeedRequest> pieces = worker.SeedMessages(FloatBytes(Ramp(64)), 8);
  ASSERT_EQ(pieces.size(), 32);
  absl::Status status;
  do {  // A busy machine may be late for a piece.
    const auto begin = std::chrono::steady_clock::now();
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::SeedResponse response;
    const auto writer = worker.stub().Seed(&context, &response);
    for (size_t i = 0; i < pieces.size(); ++i) {
      // An even pace, of four deadlines in all.
      std::this_thread::sleep_until(begin + 4 * kDeadline * i / pieces.size());
      if (!writer->Write(pieces[i])) break;
    }
    writer->WritesDone();
    status = FromGrpcStatus(writer->Finish());
  } while (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status));
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(TransferTest, ASeedThatIsDamagedOutOfOrderOrShortIsRefusedAndMayComeAgain) {
  Start();
  WireWorker worker = Worker();
  ASSERT_TRUE(worker.Join().ok());
  const std::vector<v1::SeedRequest> good = worker.SeedMessages(FloatBytes(Ramp()));
  ASSERT_EQ(good.size(), 3);
  std::vector<v1::SeedRequest> damaged = good;
  (*damaged[1].mutable_payload())[0] ^= 1;
  std::vector<v1::SeedRequest> swapped = {good[0], good[2], good[1]};
  std::vector<v1::SeedRequest> more = good;
  more[2].mutable_payload()->push_back('x');
  more[2].set_crc32c(ComputeCrc32c(more[2].payload()).value);
  std::vector<v1::SeedRequest> changed = good;
  changed[1].set_total_bytes(changed[1].total_bytes() + 4);
  std::vector<v1::SeedRequest> vast = good;
  vast[0].set_total_bytes(kMaxSeedBytes + 1);

  EXPECT_EQ(worker.Seed(damaged).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(worker.Seed(swapped).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(worker.Seed({good[0], good[1]}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(worker.Seed(more).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(worker.Seed(changed).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(worker.Seed(vast).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(worker.Seed({}).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status status = worker.Seed(good);
  EXPECT_TRUE(status.ok()) << status;
  const absl::Status again = worker.Seed(good);
  EXPECT_TRUE(again.ok()) << again << "; the same bytes again are harmless";
}

TEST_F(TransferTest, ASeederThatStallsGivesWayToTheNext) {
  Start(/*progress_deadline=*/absl::Milliseconds(250));
  WireWorker worker = Worker();
  ASSERT_TRUE(worker.Join().ok());
  const std::vector<v1::SeedRequest> messages = worker.SeedMessages(FloatBytes(Ramp()));
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::SeedResponse response;
  const auto stalled = worker.stub().Seed(&context, &response);
  ASSERT_TRUE(stalled->Write(messages[0]));
  // It never ends its side: Finish returns because the service gave it up.
  EXPECT_FALSE(stalled->Finish().ok());
  absl::Status status;
  do {
    status = worker.Seed(messages);  // A busy machine may miss this deadline too.
  } while (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status));
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace diloco
