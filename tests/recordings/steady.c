/*
 * Preloaded into each child: the clock stands still and random bytes are the same each time.
 *
 * The file that RECORDING_CLOCK names holds two numbers of 64 bits, which the recorder changes between two steps: the
 * seconds since 1970, and the step. A step has random bytes of its own, so what one drew does not change the next.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *shared;
static _Atomic uint64_t step, drawn;
static int (*real_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real_clock = dlsym(RTLD_NEXT, "clock_gettime");
    const char *name = getenv("RECORDING_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *mapped = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED) shared = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!shared || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return real_clock(clock, now);
    now->tv_sec = shared[0];
    now->tv_nsec = 0;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec got;
    int failed = clock_gettime(CLOCK_REALTIME, &got);
    now->tv_sec = got.tv_sec;
    now->tv_usec = got.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *now) {
    struct timespec got;
    clock_gettime(CLOCK_REALTIME, &got);
    if (now) *now = got.tv_sec;
    return got.tv_sec;
}

/* splitmix64 */
static uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
    (void)flags;
    uint64_t at = shared ? (uint64_t)shared[1] : 0;
    if (atomic_exchange(&step, at) != at) atomic_store(&drawn, 0);
    for (size_t i = 0; i < length; i++)
        ((unsigned char *)buffer)[i] = (unsigned char)(mixed(at * 0x100000001b3u + atomic_fetch_add(&drawn, 1)) >> 24);
    return (ssize_t)length;
}
