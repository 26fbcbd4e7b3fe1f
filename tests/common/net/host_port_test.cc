#include "common/net/host_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace diloco {
namespace {

using testing::HasSubstr;

struct Good {
  const char* text;
  HostPort address;
};

TEST(HostPortTest, ReadsAddressesAndNamesAndWritesThemBack) {
  for (const Good& good : {Good{"127.0.0.1:7070", {"127.0.0.1", 7070}}, Good{"localhost:1", {"localhost", 1}},
                           Good{"a-b.c_d.example:65535", {"a-b.c_d.example", 65535}}, Good{"[::1]:7070", {"::1", 7070}},
                           Good{"[2001:db8::1]:80", {"2001:db8::1", 80}}, Good{"0.0.0.0:0", {"0.0.0.0", 0}}}) {
    const absl::StatusOr<HostPort> parsed = ParseHostPort("--listen", good.text, PortZero::kAllow);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, good.address);
    EXPECT_EQ(parsed->ToString(), good.text);
  }
}

TEST(HostPortTest, RefusesEverythingElseInOneSentence) {
  for (const std::string& text : {std::string(),
                                  std::string("7070"),
                                  std::string("host"),
                                  std::string(":7070"),
                                  std::string("host:"),
                                  std::string("host:x"),
                                  std::string("host:-1"),
                                  std::string("host:+1"),
                                  std::string("host:65536"),
                                  std::string("host:99999999999"),
                                  std::string("host: 1"),
                                  std::string("::1:7070"),
                                  std::string("[::1]"),
                                  std::string("[::1:7070"),
                                  std::string("[host]:7070"),
                                  std::string("[]:7070"),
                                  std::string("1.2.3:4"),
                                  std::string("300.1.1.1:4"),
                                  std::string("http://host:80"),
                                  std::string("ho st:80"),
                                  std::string("host:8\n0"),
                                  std::string("h\0st:80", 7),
                                  std::string(254, 'a') + ":80"}) {
    const absl::StatusOr<HostPort> parsed = ParseHostPort("--listen", text, PortZero::kAllow);
    ASSERT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("--listen"));
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("use HOST:PORT"));
    EXPECT_EQ(parsed.status().message().find('\n'), std::string::npos);
  }
}

TEST(HostPortTest, PortZeroIsForListenersOnly) {
  EXPECT_TRUE(ParseHostPort("--listen", "127.0.0.1:0", PortZero::kAllow).ok());
  EXPECT_EQ(ParseHostPort("--coordinator", "127.0.0.1:0", PortZero::kRefuse).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(HostPortTest, KnowsLoopback) {
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost"}) EXPECT_TRUE(IsLoopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example", "localhost.example", "128.0.0.1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace diloco
