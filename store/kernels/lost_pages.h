/* A handler of SIGBUS: a page of a watched map that can't be read becomes a page of zeros, and is noted.

   The handler runs in the thread that touched the page, at any point of its work. So it allocates no memory, and calls
   only mmap, sigaction and raise, which are plain system calls. */

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* vm.max_map_count is 65,530 by default. */
enum { MOST_MAPS = 1 << 16, MOST_LOST_RANGES = 1024 };

static struct { uintptr_t start, stop; int protection; } watched_maps[MOST_MAPS];
static struct { uintptr_t start, stop; } lost_ranges[MOST_LOST_RANGES];
static int watched_end, lost_range_count;
static volatile long long lost_pages, settled_pages;
static uintptr_t page_size;
static struct sigaction action_before;
static char lost_pages_lock;

/* No code that holds the lock touches a file's page, so no thread waits for itself. */
static inline void lock_lost_pages(void) {
    while (__atomic_test_and_set(&lost_pages_lock, __ATOMIC_ACQUIRE)) {}
}

static inline void unlock_lost_pages(void) { __atomic_clear(&lost_pages_lock, __ATOMIC_RELEASE); }

/* Number of the watched map that holds the page, or -1. */
static int find_watched(uintptr_t page) {
    for (int number = 0; number < watched_end; number++)
        if (watched_maps[number].start <= page && page < watched_maps[number].stop) return number;
    return -1;
}

/* Returns 0 without room for another range. A page that two threads touch at once is noted once. */
static int note_lost_page(uintptr_t page) {
    for (int i = 0; i < lost_range_count; i++)
        if (lost_ranges[i].start <= page && page < lost_ranges[i].stop) return 1;
    if (lost_range_count && lost_ranges[lost_range_count - 1].stop == page) {
        lost_ranges[lost_range_count - 1].stop += page_size;
    } else {
        if (lost_range_count == MOST_LOST_RANGES) return 0;
        lost_ranges[lost_range_count].start = page;
        lost_ranges[lost_range_count++].stop = page + page_size;
    }
    lost_pages++;
    return 1;
}

static int replace_page(uintptr_t page) {
    int number, is_replaced = 0, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    lock_lost_pages();
    number = find_watched(page);
    if (number >= 0 && note_lost_page(page))
        is_replaced = mmap((void *)page, page_size, watched_maps[number].protection, flags, -1, 0) != MAP_FAILED;
    unlock_lost_pages();
    return is_replaced;
}

static void on_bus_error(int signal_number, siginfo_t *info, void *context) {
    int before = errno;
    /* 4 is BUS_MCEERR_AR, a memory error, which POSIX does not define. */
    int is_touch = info->si_code == BUS_ADRERR || info->si_code == 4;
    (void)context;
    if (!is_touch || !replace_page((uintptr_t)info->si_addr & ~(page_size - 1))) {
        /* The access is repeated, and ends as it would have without this handler. */
        sigaction(SIGBUS, &action_before, NULL);
        if (info->si_code <= 0) raise(signal_number);
    }
    errno = before;
}

/* Returns whether the handler is installed. */
static inline int install_handler(void) {
#ifdef __linux__
    struct sigaction action;
    if (page_size) return 1;
    page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, &action_before) == 0) return 1;
    page_size = 0;
#endif
    return 0;
}

static inline void set_watched(int number, unsigned long long start, unsigned long long size, int is_writable) {
    lock_lost_pages();
    watched_maps[number].start = (uintptr_t)start;
    watched_maps[number].stop = (uintptr_t)(start + size + page_size - 1) & ~(page_size - 1);
    watched_maps[number].protection = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
    if (!size) watched_maps[number].stop = 0;
    if (number >= watched_end) watched_end = number + 1;
    unlock_lost_pages();
}

/* Removes one noted range and returns 1; 0 without any. */
static inline int take_lost_range(unsigned long long *start, unsigned long long *stop) {
    int is_there;
    lock_lost_pages();
    is_there = lost_range_count > 0;
    if (is_there) {
        *start = lost_ranges[--lost_range_count].start;
        *stop = lost_ranges[lost_range_count].stop;
    }
    unlock_lost_pages();
    return is_there;
}

static inline int has_lost_page(void) { return lost_pages != settled_pages; }
