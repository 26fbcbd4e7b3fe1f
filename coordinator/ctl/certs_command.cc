// `dilococtl certs init` and `certs issue`: certificates for a run that has no authority of its own.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "common/base/name.h"
#include "common/base/status_macros.h"
#include "common/tls/certificate.h"
#include "common/tls/development_authority.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/table.h"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

constexpr int kMaxDays = 3650;

struct CertsFlags {
  std::string run;
  std::string out;
  std::vector<std::string> workers;
  std::vector<std::string> coordinator_names;
  int days = 365;

  absl::Duration validity() const { return absl::Hours(24) * days; }
};

absl::StatusOr<std::vector<Identity>> WorkersOf(const std::string& run, const CertsFlags& flags) {
  std::vector<Identity> workers;
  for (const std::string& worker : flags.workers) {
    DILOCO_RETURN_IF_ERROR(ValidateName("--worker", worker));
    workers.push_back({.run = run, .role = Role::kWorker, .name = worker});
  }
  return workers;
}

// What was made: read back from the files, as who uses them will.
absl::StatusOr<ExitCode> Show(const DevelopmentAuthority& authority, const std::vector<Identity>& made,
                              OutputFormat format, const CtlIo& io) {
  nlohmann::json list = nlohmann::json::array();
  Table table({{"IDENTITY"}, {"EXPIRES"}, {"CERTIFICATE"}});
  for (const Identity& identity : made) {
    const TlsFiles files = authority.FilesOf(identity);
    DILOCO_ASSIGN_OR_RETURN(const OwnCertificate own, CheckTlsFiles(files));
    table.AddRow({identity.Uri(), ShowTime(own.expires), files.certificate});
    list.push_back({{"identity", identity.Uri()},
                    {"expires", absl::FormatTime(absl::RFC3339_sec, own.expires, absl::UTCTimeZone())},
                    {"certificate", files.certificate},
                    {"key", files.key},
                    {"authority", files.authority}});
  }
  io.out(format == OutputFormat::kJson ? nlohmann::json({{"certificates", list}}).dump(2) + "\n" : table.ToString());
  return ExitCode::kOk;
}

absl::StatusOr<ExitCode> Init(const CertsFlags& flags, OutputFormat format, const CtlIo& io) {
  const std::string& run = flags.run;
  DILOCO_RETURN_IF_ERROR(ValidateName("--run", run));
  DILOCO_ASSIGN_OR_RETURN(std::vector<Identity> made, WorkersOf(run, flags));
  made.push_back({.run = run, .role = Role::kAdmin, .name = RoleName(Role::kAdmin)});
  made.push_back({.run = run, .role = Role::kViewer, .name = RoleName(Role::kViewer)});
  for (const std::string& host : flags.coordinator_names) DILOCO_RETURN_IF_ERROR(CheckHost("--coordinator-name", host));
  DILOCO_ASSIGN_OR_RETURN(const DevelopmentAuthority authority, DevelopmentAuthority::Create(flags.out, run));
  const Identity coordinator = {.run = run, .role = Role::kCoordinator, .name = ""};
  DILOCO_RETURN_IF_ERROR(authority.Issue(coordinator, flags.coordinator_names, flags.validity()));
  for (const Identity& identity : made) DILOCO_RETURN_IF_ERROR(authority.Issue(identity, {}, flags.validity()));
  made.insert(made.begin(), coordinator);
  return Show(authority, made, format, io);
}

// For the workers named, or anew for all who have one.
absl::StatusOr<ExitCode> Issue(const CertsFlags& flags, OutputFormat format, const CtlIo& io) {
  DILOCO_ASSIGN_OR_RETURN(const DevelopmentAuthority authority, DevelopmentAuthority::Open(flags.out));
  DILOCO_ASSIGN_OR_RETURN(std::vector<Identity> made, WorkersOf(authority.run(), flags));
  if (made.empty()) {
    DILOCO_ASSIGN_OR_RETURN(made, authority.Issued());
    for (const Identity& identity : made) DILOCO_RETURN_IF_ERROR(authority.Renew(identity, flags.validity()));
  } else {
    for (const Identity& identity : made) DILOCO_RETURN_IF_ERROR(authority.Issue(identity, {}, flags.validity()));
  }
  return Show(authority, made, format, io);
}

void AddCommonFlags(CLI::App& app, CertsFlags& flags) {
  app.add_option("--out", flags.out, "Folder of the authority")->type_name("DIR")->required();
  app.add_option("--worker", flags.workers, "Id of a worker; once for each")->allow_extra_args(false);
  app.add_option("--days", flags.days, "Days that the certificates are valid")
      ->check(CLI::Range(1, kMaxDays))
      ->capture_default_str();
}

Action DeclareInit(CLI::App& app) {
  auto flags = std::make_shared<CertsFlags>();
  AddCommonFlags(app, *flags);
  // Of its own: the global one is for a coordinator to ask about.
  app.add_option("--run", flags->run, "Id of the run that the certificates are for")->required();
  app.add_option("--coordinator-name", flags->coordinator_names,
                 "Host name or address that workers and dilococtl connect to; once for each")
      ->allow_extra_args(false)
      ->required();
  return [flags](OutputFormat format, const CtlIo& io) { return Init(*flags, format, io); };
}

Action DeclareIssue(CLI::App& app) {
  auto flags = std::make_shared<CertsFlags>();
  AddCommonFlags(app, *flags);
  return [flags](OutputFormat format, const CtlIo& io) { return Issue(*flags, format, io); };
}

}  // namespace

Command CertsInitCommand() {
  return {.path = "certs init",
          .summary = "Make an authority for --run, and certificates of its coordinator, workers, an admin and a viewer",
          .examples = "dilococtl certs init --run english --out certs --worker east --coordinator-name 10.0.0.5",
          .declare = &DeclareInit};
}

Command CertsIssueCommand() {
  return {.path = "certs issue",
          .summary = "Certificates of the workers named, or new ones for everybody who has one there",
          .examples =
              "dilococtl certs issue --out certs --worker north\n"
              "dilococtl certs issue --out certs --days 30    renew all",
          .declare = &DeclareIssue};
}

}  // namespace diloco
