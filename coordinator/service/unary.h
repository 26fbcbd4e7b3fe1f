// A unary call: its caller and its form are checked here, the driver answers.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/rpc/status.h"
#include "coordinator/service/access.h"
#include "coordinator/service/call_record.h"
#include "coordinator/service/gatekeeper.h"
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
  const absl::StatusOr<std::shared_ptr<const Caller>> caller = world.gate->Admit(method, *context);
  absl::Status status = caller.ok() ? form : caller.status();
  if constexpr (requires { request.worker_id(); }) {
    // An administrator's names the worker that it is about.
    if (status.ok() && AccessOf(method) == Access::kTraining) status = (*caller)->MaySpeakFor(request.worker_id());
  }
  if (!status.ok()) {
    finish(status);
    return reactor;
  }
  // Counts among its open calls until this one is over.
  (world.driver->*call)(request, [finish, response, held = *caller](absl::StatusOr<Response> result) {
    if (result.ok()) *response = *std::move(result);
    finish(result.status());
  });
  return reactor;
}

}  // namespace diloco
