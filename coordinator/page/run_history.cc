#include "coordinator/page/run_history.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/base/limits.h"

namespace diloco {
namespace {

// Losses in five digits: a curve shows no more.
std::string PointsJson(const std::vector<CurvePoint>& points) {
  return "[" +
         absl::StrJoin(points, ",",
                       [](std::string* out, const CurvePoint& point) {
                         absl::StrAppendFormat(out, "[%.0f,%.5g]", point.x, point.y);
                       }) +
         "]";
}

}  // namespace

void Curve::Add(double x, double y) {
  if (!std::isfinite(y) || (!bins_.empty() && x == bins_.back().x)) return;
  while (!bins_.empty() && bins_.back().x >= x) bins_.pop_back();
  if (bins_.empty() || bins_.back().samples >= samples_each_) {
    bins_.push_back({x, y, 1});
  } else {
    bins_.back() = {x, bins_.back().sum + y, bins_.back().samples + 1};
  }
  if (bins_.size() > kMaxCurvePoints) Thin();
}

void Curve::Thin() {
  samples_each_ *= 2;
  std::vector<Bin> half;
  for (size_t i = 0; i < bins_.size(); ++i) {
    if (i % 2 == 0) {
      half.push_back(bins_[i]);
    } else {
      half.back() = {bins_[i].x, half.back().sum + bins_[i].sum, half.back().samples + bins_[i].samples};
    }
  }
  bins_ = std::move(half);
}

std::vector<CurvePoint> Curve::Points() const {
  std::vector<CurvePoint> points;
  for (const Bin& bin : bins_) points.push_back({bin.x, bin.sum / static_cast<double>(bin.samples)});
  return points;
}

void RunHistory::AddProgress(const std::string& worker, const v1::WorkerProgress& progress) {
  if (progress.step() <= 0) return;
  MutexLock lock(&mutex_);
  if (workers_.size() >= kMaxWorkers && !workers_.contains(worker)) return;
  workers_[worker].Add(static_cast<double>(progress.step()), progress.loss());
}

void RunHistory::AddEvaluation(const v1::Evaluation& evaluation) {
  MutexLock lock(&mutex_);
  held_out_.Add(static_cast<double>(evaluation.version()), evaluation.loss());
}

void RunHistory::AddCommit(int fragment, int64_t round, MonotonicTime now) {
  if (fragment != 0) return;
  MutexLock lock(&mutex_);
  while (!commits_.empty() && commits_.back().round >= round) commits_.pop_back();
  commits_.push_back({round, now});
  if (commits_.size() > kMaxCommitTimes) commits_.pop_front();
}

std::string RunHistory::ToJson(MonotonicTime now) const {
  std::string commits;
  std::vector<CurvePoint> held_out;
  std::vector<std::pair<std::string, std::vector<CurvePoint>>> workers;
  {
    MutexLock lock(&mutex_);
    for (const Commit& commit : commits_) {
      absl::StrAppendFormat(&commits, "%s{\"round\":%d,\"seconds_ago\":%.3f}", commits.empty() ? "" : ",", commit.round,
                            absl::ToDoubleSeconds(now - commit.time));
    }
    held_out = held_out_.Points();
    for (const auto& [worker, curve] : workers_) workers.emplace_back(worker, curve.Points());
  }
  // Worker ids are names: nothing in them needs an escape.
  const std::string curves = absl::StrJoin(workers, ",", [](std::string* out, const auto& entry) {
    absl::StrAppendFormat(out, "{\"worker_id\":\"%s\",\"points\":%s}", entry.first, PointsJson(entry.second));
  });
  return absl::StrFormat("{\"commits\":[%s],\"held_out\":%s,\"workers\":[%s]}", commits, PointsJson(held_out), curves);
}

}  // namespace diloco
