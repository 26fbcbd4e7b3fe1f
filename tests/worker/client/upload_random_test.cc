// Contributions through a network that loses, damages, delays and breaks, to a coordinator that dies: each gets through
// and is settled exactly once, and what is in flight stays bounded.
#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/client/upload_machine.h"

namespace diloco {
namespace {

using Key = std::pair<int64_t, int>;  // Round, fragment.

struct Request {
  Key key;
  bool query = false;
  uint32_t chunk = 0;
};

class Simulation {
 public:
  explicit Simulation(uint64_t seed) : random_(seed) {
    options_.streams = 1 + Draw(3);
    options_.window_chunks = 1 + static_cast<size_t>(Draw(5));
    options_.quiet_limit = absl::Seconds(5);
    options_.dead_limit = absl::Seconds(20);
    options_.bytes_per_second = Draw(3) == 0 ? 1 << 20 : 0;
    options_.backoff = {.first = absl::Milliseconds(100), .longest = absl::Seconds(2), .seed = seed};
    machine_.emplace(options_);
    lines_.resize(static_cast<size_t>(options_.streams));
  }

  void Run() {
    for (int i = 0; i < 600; ++i) {
      Move(true);
    }
    while (settled_.size() < offered_.size() || next_round_ < 5) {
      ASSERT_LT(++calm_moves_, 200'000) << "no progress without faults";
      Move(false);
    }
    // Everything the coordinator settled it had whole, once: Settle checks it.
    EXPECT_EQ(settled_.size(), offered_.size());
    EXPECT_EQ(machine_->contributions_pending(), 0u);
    EXPECT_EQ(machine_->chunks_in_flight(), 0u);
  }

 private:
  struct Line {
    bool open = false;
    uint64_t call = 0;
    bool writing = false;
    std::deque<Request> up;
    std::deque<UploadAnswered> down;
  };

  int Draw(int below) { return static_cast<int>(random_() % static_cast<uint64_t>(below)); }

  void Step(const UploadEvent& event) {
    for (const UploadEffect& effect : machine_->Step(event, now_)) {
      if (const auto* open = std::get_if<OpenUpload>(&effect)) {
        Line& line = lines_[static_cast<size_t>(open->stream)];
        ASSERT_FALSE(line.open);
        line = {.open = true, .call = open->call};
      } else if (const auto* cancel = std::get_if<CancelUpload>(&effect)) {
        lines_[static_cast<size_t>(cancel->stream)] = {};
      } else if (const auto* chunk = std::get_if<SendChunk>(&effect)) {
        Send(chunk->stream, {{chunk->round, chunk->fragment}, false, chunk->chunk});
      } else {
        const auto& query = std::get<SendQuery>(effect);
        Send(query.stream, {{query.round, query.fragment}, true, 0});
      }
    }
    ASSERT_LE(machine_->chunks_in_flight(), options_.window_chunks * static_cast<size_t>(options_.streams));
  }

  void Send(int stream, const Request& request) {
    Line& line = lines_[static_cast<size_t>(stream)];
    ASSERT_TRUE(line.open);
    ASSERT_FALSE(line.writing) << "one write at a time";
    ASSERT_EQ(settled_.count(request.key), 0u);
    line.writing = true;
    line.up.push_back(request);
  }

  void Move(bool faults) {
    const int stream = Draw(options_.streams);
    Line& line = lines_[static_cast<size_t>(stream)];
    switch (Draw(faults ? 12 : 7)) {
      case 0:
        if (next_round_ < 5) {
          Offer();
        }
        break;
      case 1:
        if (line.writing) {
          line.writing = false;
          Step(UploadWritten{stream, line.call});
        }
        break;
      case 2:
      case 3:
        Serve(&line, stream, faults);
        break;
      case 4:
        if (!line.down.empty()) {
          const UploadAnswered answer = line.down.front();
          line.down.pop_front();
          Step(answer);
        }
        break;
      case 5:
        now_ = std::max(now_, machine_->next_wake().value_or(now_));
        Step(UploadTimePassed{});
        break;
      case 6:
        SettleOne();
        break;
      case 7:
        now_ = now_ + absl::Milliseconds(Draw(3000));
        Step(UploadTimePassed{});
        break;
      case 8:
        Break(stream);
        break;
      case 9:
        if (Draw(10) == 0) {  // The coordinator dies: all connections and all that is not settled.
          held_.clear();
          for (int s = 0; s < options_.streams; ++s) {
            Break(s);
          }
        }
        break;
      case 10:
        Step(AverageArrived{Draw(2)});
        break;
      default:
        break;
    }
  }

  void Offer() {
    for (int fragment = 0; fragment < 2; ++fragment) {
      const uint64_t bytes = static_cast<uint64_t>(Draw(100)) * 1000;
      offered_[{next_round_, fragment}] = std::max<uint32_t>(1, static_cast<uint32_t>((bytes + 9999) / 10000));
      Step(ContributionOffered{next_round_, fragment, bytes, 10000});
    }
    ++next_round_;
  }

  void Break(int stream) {
    Line& line = lines_[static_cast<size_t>(stream)];
    if (line.open) {
      const uint64_t call = line.call;
      line = {};
      Step(UploadClosed{stream, call});
    }
  }

  // The coordinator deals with one request.
  void Serve(Line* line, int stream, bool faults) {
    if (line->up.empty() || (line->writing && line->up.size() == 1)) {
      return;
    }
    const Request request = line->up.front();
    line->up.pop_front();
    UploadAnswered answer{
        .stream = stream, .call = line->call, .round = request.key.first, .fragment = request.key.second};
    std::set<uint32_t>& held = held_[request.key];
    if (settled_.count(request.key) > 0) {
      answer.verdict = UploadVerdict::kSettled;
    } else if (faults && Draw(8) == 0) {
      answer.verdict = Draw(2) == 0 ? UploadVerdict::kBusy : UploadVerdict::kTooEarly;
    } else {
      if (!request.query) {
        ASSERT_LT(request.chunk, offered_.at(request.key));
        if (!faults || Draw(5) != 0) {
          held.insert(request.chunk);
        } else if (Draw(2) == 0) {
          return;  // Damaged, and not even answered.
        }
      }
      for (const uint32_t chunk : held) {
        answer.held.push_back({chunk, chunk + 1});
      }
      if (held.size() == offered_.at(request.key)) {
        answer.held.clear();
        answer.verdict = UploadVerdict::kStored;
      }
    }
    line->down.push_back(answer);
  }

  // A global delta settles one of the contributions that are whole.
  void SettleOne() {
    for (const auto& [key, held] : held_) {
      if (settled_.count(key) == 0 && held.size() == offered_.at(key)) {
        ASSERT_TRUE(settled_.insert(key).second);
        Step(ContributionSettled{key.first, key.second});
        return;
      }
    }
  }

  std::mt19937_64 random_;
  UploadMachine::Options options_;
  std::optional<UploadMachine> machine_;
  MonotonicTime now_{1};
  std::vector<Line> lines_;
  std::map<Key, uint32_t> offered_;  // Chunks.
  std::map<Key, std::set<uint32_t>> held_;
  std::set<Key> settled_;
  int64_t next_round_ = 0;
  int calm_moves_ = 0;
};

TEST(UploadRandomTest, EveryContributionGetsThroughWhateverHappens) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation(seed).Run();
    if (testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace diloco
