// Preloaded: a wall clock that is off by the seconds, a 64-bit integer, in the file DILOCO_TEST_REALTIME_SHIFT. The file
// is mapped, so that writing it steps the clock of running processes.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* shift = NULL;

__attribute__((constructor)) static void MapShift(void) {
  const char* path = getenv("DILOCO_TEST_REALTIME_SHIFT");
  const int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) abort();
  void* mapped = mmap(NULL, sizeof(*shift), PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) abort();
  shift = mapped;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && shift != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    time->tv_sec += *shift;
  }
  return (int)result;
}

int gettimeofday(struct timeval* restrict time, void* restrict zone) {
  const long result = syscall(SYS_gettimeofday, time, zone);
  if (result == 0 && shift != NULL) time->tv_sec += *shift;
  return (int)result;
}

time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != NULL) *out = now.tv_sec;
  return now.tv_sec;
}
