// Addresses as people write them: "HOST:PORT", with HOST an IPv4 address, a name, or an IPv6 address in brackets.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace diloco {

struct HostPort {
  std::string host;  // Without brackets.
  int port = 0;      // [0, 65535]; 0: any free port, for listeners only.

  // The form that ParseHostPort reads, which is also what gRPC takes.
  std::string ToString() const;
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

enum class PortZero { kRefuse, kAllow };

// `what` names the value in errors, such as "--listen". Errors, kInvalidArgument: anything but the forms above, an IPv6
// address without brackets, a port that is no number of 1 to 65535 (or 0, where allowed).
absl::StatusOr<HostPort> ParseHostPort(std::string_view what, std::string_view text, PortZero port_zero);

// True for 127.0.0.0/8, ::1 and "localhost".
bool IsLoopback(std::string_view host);

}  // namespace diloco
