#include "coordinator/ctl/command_tree.h"

#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "common/command_line/examples.h"
#include "coordinator/ctl/commands.h"
#include <CLI/CLI.hpp>

namespace diloco {
namespace {

constexpr char kDescription[] = R"(Shows and steers a run, by way of its coordinator.

Examples:
  dilococtl status                                  the run at a glance
  dilococtl status --watch                          follow it to its end
  dilococtl --coordinator 10.0.0.5:7070 worker list
  dilococtl worker drain west                       let it finish its round and leave
  dilococtl round list                              rounds, newest first
  dilococtl round describe 42                       why round 42 has not closed
  dilococtl events --watch                          what happens, as it happens
  dilococtl run pause                               let no round close until `run resume`
  dilococtl run set outer.rate=0.2                  change what may change in mid-run
  dilococtl -o json status | jq .rounds_committed
  dilococtl worker describe west                    everything that is known of it
  dilococtl checkpoint save                         write the consensus on the coordinator's disk
  dilococtl run recover --from east                 the coordinator lost its disk: take east's consensus
  dilococtl plan --preset 1B --up 400Mbit           what a run would take, before there is one
  dilococtl config check run.yaml                   what the coordinator would make of it
  dilococtl --coordinator 10.0.0.5:7070 preflight   can this machine take part?
  dilococtl certs init --run english --out certs --worker east --coordinator-name 10.0.0.5
)";

constexpr char kFooter[] = R"(
Exit codes: 0 done, 1 failure, 2 wrong usage, 3 the coordinator cannot be reached, 4 not found, 5 not allowed now,
6 `status`: the run is held or paused, 130 interrupted.
JSON is the message of proto/diloco/v1/admin.proto: 64-bit integers are strings, NaN and infinity are null. What asks
no administrator (`plan`, `preflight`, `config check`, `checkpoint verify`, `journal verify`, `certs`) has objects of
its own.)";

struct NounTitle {
  const char* noun;
  const char* title;
};
constexpr NounTitle kNouns[] = {
    {"round", "Rounds"},         {"worker", "Workers"},        {"checkpoint", "Checkpoints"},
    {"config", "Configuration"}, {"journal", "A data folder"}, {"certs", "Certificates"},
    {"run", "The run"}};

std::string TitleOf(const std::string& noun) {
  for (const NounTitle& entry : kNouns) {
    if (noun == entry.noun) return entry.title;
  }
  return noun;
}

struct Noun {
  CLI::App* app = nullptr;
  std::vector<std::string> verbs;
  std::vector<std::string> examples;  // The first one of each verb.
};

// "Workers: list, drain, evict, admit", with an example of each.
void Describe(const Noun& noun) {
  noun.app->require_subcommand(1);
  noun.app->description(absl::StrFormat("%s: %s", TitleOf(noun.app->get_name()), absl::StrJoin(noun.verbs, ", ")));
  ShowExamples(noun.app, absl::StrJoin(noun.examples, "\n"));
}

}  // namespace

CommandTree::CommandTree() : app_(std::make_unique<CLI::App>(kDescription, "dilococtl")) {
  app_->fallthrough();  // Global flags may follow the command.
  app_->require_subcommand(1);
  app_->set_version_flag("--version", "dilococtl " DILOCO_VERSION);
  AddGlobalOptions(*app_, options_);
  std::map<std::string, Noun> nouns;
  for (const Command& command : AllCommands()) {
    const std::vector<std::string> words = absl::StrSplit(command.path, ' ');
    CLI::App* parent = app_.get();
    if (words.size() > 1) {
      Noun& noun = nouns[words[0]];
      if (noun.app == nullptr) noun.app = app_->add_subcommand(words[0]);
      noun.verbs.push_back(words[1]);
      noun.examples.push_back(command.examples.substr(0, command.examples.find('\n')));
      parent = noun.app;
    }
    CLI::App* added = parent->add_subcommand(words.back(), command.summary);
    ShowExamples(added, command.examples);
    actions_[added] = command.declare(*added);
  }
  for (const auto& [name, noun] : nouns) Describe(noun);
  app_->footer(kFooter);  // After the commands, which would inherit it.
}

CommandTree::~CommandTree() = default;

const Action& CommandTree::parsed() const {
  const CLI::App* command = app_.get();
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return actions_.at(command);
}

}  // namespace diloco
