#include "common/json/message_json.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/time_util.h"

#include "common/base/check.h"
#include "common/base/utf8.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// protobuf writes NaN and infinities as strings, which a text field could hold as well: the descriptor tells them
// apart.
void NullNonFinite(const google::protobuf::Descriptor& type, Json& object) {
  if (!object.is_object()) return;  // A well-known type such as Duration, printed as a string.
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const auto found = object.find(field.name());
    if (found == object.end()) continue;
    const auto visit = [&](Json& value) {
      const auto cpp = field.cpp_type();
      if (cpp == FieldDescriptor::CPPTYPE_MESSAGE) {
        NullNonFinite(*field.message_type(), value);
      } else if ((cpp == FieldDescriptor::CPPTYPE_DOUBLE || cpp == FieldDescriptor::CPPTYPE_FLOAT) &&
                 value.is_string()) {
        value = nullptr;
      }
    };
    if (!field.is_repeated()) {
      visit(*found);
    } else if (found->is_array()) {
      for (Json& item : *found) visit(item);
    }
  }
}

bool IsValid(const google::protobuf::Duration& duration) {
  using google::protobuf::util::TimeUtil;
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  return seconds >= TimeUtil::kDurationMinSeconds && seconds <= TimeUtil::kDurationMaxSeconds &&
         nanos > -1'000'000'000 && nanos < 1'000'000'000 && (seconds >= 0 || nanos <= 0) &&
         (seconds <= 0 || nanos >= 0);
}

// Each byte that breaks UTF-8 becomes the replacement character.
std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string valid;
  while (true) {
    const size_t good = ValidUtf8Prefix(text);
    valid += text.substr(0, good);
    if (good == text.size()) return valid;
    valid += "\uFFFD";
    text.remove_prefix(good + 1);
  }
}

void MendString(const FieldDescriptor& field, Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  if (!field.is_repeated()) {
    const std::string text = reflection.GetString(*message, &field);
    if (!IsValidUtf8(text)) reflection.SetString(message, &field, ReplaceInvalidUtf8(text));
    return;
  }
  for (int i = 0; i < reflection.FieldSize(*message, &field); ++i) {
    const std::string text = reflection.GetRepeatedString(*message, &field, i);
    if (!IsValidUtf8(text)) reflection.SetRepeatedString(message, &field, i, ReplaceInvalidUtf8(text));
  }
}

// Takes out what protobuf's JSON cannot have.
void Mend(Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->type() == FieldDescriptor::TYPE_STRING) MendString(*field, message);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
        Mend(reflection.MutableRepeatedMessage(message, field, i));
      }
      continue;
    }
    Message* inner = reflection.MutableMessage(message, field);
    const auto* duration = dynamic_cast<const google::protobuf::Duration*>(inner);
    if (duration == nullptr) {
      Mend(inner);
    } else if (!IsValid(*duration)) {
      reflection.ClearField(message, field);
    }
  }
}

}  // namespace

std::string ToJson(const Message& message, JsonStyle style) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  const std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  Mend(copy.get());
  std::string text;
  DILOCO_CHECK(google::protobuf::util::MessageToJsonString(*copy, &text, options).ok());
  Json json = Json::parse(text);
  NullNonFinite(*message.GetDescriptor(), json);
  return json.dump(style == JsonStyle::kIndented ? 2 : -1) + "\n";
}

}  // namespace diloco
