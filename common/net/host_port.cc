#include "common/net/host_port.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace diloco {
namespace {

constexpr int kMaxPort = 65535;
constexpr size_t kMaxHostBytes = 253;  // RFC 1035, section 2.3.4: 255 on the wire.

bool IsIpv4(const std::string& host) {
  in_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsIpv6(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsName(std::string_view host) {
  // Digits and dots alone are a mistyped IPv4 address, never a name.
  const bool has_letter = std::any_of(host.begin(), host.end(), [](char c) { return absl::ascii_isalpha(c); });
  return has_letter && host.size() <= kMaxHostBytes && std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
         });
}

bool ParsePort(std::string_view text, int* port) {
  const bool digits = !text.empty() && text.size() <= 5 && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c));
  });
  return digits && absl::SimpleAtoi(std::string(text), port) && *port <= kMaxPort;
}

}  // namespace

std::string HostPort::ToString() const {
  return host.find(':') == std::string::npos ? absl::StrFormat("%s:%d", host, port)
                                             : absl::StrFormat("[%s]:%d", host, port);
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view what, std::string_view text, PortZero port_zero) {
  const auto fail = [&](std::string_view problem) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s \"%s\" %s; use HOST:PORT, such as 127.0.0.1:7070, coordinator.example:7070 or [::1]:7070",
                        what, absl::CHexEscape(std::string(text.substr(0, kMaxHostBytes))), problem));
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return fail("has no port");
  std::string_view host = text.substr(0, colon);
  HostPort result;
  if (!host.empty() && host.front() == '[') {
    if (host.back() != ']') return fail("has no port behind its brackets");
    result.host = std::string(host.substr(1, host.size() - 2));
    if (!IsIpv6(result.host)) return fail("has no IPv6 address in its brackets");
  } else {
    result.host = std::string(host);
    if (host.find(':') != std::string_view::npos) return fail("has more than one colon and no brackets");
    if (host.empty()) return fail("has no host");
    if (!IsIpv4(result.host) && !IsName(host)) return fail("has a host that is neither an address nor a name");
  }
  if (!ParsePort(text.substr(colon + 1), &result.port)) return fail("has a port that is no number up to 65535");
  if (result.port == 0 && port_zero == PortZero::kRefuse) return fail("has port 0");
  return result;
}

bool IsLoopback(std::string_view host) {
  const std::string text(host);
  return text == "localhost" || text == "::1" || (IsIpv4(text) && absl::StartsWith(text, "127."));
}

}  // namespace diloco
