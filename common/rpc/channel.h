// Channels towards the coordinator, and what both ends of a connection must agree on.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>

#include "absl/time/time.h"

namespace diloco {

// The client pings this often, also without a call, and gives a connection up that stays silent this long. The server
// permits half of that, so that a ping that is early by clock or network is no offence (a GOAWAY "too many pings").
inline constexpr absl::Duration kKeepalivePeriod = absl::Seconds(20);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(20);
inline constexpr absl::Duration kKeepalivePermitted = absl::Seconds(10);

// An attempt to connect, with the handshake, may take this long: several round trips of a slow link, or a busy peer.
// gRPC names this setting after the backoff, but does not wait for it between attempts.
inline constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

// Between attempts to connect gRPC backs off within this range, give or take a fifth: a peer that is back is reached
// again about a second later, however long it was away.
inline constexpr absl::Duration kFirstReconnectBackoff = absl::Milliseconds(200);
inline constexpr absl::Duration kLongestReconnectBackoff = absl::Milliseconds(800);

// A channel of its own: several to one target are several TCP connections, so that control never waits behind bulk.
// Connects on first use, directly whatever proxy the environment names. `target`: HOST:PORT (see ParseHostPort).
std::shared_ptr<grpc::Channel> MakeChannel(
    const std::string& target,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials = grpc::InsecureChannelCredentials());

}  // namespace diloco
