#include "common/net/listen_address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace diloco {
namespace {

using testing::HasSubstr;

// 127.1 is looked up like a name, but needs neither /etc/hosts nor a name server.
TEST(ListenAddressTest, ResolvesANameToOneNumericAddress) {
  const absl::StatusOr<HostPort> address = ResolveListenAddress("--listen", {"127.1", 7070});
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->host, "127.0.0.1");
  EXPECT_EQ(address->port, 7070);
}

TEST(ListenAddressTest, NamesAHostThatDoesNotResolve) {
  const absl::Status status = ResolveListenAddress("--listen", {"no-such-host.invalid", 7070}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no-such-host.invalid:7070"));
}

TEST(ListenAddressTest, TellsATakenPortFromAFreeOne) {
  const int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(taken, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const HostPort host_port{"127.0.0.1", ntohs(address.sin_port)};

  const absl::Status in_use = ProbeListenAddress("--listen", host_port);
  EXPECT_EQ(in_use.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(in_use.message()), HasSubstr(host_port.ToString()));

  close(taken);
  EXPECT_TRUE(ProbeListenAddress("--listen", host_port).ok());
}

TEST(ListenAddressTest, NamesAnAddressOfAnotherMachine) {
  // 192.0.2.0/24 is for documentation (RFC 5737): no machine has it.
  EXPECT_EQ(ProbeListenAddress("--listen", {"192.0.2.1", 0}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace diloco
