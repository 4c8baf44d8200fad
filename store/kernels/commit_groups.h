/* The clock and the sync of commit_groups.pxd. */

#include <errno.h>
#include <time.h>
#include <unistd.h>
#include <sys/stat.h>

static inline long long monotonic_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

enum { SYNCED = 0, FOR_PYTHON = -1 };

/* SYNCED, or an errno, or FOR_PYTHON: the file is shorter than `size`, or this system has no fdatasync, and the caller
   uses Filesystem.fdatasync. */
static inline int sync_file(int descriptor, long long size) {
#ifdef __linux__
    struct stat status;
    while (fdatasync(descriptor))
        if (errno != EINTR) return errno;
    return fstat(descriptor, &status) == 0 && status.st_size >= size ? SYNCED : FOR_PYTHON;
#else
    (void)descriptor, (void)size;
    return FOR_PYTHON;
#endif
}
