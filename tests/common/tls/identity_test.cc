#include "common/tls/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace diloco {
namespace {

using ::testing::HasSubstr;

TEST(IdentityTest, EachRoleHasItsForm) {
  const Identity worker = {.run = "english", .role = Role::kWorker, .name = "east"};
  const Identity admin = {.run = "english", .role = Role::kAdmin, .name = "ada"};
  const Identity viewer = {.run = "english", .role = Role::kViewer, .name = "grafana"};
  const Identity coordinator = {.run = "english", .role = Role::kCoordinator, .name = ""};
  EXPECT_EQ(worker.Uri(), "spiffe://english/worker/east");
  EXPECT_EQ(admin.Uri(), "spiffe://english/admin/ada");
  EXPECT_EQ(viewer.Uri(), "spiffe://english/viewer/grafana");
  EXPECT_EQ(coordinator.Uri(), "spiffe://english/coordinator");
  for (const Identity& identity : {worker, admin, viewer, coordinator}) {
    const absl::StatusOr<Identity> parsed = ParseIdentity(identity.Uri());
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, identity);
  }
}

TEST(IdentityTest, NothingElseIsOne) {
  using namespace std::string_view_literals;
  for (const std::string_view uri : {""sv,
                                     "english/worker/east"sv,
                                     "https://english/worker/east"sv,
                                     "spiffe:/english/worker/east"sv,
                                     "SPIFFE://english/worker/east"sv,
                                     "spiffe://english"sv,
                                     "spiffe://english/"sv,
                                     "spiffe://english/worker"sv,
                                     "spiffe://english/worker/"sv,
                                     "spiffe://english/worker/east/"sv,
                                     "spiffe://english/worker/east/west"sv,
                                     "spiffe://english//east"sv,
                                     "spiffe:///worker/east"sv,
                                     "spiffe://english/Worker/east"sv,
                                     "spiffe://english/root/east"sv,
                                     "spiffe://english/coordinator/"sv,
                                     "spiffe://english/coordinator/east"sv,
                                     "spiffe://english/worker/ea st"sv,
                                     "spiffe://english/worker/east\0"sv,
                                     "spiffe://english/worker/east\0x"sv,
                                     "spiffe://english/worker/east?x"sv,
                                     "spiffe://user@english/worker/east"sv,
                                     " spiffe://english/worker/east"sv,
                                     "spiffe://english/worker/%65ast"sv,
                                     "spiffe://english/worker/.."sv,
                                     "spiffe://english\n/worker/east"sv}) {
    const absl::StatusOr<Identity> parsed = ParseIdentity(uri);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << uri;
    EXPECT_EQ(parsed.status().message().find('\n'), std::string::npos) << uri;
  }
  EXPECT_THAT(std::string(ParseIdentity("spiffe://r/root/x").status().message()), HasSubstr("spiffe://r/root/x"));
  EXPECT_FALSE(ParseIdentity("spiffe://english/worker/" + std::string(65, 'x')).ok());
  EXPECT_TRUE(ParseIdentity("spiffe://english/worker/" + std::string(64, 'x')).ok());
}

}  // namespace
}  // namespace diloco
