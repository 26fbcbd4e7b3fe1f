// Preloaded: the next sync of a file whose name contains DILOCO_TEST_FAIL_SYNC_OF fails with EIO, once the file that
// DILOCO_TEST_FAIL_SYNC_WHEN names exists; that file is then removed.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int Sync(long number, int file) {
  const char* of = getenv("DILOCO_TEST_FAIL_SYNC_OF");
  const char* when = getenv("DILOCO_TEST_FAIL_SYNC_WHEN");
  char link[64];
  char name[4096] = "";
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  if (of != NULL && when != NULL && readlink(link, name, sizeof(name) - 1) > 0 && strstr(name, of) != NULL &&
      unlink(when) == 0) {
    errno = EIO;
    return -1;
  }
  return (int)syscall(number, file);
}

int fsync(int file) { return Sync(SYS_fsync, file); }
int fdatasync(int file) { return Sync(SYS_fdatasync, file); }
