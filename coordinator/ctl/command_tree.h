// dilococtl's command line as CLI11's tree: global flags, nouns and the commands of commands.h.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "coordinator/ctl/command.h"
#include "coordinator/ctl/global_options.h"

namespace diloco {

class CommandTree {
 public:
  CommandTree();
  ~CommandTree();

  CLI::App& app() { return *app_; }
  const GlobalOptions& options() const { return options_; }
  // Of the command that app() has parsed.
  const Action& parsed() const;

 private:
  GlobalOptions options_;
  std::unique_ptr<CLI::App> app_;
  std::map<const CLI::App*, Action> actions_;
};

}  // namespace diloco
