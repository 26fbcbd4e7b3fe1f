#include "coordinator/app/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace diloco {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

absl::StatusOr<CommandLine> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), kCoordinatorProgram);
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

absl::StatusOr<CommandLine> ParseRun(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"--config", "run.yaml", "--data-dir", "data"});
  return Parse(std::move(arguments));
}

TEST(OptionsTest, DefaultsAreLoopback) {
  const absl::StatusOr<CommandLine> parsed = ParseRun({});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const CoordinatorOptions& options = parsed->options;
  EXPECT_EQ(options.config_path, "run.yaml");
  EXPECT_EQ(options.data_folder, "data");
  EXPECT_EQ(options.listen.ToString(), "127.0.0.1:7070");
  EXPECT_EQ(options.http->ToString(), "127.0.0.1:7071");
  EXPECT_GE(options.merge_threads, 1);
  EXPECT_FALSE(options.reflection || options.exit_when_finished || options.allow_plaintext);
}

TEST(OptionsTest, ReadsEveryFlag) {
  const absl::StatusOr<CommandLine> parsed =
      ParseRun({"--listen", "[::1]:0", "--http", "none", "--port-file", "p.json", "--merge-threads", "3", "--log-level",
                "debug", "--reflection", "--exit-when-finished", "--allow-plaintext"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const CoordinatorOptions& options = parsed->options;
  EXPECT_EQ(options.listen.ToString(), "[::1]:0");
  EXPECT_FALSE(options.http.has_value());
  EXPECT_EQ(options.port_file, "p.json");
  EXPECT_EQ(options.merge_threads, 3);
  EXPECT_EQ(options.log.level, "debug");
  EXPECT_TRUE(options.reflection && options.exit_when_finished && options.allow_plaintext);
}

TEST(OptionsTest, FlagsWinOverVariables) {
  setenv("DILOCO_LISTEN", "127.0.0.1:1111", 1);
  setenv("DILOCO_HTTP", "none", 1);
  setenv("DILOCO_REFLECTION", "true", 1);
  const absl::StatusOr<CommandLine> parsed = ParseRun({"--http", "127.0.0.1:2222"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.listen.port, 1111);
  EXPECT_EQ(parsed->options.http->port, 2222);
  EXPECT_TRUE(parsed->options.reflection);
  for (const char* name : {"DILOCO_LISTEN", "DILOCO_HTTP", "DILOCO_REFLECTION"}) unsetenv(name);
}

TEST(OptionsTest, WhatIsWrongIsOneSentence) {
  struct Case {
    std::vector<const char*> arguments;
    const char* part;
  };
  for (const Case& wrong :
       {Case{{"--lisen", "x"}, "--lisen"}, Case{{"--listen"}, "--listen"}, Case{{"--listen", "7070"}, "--listen"},
        Case{{"--http", "x"}, "--http"}, Case{{"--merge-threads", "0"}, "--merge-threads"},
        Case{{"--merge-threads", "many"}, "--merge-threads"},
        Case{{"--merge-threads", "257"}, "--merge-threads: Value 257 not in range 1 to 256"},
        Case{{"stray"}, "stray"}}) {
    const absl::Status status = ParseRun(wrong.arguments).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.part));
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
  EXPECT_THAT(std::string(Parse({"--data-dir", "d"}).status().message()), HasSubstr("--config"));
  EXPECT_THAT(std::string(Parse({"--config", "c"}).status().message()), HasSubstr("--data-dir"));
}

TEST(OptionsTest, TlsTakesAllThreeFilesAndThenMayListenAnywhere) {
  const absl::StatusOr<CommandLine> parsed =
      ParseRun({"--listen", "0.0.0.0:7070", "--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->options.tls.certificate, "c");
  EXPECT_EQ(parsed->options.tls.key, "k");
  EXPECT_EQ(parsed->options.tls.authority, "a");
  const absl::Status some = ParseRun({"--tls-cert", "c", "--tls-key", "k"}).status();
  EXPECT_EQ(some.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(some.message()), HasSubstr("--tls-ca is missing"));
  setenv("DILOCO_TLS_CERT", "from-environment", 1);
  EXPECT_THAT(std::string(ParseRun({}).status().message()), HasSubstr("--tls-key is missing"));
  unsetenv("DILOCO_TLS_CERT");
}

TEST(OptionsTest, PlaintextBeyondLoopbackIsAskedFor) {
  const absl::Status refused = ParseRun({"--listen", "0.0.0.0:7070"}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--allow-plaintext"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--tls-cert"));
  EXPECT_TRUE(ParseRun({"--listen", "0.0.0.0:7070", "--allow-plaintext"}).ok());
}

TEST(OptionsTest, HelpAndVersionNeedNothingElse) {
  EXPECT_THAT(*Parse({"--version"})->text, StartsWith("diloco-coordinator " DILOCO_VERSION));
  const std::string help = *Parse({"--help"})->text;
  EXPECT_THAT(help, HasSubstr("Examples:"));
  EXPECT_THAT(help, HasSubstr("--data-dir"));
}

}  // namespace
}  // namespace diloco
