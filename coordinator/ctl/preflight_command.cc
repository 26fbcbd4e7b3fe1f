// `dilococtl preflight`: can this machine take part in the run?
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/flags.h"
#include "coordinator/ctl/format.h"
#include "coordinator/ctl/link_probe.h"
#include "coordinator/ctl/preflight_need.h"
#include "coordinator/ctl/preflight_report.h"
#include "coordinator/ctl/rate.h"
#include "coordinator/ctl/reachability.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

constexpr absl::Duration kMaxMeasured = absl::Seconds(8);  // Each way; both fit into a probe.
constexpr double kMaxStepSeconds = 1e6;

struct Flags {
  std::string measure = "3s";
  double step_seconds = 0;
};

// The steps in their order. Each step that others stand on returns false when it failed.
class Preflight {
 public:
  Preflight(const CommandContext& context, absl::Duration measure, double step_seconds)
      : context_(context),
        measure_(measure),
        step_seconds_(step_seconds),
        worker_stub_(v1::WorkerService::NewStub(context.channel)),
        report_(&context) {}

  const PreflightReport& Run() {
    if (Reach() && Contract() && Measure()) Need();
    return report_;
  }

 private:
  bool Reach() {
    const absl::StatusOr<std::vector<std::string>> found = ResolveHost(context_.address);
    if (!report_.Step("name", found.status(), "give the coordinator's name or number (--coordinator)",
                      [&] { return absl::StrJoin(*found, ", "); })) {
      return false;
    }
    const absl::StatusOr<absl::Duration> tcp = ConnectTcp(context_.address, context_.timeout);
    if (!report_.Step("tcp", tcp.status(), "check that it runs, listens beyond loopback (--listen), and firewalls",
                      [&] { return absl::StrFormat("connected in %s", Milliseconds(*tcp)); })) {
      return false;
    }
    absl::Status health = CheckHealth(context_.channel, context_.timeout);
    if (absl::IsUnavailable(health)) {
      // gRPC says no more than that the connection was closed.
      const absl::Status fault = context_.link.Diagnose();
      if (!fault.ok() && !absl::IsUnavailable(fault)) health = fault;
    }
    return report_.Step("health", health,
                        "the coordinator is recovering or stopping, TLS is on at one end only, or a proxy is between",
                        [] { return std::string("serving"); });
  }

  bool Contract() {
    v1::DescribeRunRequest request;
    request.set_run_id(context_.run_id);
    request.set_protocol_version(kProtocolVersion);
    v1::DescribeRunResponse response;
    grpc::ClientContext call;
    call.set_deadline(DeadlineAfter(context_.timeout));
    absl::Status status = FromGrpcStatus(worker_stub_->DescribeRun(&call, request, &response));
    if (status.ok() && response.protocol_version() != kProtocolVersion) {
      status = absl::FailedPreconditionError(absl::StrFormat("the coordinator speaks version %d, this program %d",
                                                             response.protocol_version(), kProtocolVersion));
    }
    absl::StatusOr<RunConfig> config =
        status.ok() ? ParseRunConfig(response.config_yaml(), "the run's configuration") : status;
    if (config.ok()) config_ = *std::move(config);
    return report_.Step(
        "contract", config.status(), "install the same version at both ends, or name the run (--run)",
        [&] { return absl::StrFormat("version %d, run \"%s\"", response.protocol_version(), response.run_id()); });
  }

  bool Measure() {
    LinkProbe probe(worker_stub_.get(), context_.run_id, std::min(kMaxProbeTime, 2 * measure_ + context_.timeout));
    const absl::StatusOr<absl::Duration> round_trip = probe.RoundTrip();
    const std::string again = "measure again when nothing else uses the link";
    if (!report_.Step("round trip", round_trip.status(), again, [&] { return Milliseconds(*round_trip); })) {
      return false;
    }
    report_.Step("identity", absl::OkStatus(), "",
                 [&] { return probe.identity().empty() ? "plaintext: nobody is asked who it is" : probe.identity(); });
    const absl::StatusOr<double> up = probe.Up(measure_);
    if (!report_.Step("up", up.status(), again, [&] { return RateText(*up); })) return false;
    const absl::StatusOr<double> down = probe.Down(measure_);
    if (!report_.Step("down", down.status(), again, [&] { return RateText(*down); })) return false;
    link_ = {.up = *up, .down = *down, .round_trip_seconds = absl::ToDoubleSeconds(*round_trip)};
    report_.SetLink(link_);
    return true;
  }

  void Need() {
    const std::optional<int64_t> parameters = Parameters();
    if (!parameters.has_value()) {
      report_.Skip("bandwidth", "the model's size is not known before its first worker joins");
      return;
    }
    const std::optional<double> step_seconds = StepSeconds();
    if (!step_seconds.has_value()) {
      report_.Skip("bandwidth",
                   "how long a step takes is not known, by workers' reports to an admin or a viewer: give "
                   "--step-seconds");
      return;
    }
    const absl::StatusOr<LinkNeed> need = NeedOf(config_, *parameters, *step_seconds, link_);
    absl::Status status = need.status();
    if (status.ok()) report_.SetNeed(*need);
    if (status.ok() && !need->MetBy(link_)) status = absl::ResourceExhaustedError(NeedText(*need, *step_seconds));
    report_.Step("bandwidth", status,
                 "raise inner_steps, take codecs of fewer bits (`dilococtl plan`), or a faster link",
                 [&] { return NeedText(*need, *step_seconds); });
  }

  std::optional<int64_t> Parameters() const {
    if (const std::optional<int64_t> counted = ParametersOf(config_)) return counted;
    const absl::StatusOr<v1::GetStatusResponse> status = context_.client.GetStatus();
    if (!status.ok() || status->parameters() == 0) return std::nullopt;
    return static_cast<int64_t>(status->parameters());
  }

  std::optional<double> StepSeconds() const {
    if (step_seconds_ > 0) return step_seconds_;
    const absl::StatusOr<v1::ListWorkersResponse> workers = context_.client.ListWorkers();
    return workers.ok() ? StepSecondsOf(*workers) : std::nullopt;
  }

  static std::string Milliseconds(absl::Duration time) {
    return absl::StrFormat("%.1f ms", absl::ToDoubleMilliseconds(time));
  }

  static std::string NeedText(const LinkNeed& need, double step_seconds) {
    return absl::StrFormat(
        "the run needs %s up and %s down at %.3g s a step; utilization here %.1f %%%s", RateText(need.up),
        RateText(need.down), step_seconds, 100 * need.utilization,
        need.useful_link.has_value()
            ? absl::StrFormat(", %.0f %% with %s each way", 100 * kUsefulUtilization, RateText(*need.useful_link))
            : "");
  }

  const CommandContext& context_;
  const absl::Duration measure_;
  const double step_seconds_;
  const std::unique_ptr<v1::WorkerService::Stub> worker_stub_;
  PreflightReport report_;
  RunConfig config_;
  MeasuredLink link_;
};

absl::StatusOr<ExitCode> Run(const CommandContext& context, const Flags& flags) {
  DILOCO_ASSIGN_OR_RETURN(const absl::Duration measure, ParseWait("--measure", flags.measure));
  if (measure > kMaxMeasured) {
    return absl::InvalidArgumentError(
        absl::StrFormat("--measure %s: use at most %s", flags.measure, absl::FormatDuration(kMaxMeasured)));
  }
  Preflight preflight(context, measure, flags.step_seconds);
  const PreflightReport& report = preflight.Run();
  if (context.format == OutputFormat::kJson) context.io.out(report.Json());
  return report.failed() ? ExitCode::kFailure : ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  app.add_option("--measure", flags->measure, "How long to measure, each way; the run goes on meanwhile")
      ->capture_default_str();
  app.add_option("--step-seconds", flags->step_seconds, "Seconds that an inner step computes; default: as reported")
      ->check(CLI::Range(1e-6, kMaxStepSeconds));
  return [flags](const CommandContext& context) { return Run(context, *flags); };
}

}  // namespace

Command PreflightCommand() {
  return {.path = "preflight",
          .summary = "Whether this machine reaches the coordinator, and its link carries what the run needs",
          .examples =
              "dilococtl --coordinator 10.0.0.5:7070 preflight\n"
              "dilococtl --coordinator 10.0.0.5:7070 preflight --step-seconds 0.5    before there are workers\n"
              "dilococtl -o json preflight | jq .up_bytes_per_second",
          .declare = &Declare};
}

}  // namespace diloco
