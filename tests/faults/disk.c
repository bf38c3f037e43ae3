// A disk that fails, for tests: preloaded, it counts the calls by which a program changes files below the folder
// FAULTS_BELOW, and from the one with the number FAULTS_AT on does what FAULTS_HOW says:
//   full   every write fails for want of space
//   once   this call alone fails
//   lost   the machine goes down: what was not synced is gone from all files, and the program is killed
// At its end the program writes the number of calls to the file FAULTS_COUNT.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FILES 4096

// Files that were written to: another descriptor of each, and the length that is safe.
static struct { dev_t device; ino_t file; int descriptor; off_t synced; int dirty; } written[FILES];
static int files;
static long calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int is_below(const char *path) {
    const char *below = getenv("FAULTS_BELOW");
    return below && strncmp(path, below, strlen(below)) == 0;
}

static int concerns(int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

// The place of a file among those that were written to; it is added if it is not there.
static int place_of(int descriptor) {
    struct stat found;
    if (fstat(descriptor, &found) || !S_ISREG(found.st_mode)) return -1;
    for (int at = 0; at < files; at++)
        if (written[at].device == found.st_dev && written[at].file == found.st_ino) return at;
    if (files == FILES) return -1;
    written[files].device = found.st_dev;
    written[files].file = found.st_ino;
    written[files].descriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 500);
    written[files].synced = found.st_size;
    return files++;
}

static void go_down(void) {
    for (int at = 0; at < files; at++)
        if (written[at].dirty && ftruncate(written[at].descriptor, written[at].synced)) continue;
    kill(getpid(), SIGKILL);
    pause();
}

// Counts a call; not 0 if it is to fail, with errno set.
static int fails(int is_write) {
    const char *how = getenv("FAULTS_HOW"), *number = getenv("FAULTS_AT");
    pthread_mutex_lock(&lock);
    long call = ++calls, at = number ? atol(number) : 0;
    if (how && at && call == at && strcmp(how, "lost") == 0) go_down();
    pthread_mutex_unlock(&lock);
    if (!how || !at) return 0;
    int is_full = strcmp(how, "full") == 0 && call >= at && is_write;
    int is_once = strcmp(how, "once") == 0 && call == at;
    if (is_full) errno = ENOSPC;
    if (is_once) errno = EIO;
    return is_full || is_once;
}

static void note_write(int descriptor) {
    int before = errno;
    pthread_mutex_lock(&lock);
    int at = place_of(descriptor);
    if (at >= 0) written[at].dirty = 1;
    pthread_mutex_unlock(&lock);
    errno = before;
}

static void note_sync(int descriptor) {
    pthread_mutex_lock(&lock);
    int at = place_of(descriptor);
    struct stat found;
    if (at >= 0 && fstat(descriptor, &found) == 0) {
        written[at].synced = found.st_size;
        written[at].dirty = 0;
    }
    pthread_mutex_unlock(&lock);
}

#define CHANGES(type, name, parameters, arguments)                 \
    type name parameters {                                         \
        if (!concerns(to)) return REAL(name) arguments;            \
        note_write(to);                                            \
        if (fails(1)) return -1;                                   \
        return REAL(name) arguments;                               \
    }

CHANGES(ssize_t, write, (int to, const void *bytes, size_t length), (to, bytes, length))
CHANGES(ssize_t, writev, (int to, const struct iovec *parts, int number), (to, parts, number))
CHANGES(ssize_t, pwrite64, (int to, const void *bytes, size_t length, off64_t at), (to, bytes, length, at))
CHANGES(int, ftruncate64, (int to, off64_t length), (to, length))
CHANGES(ssize_t, copy_file_range, (int from, off64_t *at, int to, off64_t *place, size_t length, unsigned flags),
        (from, at, to, place, length, flags))

#define SYNCS(name)                                                \
    int name(int descriptor) {                                     \
        if (!concerns(descriptor)) return REAL(name)(descriptor);  \
        if (fails(0)) return -1;                                   \
        int done = REAL(name)(descriptor);                         \
        if (done == 0) note_sync(descriptor);                      \
        return done;                                               \
    }

SYNCS(fsync)
SYNCS(fdatasync)

int rename(const char *from, const char *to) {
    if (is_below(to) && fails(0)) return -1;
    return REAL(rename)(from, to);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    if (flags & O_CREAT && is_below(path) && fails(1)) return -1;
    return REAL(open64)(path, flags, mode);
}

__attribute__((destructor)) static void tell(void) {
    const char *path = getenv("FAULTS_COUNT");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld\n", calls);
        fclose(file);
    }
}
