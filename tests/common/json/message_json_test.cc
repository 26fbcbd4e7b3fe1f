#include "common/json/message_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "diloco/v1/admin.pb.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

TEST(MessageJsonTest, IsTheMessageWithEveryScalar) {
  v1::SaveCheckpointResponse saved;
  saved.set_run_id("demo");
  saved.set_version(12);
  EXPECT_EQ(ToJson(saved, JsonStyle::kOneLine),
            "{\"run_id\":\"demo\",\"path\":\"\",\"version\":\"12\",\"size_bytes\":\"0\"}\n");
  EXPECT_EQ(ToJson(saved, JsonStyle::kIndented),
            "{\n  \"run_id\": \"demo\",\n  \"path\": \"\",\n  \"version\": \"12\",\n  \"size_bytes\": \"0\"\n}\n");
}

TEST(MessageJsonTest, NumbersThatJsonLacksAreNull) {
  v1::ListWorkersResponse workers;
  v1::WorkerSummary* worker = workers.add_workers();
  worker->set_worker_id("NaN");  // A name stays a name.
  worker->mutable_last_heard()->set_seconds(1);
  worker->mutable_last_heard()->set_nanos(500'000'000);
  worker->mutable_progress()->set_loss(NAN);
  worker->mutable_progress()->set_first_loss(INFINITY);
  worker->mutable_progress()->set_tokens_per_second(-INFINITY);
  worker->mutable_progress()->set_wall_seconds(2.5);
  workers.add_workers()->set_worker_id("Infinity");

  const nlohmann::json json = nlohmann::json::parse(ToJson(workers, JsonStyle::kIndented));
  const nlohmann::json& first = json["workers"][0];
  EXPECT_EQ(first["worker_id"], "NaN");
  EXPECT_EQ(first["last_heard"], "1.500s");
  EXPECT_TRUE(first["progress"]["loss"].is_null());
  EXPECT_TRUE(first["progress"]["first_loss"].is_null());
  EXPECT_TRUE(first["progress"]["tokens_per_second"].is_null());
  EXPECT_EQ(first["progress"]["wall_seconds"], 2.5);
  EXPECT_EQ(first["state"], "WORKER_STATE_UNSPECIFIED");
  EXPECT_EQ(json["workers"][1]["worker_id"], "Infinity");
  EXPECT_FALSE(json["workers"][1].contains("progress")) << "no report yet";
}

TEST(MessageJsonTest, TextIsEscaped) {
  v1::GetStatusResponse status;
  status.set_reason("a \"b\"\n\x1B[2J <img>");
  const std::string text = ToJson(status, JsonStyle::kOneLine);
  EXPECT_EQ(text.find('\x1B'), std::string::npos);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(text)["reason"], status.reason());
}

TEST(MessageJsonTest, BytesThatAreNotUtf8AreReplaced) {
  v1::GetStatusResponse status;
  status.set_checkpoint_path("/data/caf\xE9/x");
  v1::FragmentRound fragment;
  fragment.add_present("ok");
  fragment.add_present("\xFF\xFE");
  EXPECT_EQ(nlohmann::json::parse(ToJson(status, JsonStyle::kOneLine))["checkpoint_path"], "/data/caf\uFFFD/x");
  EXPECT_EQ(nlohmann::json::parse(ToJson(fragment, JsonStyle::kOneLine))["present"],
            nlohmann::json({"ok", "\uFFFD\uFFFD"}));
}

}  // namespace
}  // namespace diloco
