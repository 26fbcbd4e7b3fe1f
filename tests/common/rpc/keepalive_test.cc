#include <gtest/gtest.h>

#include <thread>

#include "tests/common/rpc/echo_service.h"

namespace diloco {
namespace {

// Pings keep an idle connection: no middle box forgets it, and the server does not mind.
TEST(KeepaliveTest, AnIdleConnectionIsTheSameAfterManyPings) {
  EchoService service;
  const RpcServer server = StartOrDie(&service);
  const auto channel = MakeChannel(server.address.ToString());
  const absl::StatusOr<v1::GetStatusResponse> before = Call(channel);
  ASSERT_TRUE(before.ok()) << before.status();
  // The server gives a connection up at its third ping too early, and pings are a matter of time.
  std::this_thread::sleep_for(absl::ToChronoMilliseconds(5 * kKeepalivePeriod));
  const absl::StatusOr<v1::GetStatusResponse> after = Call(channel);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->run_id(), before->run_id()) << "another connection";
}

}  // namespace
}  // namespace diloco
