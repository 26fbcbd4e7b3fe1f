#include "worker/client/upload_machine.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/limits.h"

namespace diloco {
namespace {

// The backoff of one of several parties that share a seed.
Backoff::Options ForParty(Backoff::Options options, uint64_t party) {
  options.seed ^= (party + 1) * 0x9e3779b97f4a7c15;
  return options;
}

// Room for one chunk, or for a tenth of a second when that is more.
int64_t BucketCapacity(int64_t bytes_per_second) {
  return std::max(static_cast<int64_t>(kMaxChunkBytes), bytes_per_second / 10);
}

}  // namespace

UploadMachine::UploadMachine(const Options& options)
    : options_(options), bucket_(options.bytes_per_second, BucketCapacity(options.bytes_per_second)) {
  for (int i = 0; i < options.streams; ++i) {
    streams_.emplace_back(ForParty(options.backoff, static_cast<uint64_t>(i)));
  }
}

std::vector<UploadEffect> UploadMachine::Step(const UploadEvent& event, MonotonicTime now) {
  now_ = now;
  next_wake_.reset();
  effects_.clear();
  std::visit([this](const auto& e) { Handle(e); }, event);
  CheckTime();
  Pump();
  return std::exchange(effects_, {});
}

size_t UploadMachine::contributions_pending() const {
  return static_cast<size_t>(std::count_if(uploads_.begin(), uploads_.end(), [](const auto& item) {
    return item.second.state != UploadState::kStored && item.second.state != UploadState::kAnswered;
  }));
}

size_t UploadMachine::chunks_in_flight() const {
  size_t count = 0;
  for (const Stream& stream : streams_) {
    count += stream.in_flight.size();
  }
  return count;
}

void UploadMachine::Handle(const ContributionOffered& event) {
  DILOCO_CHECK(event.chunk_bytes > 0);
  Upload upload(ForParty(options_.backoff,
                         static_cast<uint64_t>(event.round) * kMaxFragments + static_cast<uint64_t>(event.fragment)));
  upload.offered_at = now_;
  upload.bytes = event.bytes;
  upload.chunk_bytes = event.chunk_bytes;
  // An empty contribution is one chunk without payload.
  upload.chunks.resize(std::max<uint64_t>(1, (event.bytes + event.chunk_bytes - 1) / event.chunk_bytes));
  DILOCO_CHECK(uploads_.emplace(Key(event.round, event.fragment), std::move(upload)).second);
}

void UploadMachine::Handle(const ContributionSettled& event) {
  const Key key(event.round, event.fragment);
  ForgetInFlight(key);
  uploads_.erase(key);
}

void UploadMachine::Handle(const AverageArrived& event) {
  for (auto& [key, upload] : uploads_) {
    if (key.second == event.fragment && upload.state == UploadState::kPostponed) {
      upload.retry_at = now_;
    }
  }
}

UploadMachine::Stream* UploadMachine::Current(int stream, uint64_t call) {
  Stream* found = &streams_.at(static_cast<size_t>(stream));
  return found->open && found->call == call ? found : nullptr;
}

void UploadMachine::Handle(const UploadWritten& event) {
  if (Stream* stream = Current(event.stream, event.call)) {
    stream->writing = false;
    stream->heard_at = now_;
  }
}

void UploadMachine::Handle(const UploadClosed& event) {
  if (Stream* stream = Current(event.stream, event.call)) {
    Break(stream);
  }
}

// What was in flight may be lost, and what was stored, refused or dropped may be forgotten by a coordinator that was
// killed, which then waits for it: ask about each.
void UploadMachine::Break(Stream* stream) {
  for (const InFlight& sent : stream->in_flight) {
    Requeue(&uploads_.at(sent.key), sent.chunk);
  }
  stream->in_flight.clear();
  stream->open = false;
  stream->writing = false;
  stream->retry_at = now_ + stream->backoff.Next();
  for (auto& [key, upload] : uploads_) {
    if (upload.state != UploadState::kPostponed) {
      upload.state = UploadState::kQuerying;
      AskAbout(&upload, kAnyStream);
    }
  }
}

void UploadMachine::Requeue(Upload* upload, uint32_t chunk) const {
  if (upload->chunks[chunk] == ChunkState::kInFlight) {
    upload->chunks[chunk] = ChunkState::kUnsent;
  }
}

void UploadMachine::ForgetInFlight(const Key& key) {
  const auto upload = uploads_.find(key);
  for (Stream& stream : streams_) {
    std::erase_if(stream.in_flight, [&](const InFlight& sent) {
      if (sent.key != key) {
        return false;
      }
      Requeue(&upload->second, sent.chunk);
      return true;
    });
  }
}

void UploadMachine::Handle(const UploadAnswered& event) {
  Stream* stream = Current(event.stream, event.call);
  if (stream == nullptr) {
    return;
  }
  stream->heard_at = now_;
  stream->backoff.Reset();
  if (!std::exchange(stream->heard, true)) {
    reconnects_ += std::exchange(stream->ever_heard, true) ? 1 : 0;
  }
  const Key key(event.round, event.fragment);
  const auto found = uploads_.find(key);
  if (found == uploads_.end()) {
    return;
  }
  Upload* upload = &found->second;
  switch (event.verdict) {
    case UploadVerdict::kWanted:
      AnswerWanted(key, event, upload);
      return;
    case UploadVerdict::kStored:
      ForgetInFlight(key);
      upload->state = UploadState::kStored;
      if (upload->offered_at) {
        ++uploads_done_;
        upload_time_ += now_ - *std::exchange(upload->offered_at, std::nullopt);
      }
      break;
    case UploadVerdict::kSettled:
    case UploadVerdict::kRefused:
      ForgetInFlight(key);
      upload->state = UploadState::kAnswered;
      break;
    case UploadVerdict::kTooEarly:
    case UploadVerdict::kBusy:
      // Answers to the other chunks of a postponed contribution bring the same verdict and change nothing.
      ForgetInFlight(key);
      if (upload->state != UploadState::kPostponed) {
        upload->state = UploadState::kPostponed;
        upload->retry_at = now_ + upload->backoff.Next();
      }
      break;
  }
  upload->query_due = false;
}

void UploadMachine::AnswerWanted(const Key& key, const UploadAnswered& event, Upload* upload) {
  if (upload->state != UploadState::kSending && upload->state != UploadState::kQuerying) {
    return;  // An answer that a verdict has overtaken on another stream.
  }
  std::vector<bool> held(upload->chunks.size());
  for (const ChunkSpan& span : event.held) {
    for (size_t i = span.first; i < std::min<size_t>(span.end, held.size()); ++i) {
      held[i] = true;
    }
  }
  const bool news = TakeHeld(held, upload);
  const bool lost = Lacks(held, *upload);
  const bool queried = upload->state == UploadState::kQuerying;
  if (queried && !upload->query_due) {
    upload->state = UploadState::kSending;
  }
  bool waiting = false;
  for (int i = 0; i < options_.streams; ++i) {
    const bool here = i == event.stream;
    const bool left = DropSeen(key, held, here && !news, &streams_[static_cast<size_t>(i)], upload);
    waiting = waiting || (here && left);
  }
  if (lost) {
    // A coordinator that lost this worker for a while has dropped what was not whole. Or the answer is an older one.
    upload->state = UploadState::kQuerying;
    AskAbout(upload, kAnyStream);
  } else if (!news && !queried && waiting) {
    AskAbout(upload, event.stream);  // A chunk may have been damaged.
  }
}

// True when a chunk was held that is not any more.
bool UploadMachine::Lacks(const std::vector<bool>& held, const Upload& upload) {
  for (size_t i = 0; i < held.size(); ++i) {
    if (!held[i] && upload.chunks[i] == ChunkState::kHeld) return true;
  }
  return false;
}

// Takes over what the coordinator holds; true if any of it was not known. After a query it is the whole truth: what was
// held before a crash of the coordinator may be gone.
bool UploadMachine::TakeHeld(const std::vector<bool>& held, Upload* upload) {
  const bool told = upload->state == UploadState::kQuerying && !upload->query_due;
  bool news = false;
  for (size_t i = 0; i < held.size(); ++i) {
    ChunkState& chunk = upload->chunks[i];
    if (held[i]) {
      news = news || chunk != ChunkState::kHeld;
      chunk = ChunkState::kHeld;
    } else if (told && chunk == ChunkState::kHeld) {
      chunk = ChunkState::kUnsent;
    }
  }
  return news;
}

// Removes the contribution's chunks that the coordinator has looked at from what is in flight on a stream: all sent
// before one that is held, and with `queried_too` all that a query followed. Those that are not held are sent again.
// Returns whether any of the contribution's chunks stay in flight on the stream.
bool UploadMachine::DropSeen(const Key& key, const std::vector<bool>& held, bool queried_too, Stream* stream,
                             Upload* upload) {
  size_t seen = 0;
  for (size_t i = 0; i < stream->in_flight.size(); ++i) {
    const InFlight& sent = stream->in_flight[i];
    if (sent.key == key && held[sent.chunk]) {
      stream->quiet_since = now_;
    }
    if (sent.key == key && (held[sent.chunk] || (queried_too && sent.queried))) {
      seen = i + 1;
    }
  }
  size_t position = 0;
  bool left = false;
  std::erase_if(stream->in_flight, [&](const InFlight& sent) {
    const bool drop = position++ < seen && sent.key == key;
    if (drop) {
      Requeue(upload, sent.chunk);
    }
    left = left || (sent.key == key && !drop);
    return drop;
  });
  return left;
}

void UploadMachine::AskAbout(Upload* upload, int stream) {
  upload->query_due = true;
  upload->query_stream = stream;
}

void UploadMachine::CheckTime() {
  for (auto& [key, upload] : uploads_) {
    if (upload.state == UploadState::kPostponed) {
      if (now_ >= upload.retry_at) {
        upload.state = UploadState::kQuerying;
        AskAbout(&upload, kAnyStream);
      } else {
        WakeAt(upload.retry_at);
      }
    }
  }
  for (int i = 0; i < options_.streams; ++i) {
    CheckStream(i);
  }
}

void UploadMachine::CheckStream(int index) {
  Stream& stream = streams_[static_cast<size_t>(index)];
  if (!stream.open) {
    if (now_ < stream.retry_at) {
      WakeAt(stream.retry_at);
      return;
    }
    stream.open = true;
    stream.heard = false;
    stream.call = ++last_call_;
    stream.heard_at = now_;
    stream.quiet_since = now_;
    effects_.push_back(OpenUpload{index, stream.call});
    return;
  }
  const bool waiting = std::any_of(uploads_.begin(), uploads_.end(), [](const auto& item) {
    return item.second.state == UploadState::kQuerying && !item.second.query_due;
  });
  if (stream.in_flight.empty() && !waiting && !stream.writing) {
    stream.heard_at = now_;
    stream.quiet_since = now_;
    return;
  }
  if (now_ - stream.heard_at >= options_.dead_limit) {
    effects_.push_back(CancelUpload{index, stream.call});
    Break(&stream);
    WakeAt(stream.retry_at);
    return;
  }
  WakeAt(stream.heard_at + options_.dead_limit);
  if (now_ - stream.quiet_since >= options_.quiet_limit) {
    stream.quiet_since = now_;
    for (const InFlight& sent : stream.in_flight) {
      if (Upload* upload = &uploads_.at(sent.key); upload->state == UploadState::kSending) {
        AskAbout(upload, index);
      }
    }
  }
  WakeAt(stream.quiet_since + options_.quiet_limit);
}

void UploadMachine::Pump() {
  for (int i = 0; i < options_.streams; ++i) {
    Stream& stream = streams_[static_cast<size_t>(i)];
    if (stream.open && !stream.writing) {
      stream.writing = SendOne(i);
    }
  }
}

bool UploadMachine::SendOne(int index) {
  Stream& stream = streams_[static_cast<size_t>(index)];
  if (SendDueQuery(index)) {
    return true;
  }
  if (stream.in_flight.size() >= options_.window_chunks) {
    return false;
  }
  for (auto& [key, upload] : uploads_) {
    const auto unsent = std::find(upload.chunks.begin(), upload.chunks.end(), ChunkState::kUnsent);
    if (upload.state != UploadState::kSending || unsent == upload.chunks.end()) {
      continue;
    }
    const MonotonicTime ready = bucket_.ReadyAt(now_);
    if (ready > now_) {
      WakeAt(ready);
      return false;
    }
    const uint32_t chunk = static_cast<uint32_t>(unsent - upload.chunks.begin());
    bucket_.Take(BytesOf(upload, chunk), now_);
    if (stream.in_flight.empty()) {
      stream.quiet_since = now_;
    }
    *unsent = ChunkState::kInFlight;
    stream.in_flight.push_back({key, chunk});
    effects_.push_back(SendChunk{index, key.first, key.second, chunk});
    return true;
  }
  return false;
}

bool UploadMachine::SendDueQuery(int index) {
  for (auto& [key, upload] : uploads_) {
    if (!upload.query_due || (upload.query_stream != kAnyStream && upload.query_stream != index)) {
      continue;
    }
    upload.query_due = false;
    for (InFlight& sent : streams_[static_cast<size_t>(index)].in_flight) {
      sent.queried = sent.queried || sent.key == key;
    }
    effects_.push_back(SendQuery{index, key.first, key.second});
    return true;
  }
  return false;
}

uint64_t UploadMachine::BytesOf(const Upload& upload, uint32_t chunk) const {
  return std::min<uint64_t>(upload.chunk_bytes, upload.bytes - uint64_t{chunk} * upload.chunk_bytes);
}

void UploadMachine::WakeAt(MonotonicTime time) { next_wake_ = next_wake_ ? std::min(*next_wake_, time) : time; }

}  // namespace diloco
