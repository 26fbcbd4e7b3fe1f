#include <string>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "coordinator/ctl/format.h"
#include "coordinator/ctl/journal_verify.h"
#include "coordinator/ctl/table.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using Json = nlohmann::ordered_json;

std::string BytesOf(uint64_t bytes) { return HumanBytes(bytes); }

Cell TailOf(const VerifiedFile& journal, bool in_use) {
  if (journal.torn_bytes == 0) return {Tone::kGood, "good"};
  return {Tone::kCaution, in_use ? "being written" : "torn",
          absl::StrFormat(": %d bytes at the end were never committed%s", journal.torn_bytes,
                          in_use ? "" : ", and a start cuts them")};
}

std::string FileTable(const JournalReport& report) {
  Table table({{"FILE"},
               {"SIZE", Align::kRight},
               {"VERSION", Align::kRight},
               {"APPENDS", Align::kRight},
               {"GLOBAL DELTAS", Align::kRight},
               {"STATE"}});
  for (const VerifiedFile& file : report.snapshots) {
    table.AddRow({file.path, BytesOf(file.bytes), absl::StrFormat("%d", file.version.value_or(0)), "", "",
                  Cell(Tone::kGood, "good")});
  }
  for (const VerifiedFile& file : report.journals) {
    table.AddRow({file.path, BytesOf(file.bytes), "", absl::StrFormat("%d", file.groups),
                  absl::StrFormat("%d", file.deltas), TailOf(file, !report.holder.empty())});
  }
  return table.ToString();
}

std::string ConsensusText(const JournalReport& report) {
  if (!report.first_version.has_value()) return "not seeded";
  return absl::StrFormat("version %d, replayed from version %d with every digest as recorded", report.last_version,
                         *report.first_version);
}

Json FileJson(const VerifiedFile& file) {
  Json json = {{"path", file.path}, {"size_bytes", file.bytes}};
  if (file.version.has_value()) {
    json["version"] = *file.version;
  } else {
    json["appends"] = file.groups;
    json["global_deltas"] = file.deltas;
    json["torn_bytes"] = file.torn_bytes;
  }
  return json;
}

}  // namespace

std::string JournalReportText(const JournalReport& report) {
  const std::string in_use =
      report.holder.empty() ? "" : absl::StrFormat("; in use by \"%s\", read as it is", report.holder);
  return absl::StrFormat(
      "%s\n%s", FileTable(report),
      Fields({{"folder", report.folder + in_use},
              {"run", report.run_id.has_value() ? absl::StrFormat("%s, generation %d, %d members", *report.run_id,
                                                                  report.generation, report.members)
                                                : "none yet"},
              {"consensus", ConsensusText(report)},
              {"digests", report.consensus_digests.empty() ? "-" : absl::StrJoin(report.consensus_digests, " ")},
              {"ended", report.ended ? "yes" : "no"},
              {"verdict", Cell(Tone::kGood, "good")}}));
}

std::string JournalReportJson(const JournalReport& report) {
  Json json = {{"folder", report.folder},
               {"in_use_by", report.holder.empty() ? Json(nullptr) : Json(report.holder)},
               {"snapshots", Json::array()},
               {"journals", Json::array()},
               {"run_id", report.run_id.has_value() ? Json(*report.run_id) : Json(nullptr)},
               {"generation", report.generation},
               {"members", report.members},
               {"first_version", report.first_version.has_value() ? Json(*report.first_version) : Json(nullptr)},
               {"last_version", report.last_version},
               {"consensus_digests", report.consensus_digests},
               {"ended", report.ended}};
  for (const VerifiedFile& file : report.snapshots) json["snapshots"].push_back(FileJson(file));
  for (const VerifiedFile& file : report.journals) json["journals"].push_back(FileJson(file));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace diloco
