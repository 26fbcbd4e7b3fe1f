#include "worker/trainer/batches.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace diloco {
namespace {

absl::StatusOr<TokenSource> OpenNotEmpty(const std::string& path) {
  DILOCO_ASSIGN_OR_RETURN(TokenSource source, TokenSource::Open(path));
  if (source.token_count() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("data `", path, "` is empty; name a file or folder with something in it"));
  }
  return source;
}

}  // namespace

absl::StatusOr<DataFiles> OpenDataFiles(const std::string& data, const std::string& held_out) {
  DILOCO_ASSIGN_OR_RETURN(TokenSource source, OpenNotEmpty(data));
  DataFiles files{.data = std::move(source), .held_out = std::nullopt};
  if (!held_out.empty()) {
    DILOCO_ASSIGN_OR_RETURN(files.held_out, OpenNotEmpty(held_out));
  }
  return files;
}

absl::StatusOr<Batches> Batches::Create(DataFiles files, const RunConfig& config, std::string worker_id) {
  DILOCO_CHECK(config.model.has_value());
  Batches batches(std::move(files), std::move(worker_id));
  batches.sequence_ = config.model->sequence;
  batches.vocabulary_ = config.model->vocabulary;
  batches.seed_ = config.run.seed;
  const bool own_file = batches.files_.held_out.has_value();
  const DataSplit split = SplitData(batches.files_.data.token_count(), own_file ? 0 : config.eval.held_out);
  batches.training_range_ = split.training;
  batches.held_out_range_ = own_file ? TokenRange{0, batches.files_.held_out->token_count()} : split.held_out;
  if (!batches.training_range_.Fits(batches.sequence_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data `", batches.files_.data.path(), "` has ", batches.training_range_.size(), " tokens to train on",
        own_file ? "" : absl::StrCat(" and ", batches.held_out_range_.size(), " held out"), ": a sequence of ",
        batches.sequence_, " needs at least ", batches.sequence_ + 1, "; use more data"));
  }
  if (own_file && !batches.held_out_range_.Fits(batches.sequence_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "held-out data `", batches.files_.held_out->path(), "` has ", batches.held_out_range_.size(),
        " tokens: a sequence of ", batches.sequence_, " needs at least ", batches.sequence_ + 1, "; use more data"));
  }
  DILOCO_RETURN_IF_ERROR(batches.files_.data.CheckTokens(batches.vocabulary_));
  if (own_file) {
    DILOCO_RETURN_IF_ERROR(batches.files_.held_out->CheckTokens(batches.vocabulary_));
  }
  batches.evaluation_starts_ = EvaluationWindows(batches.held_out_range_, batches.sequence_, config.eval.sequences);
  return batches;
}

absl::Status Batches::ReadTraining(int64_t step, int64_t first, absl::Span<uint16_t> out) const {
  DILOCO_CHECK(out.size() % window() == 0);
  for (int64_t index = first; !out.empty(); ++index, out.remove_prefix(window())) {
    const int64_t start = TrainingWindow(training_range_, sequence_, seed_, worker_id_, step, index);
    DILOCO_RETURN_IF_ERROR(files_.data.Read(start, vocabulary_, out.subspan(0, window())));
  }
  return absl::OkStatus();
}

absl::Status Batches::ReadEvaluation(int64_t first, absl::Span<uint16_t> out) const {
  DILOCO_CHECK(out.size() % window() == 0);
  for (auto index = static_cast<size_t>(first); !out.empty(); ++index, out.remove_prefix(window())) {
    DILOCO_RETURN_IF_ERROR(held_out().Read(evaluation_starts_.at(index), vocabulary_, out.subspan(0, window())));
  }
  return absl::OkStatus();
}

}  // namespace diloco
