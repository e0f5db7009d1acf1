/* Preloaded into the server: as long as the file FAULTS_CONTROL has a word in it, whatever is
 * written below FAULTS_BELOW fails as that disk would: "full" or "read-only". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The error that a write gets now, or 0. */
static int fault(void)
{
    static int (*real_open)(const char *, int, ...);
    static ssize_t (*real_read)(int, void *, size_t);
    const char *control = getenv("FAULTS_CONTROL");
    char word[16] = {0};
    if (!real_open) {
        real_open = REAL(open);
        real_read = REAL(read);
    }
    int fd = control ? real_open(control, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t count = real_read(fd, word, sizeof word - 1);
    close(fd);
    if (count > 0 && !strncmp(word, "full", 4))
        return ENOSPC;
    if (count > 0 && !strncmp(word, "read-only", 9))
        return EROFS;
    return 0;
}

static int is_below(const char *path)
{
    const char *below = getenv("FAULTS_BELOW");
    return below && path && !strncmp(path, below, strlen(below));
}

/* Whether a write into an open file fails now. */
static int fails(int fd)
{
    int error = fault();
    if (!error)
        return 0;
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    if (!is_below(path))
        return 0;
    errno = error;
    return 1;
}

/* Whether a file cannot be made or opened for writing now. */
static int is_refused(const char *path, int flags)
{
    int error = fault();
    int makes = (flags & O_CREAT) != 0, writes = (flags & O_ACCMODE) != O_RDONLY;
    if (!error || !is_below(path) || (error == EROFS ? !(makes || writes) : !makes))
        return 0;
    if (error == ENOSPC && access(path, F_OK) == 0)
        return 0;
    errno = error;
    return 1;
}

#define OPEN(name)                                                                    \
    int name(const char *path, int flags, ...)                                        \
    {                                                                                 \
        va_list rest;                                                                 \
        va_start(rest, flags);                                                        \
        mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;     \
        va_end(rest);                                                                 \
        return is_refused(path, flags) ? -1 : REAL(name)(path, flags, mode);          \
    }

OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *bytes, size_t count)
{
    return fails(fd) ? -1 : REAL(write)(fd, bytes, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    return fails(fd) ? -1 : REAL(pwrite)(fd, bytes, count, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at)
{
    return fails(fd) ? -1 : REAL(pwrite64)(fd, bytes, count, at);
}

int ftruncate(int fd, off_t length)
{
    return fails(fd) ? -1 : REAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length)
{
    return fails(fd) ? -1 : REAL(ftruncate64)(fd, length);
}

int rename(const char *from, const char *to)
{
    if (fault() == EROFS && is_below(to)) {
        errno = EROFS;
        return -1;
    }
    return REAL(rename)(from, to);
}
