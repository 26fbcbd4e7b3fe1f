#include "tests/chaos/preload.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace diloco::testing {
namespace {

// An AddressSanitizer runtime wants to be the first library, which a preloaded one is instead.
std::vector<std::string> Preloaded(const std::string& library, const std::string& setting) {
  return {absl::StrCat("LD_PRELOAD=", DILOCO_PRELOAD_DIR, "/", library), setting,
          "ASAN_OPTIONS=verify_asan_link_order=0"};
}

}  // namespace

std::vector<std::string> SlowSyncs(absl::Duration each) {
  return Preloaded("libslow_sync.so", absl::StrCat("DILOCO_TEST_SYNC_MS=", absl::ToInt64Milliseconds(each)));
}

std::vector<std::string> FailingSync(const std::string& of, const std::string& when) {
  std::vector<std::string> environment = Preloaded("libfailing_sync.so", absl::StrCat("DILOCO_TEST_FAIL_SYNC_OF=", of));
  environment.push_back(absl::StrCat("DILOCO_TEST_FAIL_SYNC_WHEN=", when));
  return environment;
}

std::vector<std::string> ShiftedRealtime(const std::string& file) {
  return Preloaded("librealtime_shift.so", absl::StrCat("DILOCO_TEST_REALTIME_SHIFT=", file));
}

// In place, because running processes have mapped it.
void SetRealtimeShift(const std::string& file, absl::Duration shift) {
  const int64_t seconds = absl::ToInt64Seconds(shift);
  const int out = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  DILOCO_CHECK(out >= 0 && pwrite(out, &seconds, sizeof(seconds), 0) == sizeof(seconds));
  close(out);
}

}  // namespace diloco::testing
