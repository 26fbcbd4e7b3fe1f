#include "tests/support/hostile_message.h"

#include <functional>
#include <limits>

#include "absl/strings/str_format.h"
#include "google/protobuf/descriptor.h"

namespace diloco::testing {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Of a list: more than any bound that a count is checked against, where the message still fits the wire.
constexpr int kManyScalars = 70'000;
constexpr int kManyMessages = 2'000;

template <typename T>
std::vector<T> Integers() {
  std::vector<T> values = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 0, 1, static_cast<T>(-1)};
  for (const int bit : {31, 32, 62}) {
    if (bit < std::numeric_limits<T>::digits) values.push_back(T{1} << bit);
  }
  return values;
}

const std::vector<double>& Numbers() {
  static const std::vector<double> kValues = {0.0,
                                              -0.0,
                                              -1.0,
                                              std::numeric_limits<double>::quiet_NaN(),
                                              std::numeric_limits<double>::infinity(),
                                              -std::numeric_limits<double>::infinity(),
                                              std::numeric_limits<double>::denorm_min(),
                                              std::numeric_limits<double>::max(),
                                              std::numeric_limits<double>::lowest()};
  return kValues;
}

std::vector<std::string> Strings(FieldDescriptor::Type type) {
  std::vector<std::string> values = {"",
                                     std::string(1, '\0'),
                                     std::string(15, 'd'),
                                     std::string(16, '\0'),
                                     std::string(17, 'd'),
                                     std::string(5000, 'x'),
                                     "../../etc/passwd",
                                     "a\"b\\c\n{}",
                                     "\x1B]0;owned\x07\x1B[2J",
                                     "<img src=x onerror=alert(1)>",
                                     "%s%n{}"};
  if (type == FieldDescriptor::TYPE_BYTES) values.push_back(std::string((1 << 20) + 1, 'x'));
  values.push_back("\xC0\xA7");  // Not UTF-8: as text it does not survive parsing.
  return values;
}

// A place of a message, by field and index (-1: singular), and what is between it and the root.
class Walker {
 public:
  explicit Walker(const Message& good) : good_(good) {}

  std::vector<HostileMessage> Walk() {
    Visit(good_, "", [](Message* root) { return root; });
    return std::move(found_);
  }

 private:
  using Locate = std::function<Message*(Message* root)>;

  void Emit(std::string what, const Locate& locate, const std::function<void(Message*)>& spoil) {
    std::unique_ptr<Message> copy(good_.New());
    copy->CopyFrom(good_);
    spoil(locate(copy.get()));
    found_.push_back({std::move(what), std::move(copy)});
  }

  void Visit(const Message& message, const std::string& path, const Locate& locate) {
    const Descriptor& type = *message.GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor* field = type.field(i);
      const std::string name = path + field->name();
      Emit(name + " absent", locate, [field](Message* m) { m->GetReflection()->ClearField(m, field); });
      if (field->is_repeated()) VisitList(field, name, locate);
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        VisitInner(message, field, name, locate);
      } else {
        VisitScalar(field, name, locate);
      }
    }
  }

  void VisitInner(const Message& message, const FieldDescriptor* field, const std::string& name, const Locate& locate) {
    const Reflection& reflection = *message.GetReflection();
    const bool empty = field->is_repeated() && reflection.FieldSize(message, field) == 0;
    const Locate inner = [field, locate](Message* root) -> Message* {
      Message* outer = locate(root);
      const Reflection* r = outer->GetReflection();
      if (!field->is_repeated()) return r->MutableMessage(outer, field);
      return r->FieldSize(*outer, field) == 0 ? r->AddMessage(outer, field)
                                              : r->MutableRepeatedMessage(outer, field, 0);
    };
    const Message& sample =
        !field->is_repeated() ? reflection.GetMessage(message, field)
        : empty ? *google::protobuf::MessageFactory::generated_factory()->GetPrototype(field->message_type())
                : reflection.GetRepeatedMessage(message, field, 0);
    Visit(sample, name + (field->is_repeated() ? "[0]." : "."), inner);
  }

  void VisitList(const FieldDescriptor* field, const std::string& name, const Locate& locate) {
    const auto repeat = [this, field, name, locate](int times) {
      Emit(absl::StrFormat("%s of %d", name, times), locate, [field, times](Message* m) {
        const Reflection* r = m->GetReflection();
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          std::unique_ptr<Message> first(r->FieldSize(*m, field) == 0 ? r->AddMessage(m, field)->New()
                                                                      : r->GetRepeatedMessage(*m, field, 0).New());
          first->CopyFrom(r->GetRepeatedMessage(*m, field, 0));
          while (r->FieldSize(*m, field) < times) r->AddMessage(m, field)->CopyFrom(*first);
        } else {
          while (r->FieldSize(*m, field) < times) AddDefault(m, field);
        }
      });
    };
    repeat(2);
    repeat(field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE ? kManyMessages : kManyScalars);
  }

  static void AddDefault(Message* message, const FieldDescriptor* field) {
    const Reflection* r = message->GetReflection();
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return r->AddInt32(message, field, 0);
      case FieldDescriptor::CPPTYPE_INT64:
        return r->AddInt64(message, field, 0);
      case FieldDescriptor::CPPTYPE_UINT32:
        return r->AddUInt32(message, field, 0);
      case FieldDescriptor::CPPTYPE_UINT64:
        return r->AddUInt64(message, field, 0);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return r->AddDouble(message, field, 0);
      case FieldDescriptor::CPPTYPE_FLOAT:
        return r->AddFloat(message, field, 0);
      case FieldDescriptor::CPPTYPE_BOOL:
        return r->AddBool(message, field, false);
      case FieldDescriptor::CPPTYPE_ENUM:
        return r->AddEnumValue(message, field, 0);
      case FieldDescriptor::CPPTYPE_STRING:
        return r->AddString(message, field, "");
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return;
    }
  }

  // Emits a message for each value, set by `set` or, for the first of a list, by `set_first` or `add`.
  template <typename Value, typename Set, typename Add, typename SetFirst>
  void Each(const std::vector<Value>& values, const FieldDescriptor* field, const std::string& name,
            const Locate& locate, Set set, Add add, SetFirst set_first) {
    for (const Value& value : values) {
      std::string text;
      if constexpr (std::is_same_v<Value, std::string>) {
        text = absl::StrFormat("%d bytes \"%s\"", value.size(), value.substr(0, 20));
      } else {
        text = std::to_string(value);
      }
      Emit(name + " = " + text, locate, [=](Message* m) {
        const Reflection* r = m->GetReflection();
        if (!field->is_repeated()) {
          (r->*set)(m, field, value);
        } else if (r->FieldSize(*m, field) == 0) {
          (r->*add)(m, field, value);
        } else {
          (r->*set_first)(m, field, 0, value);
        }
      });
    }
  }

  void VisitScalar(const FieldDescriptor* field, const std::string& name, const Locate& locate) {
    using R = Reflection;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return Each(Integers<int32_t>(), field, name, locate, &R::SetInt32, &R::AddInt32, &R::SetRepeatedInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return Each(Integers<int64_t>(), field, name, locate, &R::SetInt64, &R::AddInt64, &R::SetRepeatedInt64);
      case FieldDescriptor::CPPTYPE_UINT32:
        return Each(Integers<uint32_t>(), field, name, locate, &R::SetUInt32, &R::AddUInt32, &R::SetRepeatedUInt32);
      case FieldDescriptor::CPPTYPE_UINT64:
        return Each(Integers<uint64_t>(), field, name, locate, &R::SetUInt64, &R::AddUInt64, &R::SetRepeatedUInt64);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Each(Numbers(), field, name, locate, &R::SetDouble, &R::AddDouble, &R::SetRepeatedDouble);
      case FieldDescriptor::CPPTYPE_FLOAT: {
        std::vector<float> floats;
        for (const double value : Numbers()) {
          // A conversion out of float's range is undefined.
          if (!(std::abs(value) > std::numeric_limits<float>::max()) || std::isinf(value)) {
            floats.push_back(static_cast<float>(value));
          }
        }
        return Each(floats, field, name, locate, &R::SetFloat, &R::AddFloat, &R::SetRepeatedFloat);
      }
      case FieldDescriptor::CPPTYPE_BOOL:
        return Each(std::vector<int>{0, 1}, field, name, locate, &R::SetBool, &R::AddBool, &R::SetRepeatedBool);
      case FieldDescriptor::CPPTYPE_ENUM:
        return Each(Integers<int32_t>(), field, name, locate, &R::SetEnumValue, &R::AddEnumValue,
                    &R::SetRepeatedEnumValue);
      case FieldDescriptor::CPPTYPE_STRING:
        return Each(Strings(field->type()), field, name, locate,
                    static_cast<void (R::*)(Message*, const FieldDescriptor*, std::string) const>(&R::SetString),
                    &R::AddString, &R::SetRepeatedString);
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return;
    }
  }

  const Message& good_;
  std::vector<HostileMessage> found_;
};

}  // namespace

std::vector<HostileMessage> HostileMessages(const Message& good) { return Walker(good).Walk(); }

std::string Mangled(std::string bytes, std::mt19937_64* random) {
  const auto below = [random](size_t end) { return end == 0 ? 0 : static_cast<size_t>((*random)() % end); };
  const size_t edits = 1 + below(4);
  for (size_t edit = 0; edit < edits; ++edit) {
    const size_t at = below(bytes.size());
    const size_t length = 1 + below(8);
    switch (below(5)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<char>((*random)());
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(bytes.size()), length));
        break;
      default:
        for (size_t i = 0; i < length; ++i)
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), static_cast<char>((*random)()));
    }
  }
  return bytes;
}

}  // namespace diloco::testing
