#include "common/tls/identity.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "common/base/check.h"
#include "common/base/name.h"

namespace diloco {
namespace {

constexpr std::string_view kScheme = "spiffe://";
constexpr size_t kMaxShownBytes = 200;
constexpr Role kNamedRoles[] = {Role::kWorker, Role::kAdmin, Role::kViewer};

absl::Status NoIdentity(std::string_view uri) {
  return absl::InvalidArgumentError(
      absl::StrFormat("the URI \"%s\" is none of spiffe://RUN/worker/NAME, spiffe://RUN/admin/NAME, "
                      "spiffe://RUN/viewer/NAME and spiffe://RUN/coordinator",
                      absl::CHexEscape(std::string(uri.substr(0, kMaxShownBytes)))));
}

}  // namespace

const char* RoleName(Role role) {
  switch (role) {
    case Role::kWorker:
      return "worker";
    case Role::kAdmin:
      return "admin";
    case Role::kViewer:
      return "viewer";
    case Role::kCoordinator:
      return "coordinator";
  }
  DILOCO_CHECK(false);
  return "";
}

std::string Identity::Uri() const {
  const std::string uri = absl::StrFormat("%s%s/%s", kScheme, run, RoleName(role));
  return role == Role::kCoordinator ? uri : uri + "/" + name;
}

absl::StatusOr<Identity> ParseIdentity(std::string_view uri) {
  if (uri.substr(0, kScheme.size()) != kScheme) return NoIdentity(uri);
  const std::string path(uri.substr(kScheme.size()));
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  Identity identity = {.run = parts[0], .role = Role::kCoordinator, .name = ""};
  if (!ValidateName("run", identity.run).ok()) return NoIdentity(uri);
  if (parts.size() == 2 && parts[1] == RoleName(Role::kCoordinator)) return identity;
  if (parts.size() != 3 || !ValidateName("name", parts[2]).ok()) return NoIdentity(uri);
  identity.name = parts[2];
  for (const Role role : kNamedRoles) {
    if (parts[1] != RoleName(role)) continue;
    identity.role = role;
    return identity;
  }
  return NoIdentity(uri);
}

}  // namespace diloco
