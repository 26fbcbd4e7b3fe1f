// Preloaded: a disk whose syncs take DILOCO_TEST_SYNC_MS longer. What was synced is on disk before the wait, so that a
// process can be killed between the two.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int Slow(long number, int file) {
  const long result = syscall(number, file);
  const char* text = getenv("DILOCO_TEST_SYNC_MS");
  const long milliseconds = text == NULL ? 0 : strtol(text, NULL, 10);
  const struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&pause, NULL);
  return (int)result;
}

int fsync(int file) { return Slow(SYS_fsync, file); }
int fdatasync(int file) { return Slow(SYS_fdatasync, file); }
