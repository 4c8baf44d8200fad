// A device whose syncs take PACED_SYNC_NS nanoseconds at least: preloaded, it lengthens fdatasync, fsync and msync.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static struct timespec end_of_pace(void) {
  static long pace_ns = -1;
  if (pace_ns < 0) {
    const char *given = getenv("PACED_SYNC_NS");
    pace_ns = given ? atol(given) : 0;
  }
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_nsec += pace_ns;
  end.tv_sec += end.tv_nsec / 1000000000;
  end.tv_nsec %= 1000000000;
  return end;
}

// The usual slack of a timer is 50 us, half of what a sync takes.
static void wait_until(const struct timespec *end) {
  int error = errno;
  prctl(PR_SET_TIMERSLACK, 1);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, end, 0) == EINTR) {
  }
  errno = error;
}

#define PACED(name, parameters, arguments)                                     \
  int name parameters {                                                        \
    static int(*real) parameters;                                              \
    if (!real) real = (int(*) parameters)dlsym(RTLD_NEXT, #name);              \
    struct timespec end = end_of_pace();                                       \
    int answer = real arguments;                                               \
    wait_until(&end);                                                          \
    return answer;                                                             \
  }

PACED(fdatasync, (int file), (file))
PACED(fsync, (int file), (file))
PACED(msync, (void *start, size_t size, int flags), (start, size, flags))
