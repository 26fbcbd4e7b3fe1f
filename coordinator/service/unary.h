// A unary call: checked here, answered by the driver.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/rpc/status.h"
#include "coordinator/service/call_record.h"
#include "coordinator/service/service_world.h"

namespace diloco {

// `form`: what CheckForm says of the request. `call`: the driver's function for it, which always answers.
template <typename Request, typename Response>
grpc::ServerUnaryReactor* AnswerCall(const ServiceWorld& world, Method method, grpc::CallbackServerContext* context,
                                     const Request& request, const absl::Status& form, Response* response,
                                     void (Driver::*call)(Request, Reply<Response>)) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const CallRecord record(world.metrics, method);
  const auto finish = [reactor, record](const absl::Status& status) {
    record.Finished(status.code());
    reactor->Finish(ToGrpcStatus(status));
  };
  if (!form.ok()) {
    finish(form);
    return reactor;
  }
  (world.driver->*call)(request, [finish, response](absl::StatusOr<Response> result) {
    if (result.ok()) *response = *std::move(result);
    finish(result.status());
  });
  return reactor;
}

}  // namespace diloco
