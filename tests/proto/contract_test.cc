// What holds for every message of the wire contract, whatever it gains later.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"

#include "diloco/v1/admin.pb.h"
#include "diloco/v1/worker.pb.h"

namespace diloco {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;

std::vector<const MethodDescriptor*> Methods() {
  std::vector<const MethodDescriptor*> methods;
  for (const auto* file : {v1::JoinRequest::descriptor()->file(), v1::GetStatusRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) methods.push_back(file->service(s)->method(m));
    }
  }
  return methods;
}

bool NamesARun(const Descriptor& type) {
  const FieldDescriptor* field = type.FindFieldByName("run_id");
  return field != nullptr && field->type() == FieldDescriptor::TYPE_STRING && !field->is_repeated();
}

// `type` and all that it is made of.
void Collect(const Descriptor* type, std::set<const Descriptor*>* seen) {
  if (!seen->insert(type).second) return;
  for (int i = 0; i < type->field_count(); ++i) {
    if (type->field(i)->message_type() != nullptr) Collect(type->field(i)->message_type(), seen);
  }
}

// A message that is nothing but a choice names its run in every item that says something of its own.
TEST(ContractTest, EveryMessageOfACallNamesItsRun) {
  ASSERT_GE(Methods().size(), 12u);
  for (const MethodDescriptor* method : Methods()) {
    EXPECT_TRUE(NamesARun(*method->input_type())) << method->input_type()->full_name();
    const Descriptor& output = *method->output_type();
    if (NamesARun(output)) continue;
    ASSERT_EQ(output.oneof_decl_count(), 1) << output.full_name() << " names no run";
    for (int i = 0; i < output.field_count(); ++i) {
      EXPECT_TRUE(NamesARun(*output.field(i)->message_type())) << output.field(i)->message_type()->full_name();
    }
  }
}

// The machines' wall clocks need not agree, so nothing that is sent depends on one.
TEST(ContractTest, TimesAreDurations) {
  std::set<const Descriptor*> types;
  for (const MethodDescriptor* method : Methods()) {
    Collect(method->input_type(), &types);
    Collect(method->output_type(), &types);
  }
  ASSERT_GE(types.size(), 30u);
  for (const Descriptor* type : types) {
    EXPECT_NE(type->full_name(), "google.protobuf.Timestamp");
    for (int i = 0; i < type->field_count(); ++i) {
      const std::string& name = type->field(i)->name();
      for (const std::string ending : {"_at", "_time", "_timestamp", "_unix", "_date"}) {
        EXPECT_FALSE(name.ends_with(ending)) << type->full_name() << "." << name;
      }
    }
  }
}

}  // namespace
}  // namespace diloco
