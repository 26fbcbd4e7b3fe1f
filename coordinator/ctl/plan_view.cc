#include "coordinator/ctl/plan_view.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "coordinator/ctl/format.h"
#include "coordinator/ctl/rate.h"
#include "coordinator/ctl/table.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using Json = nlohmann::ordered_json;

double Gbps(double bytes_per_second) { return bytes_per_second * 8 / 1e9; }

// Three digits that count, without an exponent for what is large.
std::string GbpsText(double bytes_per_second) {
  const double gbps = Gbps(bytes_per_second);
  return gbps < 100 ? absl::StrFormat("%.3g", gbps) : absl::StrFormat("%.0f", gbps);
}

std::string BytesText(double bytes) { return HumanBytes(static_cast<uint64_t>(std::llround(bytes))); }

int Workers(const PlanNetwork& network) {
  int workers = 0;
  for (const StarLink& link : network.links) workers += link.workers;
  return workers;
}

std::string TargetText(double target) { return absl::StrFormat("%.0f%%", 100 * target); }

std::string SettingText(const PlanView& view) {
  std::vector<std::string> links;
  for (const StarLink& link : view.network.links) {
    links.push_back(absl::StrFormat("%d with %s up, %s down, %.4g ms one way", link.workers, RateText(link.up),
                                    RateText(link.down), 1e3 * link.latency_seconds));
  }
  return Fields({{"model", absl::StrFormat("%s: %.4g parameters, %d layers, %.4g s an inner step", view.model_name,
                                           static_cast<double>(view.model.parameters()), view.model.layers,
                                           view.model.step_seconds)},
                 {"workers", absl::StrJoin(links, "; ")},
                 {"coordinator", absl::StrFormat("ingress %s, egress %s, merges %s", RateText(view.network.ingress),
                                                 RateText(view.network.egress), RateText(view.network.merge_rate))}});
}

// What tells a row from others of the same method.
std::vector<Cell> Name(const MethodPlan& plan) {
  return {plan.method, absl::StrFormat("%d", plan.inner_steps), absl::StrFormat("%d", plan.overlap)};
}

std::string OutcomeTable(const PlanView& view) {
  Table table({{"METHOD"},
               {"H", Align::kRight},
               {"OVERLAP", Align::kRight},
               {"FRAGMENTS", Align::kRight},
               {"CODECS"},
               {"UTILIZATION (%)", Align::kRight},
               {"STALENESS (STEPS)", Align::kRight},
               {"(ROUNDS)", Align::kRight},
               {"UP/DAY", Align::kRight},
               {"DOWN/DAY", Align::kRight},
               {"EGRESS/DAY", Align::kRight},
               {"TIGHTEST"}});
  for (const MethodPlan& plan : view.methods) {
    std::vector<Cell> cells = Name(plan);
    const double downloaded = plan.download_bytes * plan.rounds_per_day;
    const std::vector<Cell> rest = {
        absl::StrFormat("%d", plan.run.fragments.size()),
        absl::StrFormat("%s/%s", plan.uplink->name, plan.downlink->name),
        absl::StrFormat("%.1f", 100 * plan.outcome.utilization),
        absl::StrFormat("%.4g", plan.outcome.staleness_steps),
        absl::StrFormat("%.2f", plan.outcome.staleness_steps / static_cast<double>(plan.inner_steps)),
        BytesText(plan.upload_bytes * plan.rounds_per_day),
        BytesText(downloaded),
        BytesText(Workers(view.network) * downloaded),
        std::string(plan.bound.bottleneck)};
    cells.insert(cells.end(), rest.begin(), rest.end());
    table.AddRow(cells);
  }
  return table.ToString();
}

std::string LinkTable(const PlanView& view) {
  std::vector<Table::Column> columns = {
      {"METHOD"}, {"H", Align::kRight}, {"OVERLAP", Align::kRight}, {"STEADY BOUND", Align::kRight}};
  for (const double target : kPlanTargets) columns.push_back({TargetText(target), Align::kRight});
  Table table(columns);
  for (const MethodPlan& plan : view.methods) {
    std::vector<Cell> cells = Name(plan);
    cells.emplace_back(GbpsText(plan.steady_link));
    for (const std::optional<double>& needed : plan.needed_link) cells.emplace_back(needed ? GbpsText(*needed) : "");
    table.AddRow(cells);
  }
  return table.ToString();
}

Json RateJson(double bytes_per_second) {
  return std::isfinite(bytes_per_second) ? Json(Gbps(bytes_per_second)) : Json(nullptr);
}

Json MethodJson(const MethodPlan& plan, int workers) {
  Json needed = Json::array();
  for (size_t t = 0; t < kPlanTargets.size(); ++t) {
    needed.push_back({{"utilization", kPlanTargets[t]},
                      {"gbps", plan.needed_link[t] ? RateJson(*plan.needed_link[t]) : Json(nullptr)}});
  }
  const double up = plan.upload_bytes * plan.rounds_per_day;
  const double down = plan.download_bytes * plan.rounds_per_day;
  return {{"method", plan.method},
          {"inner_steps", plan.inner_steps},
          {"overlap", plan.overlap},
          {"max_late", plan.max_late},
          {"fragments", plan.run.fragments.size()},
          {"uplink", plan.uplink->name},
          {"downlink", plan.downlink->name},
          {"utilization", plan.outcome.utilization},
          {"staleness_steps", plan.outcome.staleness_steps},
          {"staleness_rounds", plan.outcome.staleness_steps / static_cast<double>(plan.inner_steps)},
          {"bound_utilization", plan.bound.utilization},
          {"bottleneck", plan.bound.bottleneck},
          {"worker_upload_bytes_per_day", up},
          {"worker_download_bytes_per_day", down},
          {"coordinator_ingress_bytes_per_day", workers * up},
          {"coordinator_egress_bytes_per_day", workers * down},
          {"steady_bound_gbps", Gbps(plan.steady_link)},
          {"needed", needed}};
}

}  // namespace

std::string PlanText(const PlanView& view) {
  return absl::StrFormat(
      "%s\nOver these links (a day's bytes of one worker, and of the coordinator's egress):\n%s\nGbit/s, each way, "
      "that "
      "every worker's link needs to keep up at all (steady bound) and for a utilization of:\n%s",
      SettingText(view), OutcomeTable(view), LinkTable(view));
}

std::string PlanJson(const PlanView& view) {
  Json links = Json::array();
  for (const StarLink& link : view.network.links) {
    links.push_back({{"workers", link.workers},
                     {"up_gbps", RateJson(link.up)},
                     {"down_gbps", RateJson(link.down)},
                     {"latency_seconds", link.latency_seconds}});
  }
  Json methods = Json::array();
  for (const MethodPlan& plan : view.methods) methods.push_back(MethodJson(plan, Workers(view.network)));
  const Json json = {{"model",
                      {{"name", view.model_name},
                       {"parameters", view.model.parameters()},
                       {"layers", view.model.layers},
                       {"step_seconds", view.model.step_seconds}}},
                     {"network",
                      {{"links", links},
                       {"ingress_gbps", RateJson(view.network.ingress)},
                       {"egress_gbps", RateJson(view.network.egress)},
                       {"merge_gbps", RateJson(view.network.merge_rate)}}},
                     {"methods", methods}};
  return json.dump(2) + "\n";
}

}  // namespace diloco
