#include "common/command_line/examples.h"

#include <memory>
#include <utility>

#include "absl/strings/str_replace.h"

#include <CLI/CLI.hpp>

namespace diloco {
namespace {

class ExampleFormatter final : public CLI::Formatter {
 public:
  explicit ExampleFormatter(std::string examples) : examples_(std::move(examples)) {}

  std::string make_description(const CLI::App* app) const override {
    return CLI::Formatter::make_description(app) + "\nExamples:\n  " +
           absl::StrReplaceAll(examples_, {{"\n", "\n  "}}) + "\n\n";
  }

 private:
  const std::string examples_;
};

}  // namespace

CLI::App* ShowExamples(CLI::App* command, std::string examples) {
  command->formatter(std::make_shared<ExampleFormatter>(std::move(examples)));
  return command;
}

}  // namespace diloco
