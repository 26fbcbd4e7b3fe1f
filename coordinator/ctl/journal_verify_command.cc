#include <memory>
#include <string>

#include "common/base/cpus.h"
#include "common/base/status_macros.h"
#include "coordinator/ctl/commands.h"
#include "coordinator/ctl/journal_verify.h"
#include "coordinator/driver/thread_pool.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

absl::StatusOr<ExitCode> Run(const std::string& folder, OutputFormat format, const CtlIo& io) {
  ThreadPool pool(UsableCpus());
  DILOCO_ASSIGN_OR_RETURN(const JournalReport report, VerifyJournal(folder, ParallelForOn(&pool)));
  io.out(format == OutputFormat::kJson ? JournalReportJson(report) : JournalReportText(report));
  return ExitCode::kOk;
}

Action Declare(CLI::App& app) {
  auto folder = std::make_shared<std::string>();
  app.add_option("DIR", *folder, "Data folder of a coordinator, on this machine")->required();
  return [folder](OutputFormat format, const CtlIo& io) { return Run(*folder, format, io); };
}

}  // namespace

Command JournalVerifyCommand() {
  return {.path = "journal verify",
          .summary = "Whether a data folder is whole: every checksum, and the consensus replayed; changes nothing",
          .examples =
              "dilococtl journal verify data\n"
              "dilococtl -o json journal verify data | jq .last_version",
          .declare = &Declare};
}

}  // namespace diloco
