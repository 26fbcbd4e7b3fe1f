// `dilococtl plan`: what a run would take, before there is one. It asks no coordinator.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "common/base/atomic_file.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/plan_paper_view.h"
#include "coordinator/ctl/plan_plot.h"
#include "coordinator/ctl/plan_view.h"
#include "coordinator/ctl/rate.h"
#include "coordinator/plan/presets.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

// As given on the command line; "" and 0 where nothing was.
struct PlanFlags {
  bool paper = false;
  std::string preset;
  int layers = 0;
  double parameters = 0;
  double step_seconds = 0;
  std::vector<std::string> up;
  std::vector<std::string> down;
  std::vector<std::string> latency;
  std::string ingress = "unlimited";
  std::string egress = "unlimited";
  std::string merge_rate = "unlimited";
  int workers = 0;
  std::vector<std::string> methods;
  std::vector<int64_t> inner_steps;
  int64_t overlap_steps = 1;
  int overlap_rounds = 1;
  int max_late = 1;
  int fragments = 8;
  int layers_each = 3;
  std::string uplink;
  std::string downlink;
  std::string plot;
};

constexpr char kExamples[] =
    R"(dilococtl plan --preset 1B --up 400Mbit --down 1Gbit --latency 40ms
dilococtl plan --preset 4B --step-seconds 0.5 --workers 8 --egress 10Gbit --inner-steps 30 --inner-steps 100
dilococtl plan --layers 80 --parameters 70e9 --step-seconds 4 --method eager --uplink int4 --downlink int4
dilococtl plan --preset 1B --up 1Gbit --up 200Mbit --down 1Gbit    two workers with links of their own
dilococtl plan --preset 1B --plot utilization.svg                  also as a plot, for any rate of the links
dilococtl plan --paper                                             the papers' tables beside our own figures)";

// From the most that waits for the network to the least.
constexpr const char* kDefaultMethods[] = {"data-parallel", "diloco", "streaming", "delayed", "eager"};

constexpr double kMaxStepSeconds = 1e6;
constexpr absl::Duration kMaxLatency = absl::Seconds(60);
constexpr size_t kMaxPlans = 256;

// CLI11's own range takes NaN.
CLI::Validator NumberIn(double low, double high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && value >= low && value <= high) return std::string();
        return absl::StrFormat("Value %s not in range %g to %g", text, low, high);
      },
      absl::StrFormat("in [%g - %g]", low, high));
}

absl::StatusOr<PlanModel> ModelOf(const PlanFlags& flags) {
  PlanModel model;
  if (!flags.preset.empty()) {
    DILOCO_ASSIGN_OR_RETURN(const Preset preset, FindPreset(flags.preset));
    model = preset.model;
  } else if (flags.layers == 0 || flags.parameters == 0) {
    return absl::InvalidArgumentError("no model: give --preset, or --layers, --parameters and --step-seconds");
  }
  if (flags.layers > 0 || flags.parameters > 0) {
    const int layers = flags.layers > 0 ? flags.layers : model.layers;
    const double parameters = flags.parameters > 0 ? flags.parameters : static_cast<double>(model.parameters());
    model = {
        .layers = layers, .layer_parameters = std::llround(parameters / layers), .step_seconds = model.step_seconds};
  }
  if (model.layer_parameters < 1) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%g parameters in %d layers: use at least one a layer", flags.parameters, model.layers));
  }
  if (flags.step_seconds > 0) model.step_seconds = flags.step_seconds;
  if (model.step_seconds == 0) {
    return absl::InvalidArgumentError(
        "no paper states how long an inner step of this model takes; give --step-seconds, as measured on your "
        "hardware");
  }
  return model;
}

absl::StatusOr<absl::Duration> ParseLatency(const std::string& text) {
  absl::Duration latency;
  if (absl::ParseDuration(text, &latency) && latency >= absl::ZeroDuration() && latency <= kMaxLatency) return latency;
  return absl::InvalidArgumentError(absl::StrFormat("--latency %s: use a duration such as 40ms, 0s to 60s", text));
}

// The value for worker `m`; `fallback` where the flag was not given.
const std::string& ValueFor(const std::vector<std::string>& values, int m, const std::string& fallback) {
  if (values.empty()) return fallback;
  return values[values.size() == 1 ? 0 : static_cast<size_t>(m)];
}

// Workers as --workers says, or one for each link that was given.
absl::StatusOr<int> WorkersOf(const PlanFlags& flags) {
  const size_t links = std::max({flags.up.size(), flags.down.size(), flags.latency.size()});
  const size_t workers = flags.workers > 0 ? static_cast<size_t>(flags.workers) : std::max<size_t>(links, 2);
  if (workers > static_cast<size_t>(kMaxWorkers)) {
    return absl::InvalidArgumentError(absl::StrFormat("%d workers: use at most %d", workers, kMaxWorkers));
  }
  for (const auto& [flag, given] : {std::pair("--up", flags.up.size()), std::pair("--down", flags.down.size()),
                                    std::pair("--latency", flags.latency.size())}) {
    if (given > 1 && given != workers) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s is given %d times for %d workers: give it once, or once a worker", flag, given, workers));
    }
  }
  return static_cast<int>(workers);
}

absl::StatusOr<PlanNetwork> NetworkOf(const PlanFlags& flags) {
  DILOCO_ASSIGN_OR_RETURN(const int workers, WorkersOf(flags));
  PlanNetwork network;
  for (int m = 0; m < workers; ++m) {
    StarLink link;
    DILOCO_ASSIGN_OR_RETURN(link.up, ParseRate("--up", ValueFor(flags.up, m, "1Gbit")));
    DILOCO_ASSIGN_OR_RETURN(link.down, ParseRate("--down", ValueFor(flags.down, m, "1Gbit")));
    DILOCO_ASSIGN_OR_RETURN(const absl::Duration latency, ParseLatency(ValueFor(flags.latency, m, "0s")));
    link.latency_seconds = absl::ToDoubleSeconds(latency);
    network.links.push_back(link);
  }
  network.links = GroupAlike(network.links);
  DILOCO_ASSIGN_OR_RETURN(network.ingress, ParseRate("--ingress", flags.ingress));
  DILOCO_ASSIGN_OR_RETURN(network.egress, ParseRate("--egress", flags.egress));
  DILOCO_ASSIGN_OR_RETURN(network.merge_rate, ParseRate("--merge-rate", flags.merge_rate));
  return network;
}

absl::StatusOr<const Codec*> CodecOf(const std::string& flag, const std::string& name) {
  if (name.empty()) return nullptr;
  if (const Codec* codec = FindCodec(name); codec != nullptr) return codec;
  std::vector<std::string> names;
  for (const Codec& codec : Codecs()) names.emplace_back(codec.name);
  return absl::InvalidArgumentError(absl::StrFormat("%s %s: use one of %s", flag, name, absl::StrJoin(names, ", ")));
}

// A plan for each method and H; `data-parallel`, which has no H, once.
absl::StatusOr<std::vector<MethodPlan>> PlansOf(const PlanFlags& flags, const PlanModel& model,
                                                const PlanNetwork& network) {
  PlanChoice choice{.overlap_steps = flags.overlap_steps,
                    .overlap_rounds = flags.overlap_rounds,
                    .max_late = flags.max_late,
                    .fragments = flags.fragments,
                    .layers_each = flags.layers_each};
  DILOCO_ASSIGN_OR_RETURN(choice.uplink, CodecOf("--uplink", flags.uplink));
  DILOCO_ASSIGN_OR_RETURN(choice.downlink, CodecOf("--downlink", flags.downlink));
  std::vector<std::string> methods = flags.methods;
  if (methods.empty()) methods.assign(std::begin(kDefaultMethods), std::end(kDefaultMethods));
  const std::vector<int64_t> inner_steps = flags.inner_steps.empty() ? std::vector<int64_t>{30} : flags.inner_steps;
  if (methods.size() * inner_steps.size() > kMaxPlans) {
    return absl::InvalidArgumentError(absl::StrFormat("%d methods times %d values of H: use at most %d", methods.size(),
                                                      inner_steps.size(), kMaxPlans));
  }
  std::vector<MethodPlan> plans;
  for (const std::string& method : methods) {
    for (const int64_t steps : inner_steps) {
      choice.method = method;
      choice.inner_steps = steps;
      DILOCO_ASSIGN_OR_RETURN(MethodPlan plan, PlanFor(model, network, choice));
      const bool again =
          !plans.empty() && plans.back().method == method && plans.back().inner_steps == plan.inner_steps;
      if (!again) plans.push_back(std::move(plan));
    }
  }
  return plans;
}

absl::Status WritePlot(const std::string& path, const PlanView& view) {
  if (view.methods.size() > kMaxPlotSeries) {
    return absl::InvalidArgumentError(absl::StrFormat("--plot with %d lines: use at most %d methods and values of H",
                                                      view.methods.size(), kMaxPlotSeries));
  }
  DILOCO_ASSIGN_OR_RETURN(const std::unique_ptr<AtomicFile> file, AtomicFile::Create(path));
  DILOCO_RETURN_IF_ERROR(file->Write(PlotSvg(UtilizationPlot(view))));
  return file->Commit();
}

void AddModelOptions(CLI::App& plan, PlanFlags& flags) {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) names.emplace_back(preset.name);
  plan.add_option("--preset", flags.preset, "Model of the papers: " + absl::StrJoin(names, ", "));
  plan.add_option("--layers", flags.layers, "Layers")->check(CLI::Range(1, kMaxPlanLayers));
  plan.add_option("--parameters", flags.parameters, "Parameters, such as 70e9")->check(NumberIn(1, kMaxElements));
  plan.add_option("--step-seconds", flags.step_seconds, "Seconds that an inner step computes")
      ->check(NumberIn(1e-6, kMaxStepSeconds));
}

void AddNetworkOptions(CLI::App& plan, PlanFlags& flags) {
  plan.add_option("--workers", flags.workers, "Workers; default: one for each link given, at least 2")
      ->check(CLI::Range(1, kMaxWorkers));
  plan.add_option("--up", flags.up, "Rate of a worker's uplink, once for all or once a worker; default 1Gbit")
      ->allow_extra_args(false);
  plan.add_option("--down", flags.down, "Likewise of its downlink")->allow_extra_args(false);
  plan.add_option("--latency", flags.latency, "Likewise the latency one way; default 0s")->allow_extra_args(false);
  plan.add_option("--ingress", flags.ingress, "Rate of the coordinator's ingress")->capture_default_str();
  plan.add_option("--egress", flags.egress, "Of its egress, which carries a download for each worker")
      ->capture_default_str();
  plan.add_option("--merge-rate", flags.merge_rate,
                  "Float32 bytes of all contributions that it averages in a second; a core does 10GB")
      ->capture_default_str();
}

void AddMethodOptions(CLI::App& plan, PlanFlags& flags) {
  plan.add_option("--method", flags.methods,
                  "Once for each of " + absl::StrJoin(PlanMethodNames(), ", ") +
                      "; default: " + absl::StrJoin(kDefaultMethods, ", "))
      ->allow_extra_args(false);
  plan.add_option("--inner-steps", flags.inner_steps, "H, once for each value; default 30")
      ->check(CLI::Range(1, 1'000'000))
      ->allow_extra_args(false);
  plan.add_option("--overlap", flags.overlap_steps, "Inner steps that `streaming` overlaps")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  plan.add_option("--overlap-rounds", flags.overlap_rounds, "Rounds that `eager` and `delayed` overlap")
      ->check(CLI::Range(1, kMaxOverlapRounds))
      ->capture_default_str();
  plan.add_option("--max-late", flags.max_late, "Rounds that `eager` goes on without a late average")
      ->check(CLI::Range(0, kMaxLate))
      ->capture_default_str();
  plan.add_option("--fragments", flags.fragments, "Fragments of methods that send all at once")
      ->check(CLI::Range(1, kMaxFragments))
      ->capture_default_str();
  plan.add_option("--layers-each", flags.layers_each, "Layers of a fragment of `streaming`, strided")
      ->check(CLI::Range(1, kMaxPlanLayers))
      ->capture_default_str();
  plan.add_option("--uplink", flags.uplink, "Codec of contributions; default bf16 for data-parallel, else e3m0");
  plan.add_option("--downlink", flags.downlink, "Codec of averages; default bf16 for data-parallel, else int8");
}

absl::StatusOr<ExitCode> Run(const PlanFlags& flags, OutputFormat format, const CtlIo& io) {
  if (flags.paper) {
    io.out(format == OutputFormat::kJson ? PaperPlanJson() : PaperPlanText());
    return ExitCode::kOk;
  }
  DILOCO_ASSIGN_OR_RETURN(const PlanModel model, ModelOf(flags));
  DILOCO_ASSIGN_OR_RETURN(const PlanNetwork network, NetworkOf(flags));
  DILOCO_ASSIGN_OR_RETURN(const std::vector<MethodPlan> plans, PlansOf(flags, model, network));
  // With layers or parameters of its own it is not the preset any more.
  const bool is_preset = !flags.preset.empty() && flags.layers == 0 && flags.parameters == 0;
  const PlanView view{
      .model_name = is_preset ? flags.preset : "model", .model = model, .network = network, .methods = plans};
  if (!flags.plot.empty()) DILOCO_RETURN_IF_ERROR(WritePlot(flags.plot, view));
  io.out(format == OutputFormat::kJson ? PlanJson(view) : PlanText(view));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<PlanFlags>();
  app.add_flag("--paper", flags->paper, "The papers' tables beside our own figures; stands alone");
  AddModelOptions(app, *flags);
  AddNetworkOptions(app, *flags);
  AddMethodOptions(app, *flags);
  app.add_option("--plot", flags->plot, "SVG of utilization against the rate of the workers' links")
      ->type_name("FILE")
      ->check([](const std::string& path) { return path.empty() ? "needs the name of a file" : std::string(); },
              "FILE");
  app.callback([&app, flags] {
    // The command itself counts too.
    if (flags->paper && app.count_all() > 2) {
      throw CLI::ValidationError("--paper", "stands alone, leave out the other options of plan");
    }
  });
  return [flags](OutputFormat format, const CtlIo& io) { return Run(*flags, format, io); };
}

}  // namespace

Command PlanCommand() {
  return {.path = "plan",
          .summary = "What a run would take: utilization and bandwidth of each method",
          .examples = kExamples,
          .declare = &Declare};
}

}  // namespace diloco
