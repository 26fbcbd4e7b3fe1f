#include "coordinator/ctl/completion.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include <CLI/CLI.hpp>

namespace diloco {
namespace {

std::vector<CLI::App*> Children(CLI::App* app) {
  return app->get_subcommands([](CLI::App*) { return true; });
}

std::vector<std::string> NamesOf(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

// "TEXT:{table,wide,json}" of CLI11's IsMember: the words. Empty: any value.
std::vector<std::string> WordsOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}');
  if (open == std::string::npos || close == std::string::npos) return {};
  return absl::StrSplit(type.substr(open + 1, close - open - 1), ',');
}

// Whether its value is a file's name: what help calls it says so.
bool TakesFile(const CLI::Option& option) {
  const std::string what = absl::StrCat(option.get_type_name(), " ", option.get_name());
  return absl::StrContains(what, "FILE") || absl::StrContains(what, "DIR") || absl::StrContains(what, "PATH");
}

// Calls `visit` with each app of the tree and its path, "" for the program.
void Walk(CLI::App* app, const std::string& path, const std::function<void(CLI::App*, const std::string&)>& visit) {
  visit(app, path);
  for (CLI::App* child : Children(app)) {
    Walk(child, path.empty() ? child->get_name() : absl::StrCat(path, " ", child->get_name()), visit);
  }
}

bool IsArgument(const CLI::Option& option) { return NamesOf(option).empty(); }

// What may follow a path, as options of compgen: its sub-commands, its flags and those of the program, and what its
// argument may be.
std::string CandidatesOf(CLI::App* app, CLI::App* program) {
  std::vector<std::string> words;
  std::string files;
  for (CLI::App* child : Children(app)) words.push_back(child->get_name());
  for (CLI::App* of : {app, program}) {
    for (const CLI::Option* option : of->get_options()) {
      const std::vector<std::string> added = IsArgument(*option) ? WordsOf(*option) : NamesOf(*option);
      std::copy_if(added.begin(), added.end(), std::back_inserter(words), [&words](const std::string& word) {
        return std::find(words.begin(), words.end(), word) == words.end();
      });
      if (IsArgument(*option) && TakesFile(*option)) files = "-f ";
    }
  }
  return absl::StrFormat("%s-W \"%s\"", files, absl::StrJoin(words, " "));
}

constexpr char kScript[] = R"(# Completion of PROGRAM for bash. For this shell:  source <(PROGRAM completion bash)
_PROGRAM() {
  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}" path="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$path${path:+ }${COMP_WORDS[i]}" in
PATHS      path="$path${path:+ }${COMP_WORDS[i]}" ;;
    esac
  done
  case "$path:$previous" in
VALUES  esac
  case "$path" in
CANDIDATES  esac
}
complete -F _PROGRAM PROGRAM
)";

}  // namespace

std::string BashCompletion(CLI::App& app) {
  std::vector<std::string> paths;
  std::string values;
  std::string candidates;
  Walk(&app, "", [&](CLI::App* at, const std::string& path) {
    if (!path.empty()) paths.push_back(absl::StrFormat("\"%s\"", path));
    for (const CLI::Option* option : at->get_options()) {
      if (IsArgument(*option) || option->get_items_expected_max() == 0) continue;  // A flag without a value.
      std::vector<std::string> patterns;
      for (const std::string& name : NamesOf(*option)) {
        patterns.push_back(path.empty() ? absl::StrCat("*:", name) : absl::StrFormat("\"%s:%s\"", path, name));
      }
      absl::StrAppendFormat(&values, "    %s) COMPREPLY=($(compgen %s-W \"%s\" -- \"$current\")); return ;;\n",
                            absl::StrJoin(patterns, " | "), TakesFile(*option) ? "-f " : "",
                            absl::StrJoin(WordsOf(*option), " "));
    }
    absl::StrAppendFormat(&candidates, "    \"%s\") COMPREPLY=($(compgen %s -- \"$current\")) ;;\n", path,
                          CandidatesOf(at, &app));
  });
  return absl::StrReplaceAll(kScript, {{"PROGRAM", app.get_name()},
                                       {"PATHS", absl::StrCat("      ", absl::StrJoin(paths, " | \\\n      "), ")\n")},
                                       {"VALUES", values},
                                       {"CANDIDATES", candidates}});
}

}  // namespace diloco
