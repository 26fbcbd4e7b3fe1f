#include "coordinator/ctl/json_output.h"

#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"

#include "common/base/check.h"
#include <nlohmann/json.hpp>

namespace diloco {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::FieldDescriptor;

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

}  // namespace

std::string ToJson(const google::protobuf::Message& message, JsonStyle style) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  DILOCO_CHECK(google::protobuf::util::MessageToJsonString(message, &text, options).ok());
  Json json = Json::parse(text);
  NullNonFinite(*message.GetDescriptor(), json);
  return json.dump(style == JsonStyle::kIndented ? 2 : -1) + "\n";
}

}  // namespace diloco
