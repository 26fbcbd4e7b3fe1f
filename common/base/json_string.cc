#include "common/base/json_string.h"

#include "nlohmann/json.hpp"

namespace diloco {

std::string JsonString(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

}  // namespace diloco
