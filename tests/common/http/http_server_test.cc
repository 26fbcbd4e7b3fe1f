#include "common/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <prometheus/registry.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

#include "common/base/mutex.h"
#include "common/metrics/coordinator_metrics.h"
#include "common/metrics/worker_metrics.h"

namespace diloco {
namespace {

using testing::HasSubstr;

HttpServerOptions Options(const prometheus::Registry* registry, int port = 0) {
  return {.address = {"127.0.0.1", port}, .registry = registry, .ready = [] { return absl::OkStatus(); }};
}

std::unique_ptr<HttpServer> StartOrDie(HttpServerOptions options) {
  absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start("--http", std::move(options));
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

httplib::Response Get(const HttpServer& server, const std::string& path) {
  httplib::Client client(server.address().host, server.address().port);
  const httplib::Result result = client.Get(path);
  EXPECT_TRUE(result) << path;
  return result ? *result : httplib::Response();
}

// What promtool, the checker that comes with Prometheus, says of a scrape; empty: nothing.
std::string Promtool(const std::string& scrape) {
  const std::string path = testing::TempDir() + "/scrape-" + std::to_string(getpid()) + ".txt";
  std::ofstream(path) << scrape;
  const std::string command = absl::StrFormat("promtool check metrics < '%s' 2>&1; echo exit $?", path);
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.append(buffer, n);
  pclose(pipe);
  std::remove(path.c_str());
  return output;
}

TEST(HttpServerTest, PromtoolAcceptsTheScrapesOfBothPrograms) {
  constexpr const char* kNames[] = {"one", "two"};
  prometheus::Registry coordinator;
  CoordinatorMetrics coordinator_metrics(coordinator, {kNames, kNames, kNames, kNames, kNames, kNames});
  coordinator_metrics.SetWorker("east", {}, 1);
  coordinator_metrics.CountCall(0, absl::StatusCode::kAborted, absl::Seconds(1));
  prometheus::Registry worker;
  WorkerMetrics worker_metrics(worker);
  worker_metrics.Report({});
  for (const prometheus::Registry* registry : {&coordinator, &worker}) {
    const auto server = StartOrDie(Options(registry));
    const httplib::Response response = Get(*server, "/metrics");
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.get_header_value("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
    EXPECT_THAT(response.body, HasSubstr("diloco_build_info"));
    EXPECT_EQ(Promtool(response.body), "exit 0\n");
  }
}

TEST(HttpServerTest, WhatIsKnownOnlyWhenAskedIsSetBeforeEachScrape) {
  prometheus::Registry registry;
  prometheus::Gauge& asked = OneGauge(registry, kConnected);
  HttpServerOptions options = Options(&registry);
  options.before_scrape = [&asked] { asked.Increment(); };
  const auto server = StartOrDie(std::move(options));
  EXPECT_THAT(Get(*server, "/metrics").body, HasSubstr("\ndiloco_connected 1\n"));
  EXPECT_THAT(Get(*server, "/metrics").body, HasSubstr("\ndiloco_connected 2\n"));
}

TEST(HttpServerTest, PromtoolWouldObject) {
  EXPECT_THAT(Promtool("# HELP diloco_wait_ms Text\n# TYPE diloco_wait_ms counter\ndiloco_wait_ms 1\n"),
              HasSubstr("exit 3"));
}

TEST(HttpServerTest, IsLiveAtOnceAndReadyWhenToldSo) {
  prometheus::Registry registry;
  std::atomic<bool> recovered = false;
  HttpServerOptions options = Options(&registry);
  options.ready = [&recovered] {
    return recovered ? absl::OkStatus() : absl::UnavailableError("recovering the journal");
  };
  const auto server = StartOrDie(std::move(options));
  EXPECT_EQ(Get(*server, "/healthz").status, 200);
  EXPECT_EQ(Get(*server, "/readyz").status, 503);
  EXPECT_EQ(Get(*server, "/readyz").body, "recovering the journal\n");
  recovered = true;
  EXPECT_EQ(Get(*server, "/readyz").status, 200);
}

TEST(HttpServerTest, ReadyzSaysWhatIsAmissThoughItIsReady) {
  prometheus::Registry registry;
  Mutex mutex;
  std::string amiss;
  HttpServerOptions options = Options(&registry);
  options.amiss = [&] {
    MutexLock lock(&mutex);
    return amiss;
  };
  const auto server = StartOrDie(std::move(options));
  EXPECT_EQ(Get(*server, "/readyz").body, "ready\n");
  {
    MutexLock lock(&mutex);
    amiss = "holding: the disk is full";
  }
  EXPECT_EQ(Get(*server, "/readyz").status, 200);
  EXPECT_EQ(Get(*server, "/readyz").body, "ready\nholding: the disk is full\n");
}

TEST(HttpServerTest, ServesNothingElse) {
  prometheus::Registry registry;
  const auto server = StartOrDie(Options(&registry));
  EXPECT_EQ(Get(*server, "/").status, 404);
  EXPECT_EQ(Get(*server, "/../etc/passwd").status, 404);
}

TEST(HttpServerTest, RefusesEveryMethodThatCouldChangeSomething) {
  prometheus::Registry registry;
  const auto server = StartOrDie(Options(&registry));
  httplib::Client client(server->address().host, server->address().port);
  const std::string text = "text/plain";
  for (const httplib::Result& result :
       {client.Post("/metrics", "x", text), client.Put("/metrics", "x", text), client.Patch("/metrics", "x", text),
        client.Delete("/metrics"), client.Options("/metrics"), client.Post("/nothing", "x", text)}) {
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 405);
    EXPECT_EQ(result->get_header_value("Allow"), "GET, HEAD");
  }
  const httplib::Result head = client.Head("/healthz");
  ASSERT_TRUE(head);
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->body, "");
  EXPECT_EQ(Get(*server, "/healthz").status, 200);
}

TEST(HttpServerTest, ServesItsOwnersRoutesByTheirExactPath) {
  prometheus::Registry registry;
  std::atomic<int> asked = 0;
  HttpServerOptions options = Options(&registry);
  options.routes = {{"/", [] { return HttpAnswer{.type = "text/html; charset=utf-8", .body = "<p>page"}; }},
                    {"/a.js", [&asked] {
                       ++asked;
                       return HttpAnswer{.status = 503, .type = kHttpJsonType, .body = "{}"};
                     }}};
  const auto server = StartOrDie(std::move(options));
  EXPECT_EQ(Get(*server, "/").body, "<p>page");
  EXPECT_EQ(Get(*server, "/").get_header_value("Content-Type"), "text/html; charset=utf-8");
  EXPECT_EQ(Get(*server, "/a.js").status, 503);
  EXPECT_EQ(Get(*server, "/a.js?x=1").body, "{}");
  for (const char* path : {"/axjs", "/a.js/", "/a", "/x/a.js", "//", "/index.html"}) {
    EXPECT_EQ(Get(*server, path).status, 404) << path;
  }
  EXPECT_EQ(asked, 2);
}

TEST(HttpServerTest, TellsBrowsersToLoadNothingFromElsewhereAndToKeepNothing) {
  prometheus::Registry registry;
  const auto server = StartOrDie(Options(&registry));
  for (const char* path : {"/metrics", "/healthz", "/nothing"}) {
    const httplib::Response response = Get(*server, path);
    EXPECT_EQ(response.get_header_value("Content-Security-Policy"),
              "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri "
              "'none'; form-action 'none'; frame-ancestors 'none'")
        << path;
    EXPECT_EQ(response.get_header_value("X-Content-Type-Options"), "nosniff") << path;
    EXPECT_EQ(response.get_header_value("Cache-Control"), "no-store") << path;
    EXPECT_EQ(response.get_header_value("Referrer-Policy"), "no-referrer") << path;
  }
}

TEST(HttpServerTest, ATakenPortIsAnErrorThatNamesIt) {
  prometheus::Registry registry;
  const auto first = StartOrDie(Options(&registry));
  const absl::StatusOr<std::unique_ptr<HttpServer>> second =
      HttpServer::Start("--http", Options(&registry, first->address().port));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--http " + first->address().ToString()));
}

TEST(HttpServerTest, ThePortIsFreeAgainWhenTheServerIsGone) {
  prometheus::Registry registry;
  auto server = StartOrDie(Options(&registry));
  const int port = server->address().port;
  EXPECT_EQ(Get(*server, "/healthz").status, 200);
  server.reset();
  EXPECT_EQ(StartOrDie(Options(&registry, port))->address().port, port);
}

TEST(HttpServerTest, StopsEvenWhenNobodyEverAsked) {
  prometheus::Registry registry;
  for (int i = 0; i < 50; ++i) StartOrDie(Options(&registry));
}

TEST(HttpServerTest, SilentPeersDoNotKeepOthersOut) {
  // More connections than threads, none of which says anything: they lose their turn when the read times out, and the
  // scrape behind them is answered.
  prometheus::Registry registry;
  const auto server = StartOrDie(Options(&registry));
  std::vector<int> silent;
  for (int i = 0; i < 6; ++i) {
    const int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(server->address().port));
    ASSERT_EQ(connect(peer, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    silent.push_back(peer);
  }
  httplib::Client client(server->address().host, server->address().port);
  client.set_read_timeout(60);
  const httplib::Result result = client.Get("/healthz");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200);
  for (const int peer : silent) close(peer);
}

}  // namespace
}  // namespace diloco
