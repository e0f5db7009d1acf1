// Writes down, in one order for all threads and child processes, what a program does to the
// files below one directory: what a disk would be asked to do. Preloaded into the server.
//
// RECORDER_ROOT names the directory, RECORDER_LOG the file that is appended to. A record is
// written after its call succeeded; of a sync, also one before it. `power/log.rs` reads them.
//
// What could change a file past these calls (a shared writable mapping, a duplicated
// descriptor, space set aside) is written down as a problem, which fails the test. The
// `-shm` file of SQLite is left out: it is rebuilt after a crash.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN = 1, WRITE, TRUNCATE, SYNC_BEGIN, SYNC_END, RENAME, UNLINK, MKDIR, RMDIR, CLOSE, LINK, PROBLEM };

struct header {
    uint32_t kind, process;
    int32_t file;
    uint32_t first_length, second_length, flags;
    uint64_t offset;
};

#define FILES 65536
static unsigned char tracked[FILES];
static int log_file = -1;
static char root[PATH_MAX];
static size_t root_length;

// The real call of this name.
#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static void start(void) {
    const char *directory = getenv("RECORDER_ROOT"), *path = getenv("RECORDER_LOG");
    if (log_file >= 0 || !directory || !path) return;
    snprintf(root, sizeof root, "%s", directory);
    root_length = strlen(root);
    log_file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

__attribute__((constructor)) static void loaded(void) { start(); }

static void record(enum kind kind, int file, uint64_t offset, uint32_t flags, const void *first, size_t first_length,
                   const void *second, size_t second_length) {
    int before = errno;
    struct header header = {kind, (uint32_t)getpid(), file, (uint32_t)first_length, (uint32_t)second_length, flags, offset};
    struct iovec parts[3] = {{&header, sizeof header}, {(void *)first, first_length}, {(void *)second, second_length}};
    // One call on a file opened for appending: records of several writers do not mix.
    ssize_t written = syscall(SYS_writev, log_file, parts, 3);
    if (written != (ssize_t)(sizeof header + first_length + second_length)) abort();
    errno = before;
}

static void problem(const char *what) { record(PROBLEM, -1, 0, 0, what, strlen(what), NULL, 0); }

// The whole path, if it lies below the root and matters.
static int below_root(int directory, const char *path, char *whole) {
    if (log_file < 0 || !path) return 0;
    char base[PATH_MAX] = "";
    if (path[0] != '/') {
        char link[64];
        if (directory == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
        ssize_t length = readlink(link, base, sizeof base - 2);
        if (length < 0) return 0;
        base[length] = '/';
        base[length + 1] = 0;
    }
    if (snprintf(whole, PATH_MAX, "%s%s", base, path) >= PATH_MAX) return 0;
    size_t length = strlen(whole);
    while (length > 1 && whole[length - 1] == '/') whole[--length] = 0;
    if (strncmp(whole, root, root_length) || (whole[root_length] && whole[root_length] != '/')) return 0;
    return length < 4 || strcmp(whole + length - 4, "-shm");
}

static int is_tracked(int file) { return file >= 0 && file < FILES && tracked[file]; }

static int opened(int file, int directory, const char *path, int flags) {
    char whole[PATH_MAX];
    if (file < 0 || file >= FILES) return file;
    tracked[file] = 0;
    if (!below_root(directory, path, whole)) return file;
    tracked[file] = 1;
    record(OPEN, file, 0, (uint32_t)flags, whole, strlen(whole), NULL, 0);
    return file;
}

static mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define OPEN_LIKE(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = mode_of(flags, arguments); \
        va_end(arguments); \
        return opened(real(path, flags, mode), AT_FDCWD, path, flags); \
    }
OPEN_LIKE(open)
OPEN_LIKE(open64)

#define OPENAT_LIKE(name) \
    int name(int directory, const char *path, int flags, ...) { \
        REAL(name); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = mode_of(flags, arguments); \
        va_end(arguments); \
        return opened(real(directory, path, flags, mode), directory, path, flags); \
    }
OPENAT_LIKE(openat)
OPENAT_LIKE(openat64)

int close(int file) {
    REAL(close);
    if (is_tracked(file)) {
        // Before the call: the number may be in use again right after it.
        record(CLOSE, file, 0, 0, NULL, 0, NULL, 0);
        tracked[file] = 0;
    }
    return real(file);
}

ssize_t write(int file, const void *bytes, size_t length) {
    REAL(write);
    ssize_t written = real(file, bytes, length);
    if (written > 0 && is_tracked(file)) {
        off_t end = lseek(file, 0, SEEK_CUR);
        record(WRITE, file, (uint64_t)(end - written), 0, bytes, (size_t)written, NULL, 0);
    }
    return written;
}

#define PWRITE_LIKE(name, offset_type) \
    ssize_t name(int file, const void *bytes, size_t length, offset_type offset) { \
        REAL(name); \
        ssize_t written = real(file, bytes, length, offset); \
        if (written > 0 && is_tracked(file)) \
            record(WRITE, file, (uint64_t)offset, 0, bytes, (size_t)written, NULL, 0); \
        return written; \
    }
PWRITE_LIKE(pwrite, off_t)
PWRITE_LIKE(pwrite64, off64_t)

ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(writev);
    if (is_tracked(file)) problem("writev to a file is not recorded");
    return real(file, parts, count);
}

#define TRUNCATE_LIKE(name, offset_type) \
    int name(int file, offset_type length) { \
        REAL(name); \
        int result = real(file, length); \
        if (!result && is_tracked(file)) record(TRUNCATE, file, (uint64_t)length, 0, NULL, 0, NULL, 0); \
        return result; \
    }
TRUNCATE_LIKE(ftruncate, off_t)
TRUNCATE_LIKE(ftruncate64, off64_t)

#define SYNC_LIKE(name) \
    int name(int file) { \
        REAL(name); \
        if (!is_tracked(file)) return real(file); \
        uint64_t thread = (uint64_t)syscall(SYS_gettid); \
        record(SYNC_BEGIN, file, thread, 0, NULL, 0, NULL, 0); \
        int result = real(file); \
        if (!result) record(SYNC_END, file, thread, 0, NULL, 0, NULL, 0); \
        return result; \
    }
SYNC_LIKE(fsync)
SYNC_LIKE(fdatasync)

static int moved(enum kind kind, int result, int from_directory, const char *from, int to_directory, const char *to) {
    char old[PATH_MAX], new[PATH_MAX];
    if (result) return result;
    int has_old = below_root(from_directory, from, old), has_new = below_root(to_directory, to, new);
    if (has_old && has_new) record(kind, -1, 0, 0, old, strlen(old), new, strlen(new));
    else if (has_old || has_new) problem("a file came or went across the border of the directory");
    return result;
}

int rename(const char *from, const char *to) {
    REAL(rename);
    return moved(RENAME, real(from, to), AT_FDCWD, from, AT_FDCWD, to);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to) {
    REAL(renameat);
    return moved(RENAME, real(from_directory, from, to_directory, to), from_directory, from, to_directory, to);
}

int link(const char *from, const char *to) {
    REAL(link);
    return moved(LINK, real(from, to), AT_FDCWD, from, AT_FDCWD, to);
}

int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags) {
    REAL(linkat);
    return moved(LINK, real(from_directory, from, to_directory, to, flags), from_directory, from, to_directory, to);
}

static int named(enum kind kind, int result, int directory, const char *path) {
    char whole[PATH_MAX];
    if (!result && below_root(directory, path, whole)) record(kind, -1, 0, 0, whole, strlen(whole), NULL, 0);
    return result;
}

int unlink(const char *path) {
    REAL(unlink);
    return named(UNLINK, real(path), AT_FDCWD, path);
}

int rmdir(const char *path) {
    REAL(rmdir);
    return named(RMDIR, real(path), AT_FDCWD, path);
}

int unlinkat(int directory, const char *path, int flags) {
    REAL(unlinkat);
    return named(flags & AT_REMOVEDIR ? RMDIR : UNLINK, real(directory, path, flags), directory, path);
}

int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return named(MKDIR, real(path, mode), AT_FDCWD, path);
}

int mkdirat(int directory, const char *path, mode_t mode) {
    REAL(mkdirat);
    return named(MKDIR, real(directory, path, mode), directory, path);
}

#define MMAP_LIKE(name, offset_type) \
    void *name(void *address, size_t length, int protection, int flags, int file, offset_type offset) { \
        REAL(name); \
        if ((flags & MAP_SHARED) && (protection & PROT_WRITE) && is_tracked(file)) \
            problem("a file is written through a mapping"); \
        return real(address, length, protection, flags, file, offset); \
    }
MMAP_LIKE(mmap, off_t)
MMAP_LIKE(mmap64, off64_t)

int dup(int file) {
    REAL(dup);
    if (is_tracked(file)) problem("a descriptor is duplicated");
    return real(file);
}

// A file that came with the process, once the process takes it as its own.
static void inherited(int file) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = file < 0 ? -1 : readlink(link, path, sizeof path - 1);
    if (length < 0) return;
    path[length] = 0;
    opened(file, AT_FDCWD, path, 0);
}

#define FCNTL_LIKE(name) \
    int name(int file, int command, ...) { \
        REAL(name); \
        va_list arguments; \
        va_start(arguments, command); \
        void *argument = va_arg(arguments, void *); \
        va_end(arguments); \
        int result = real(file, command, argument); \
        if (command != F_DUPFD && command != F_DUPFD_CLOEXEC) return result; \
        if (is_tracked(file)) problem("a descriptor is duplicated"); \
        else inherited(result); \
        return result; \
    }
FCNTL_LIKE(fcntl)
FCNTL_LIKE(fcntl64)

#define FALLOCATE_LIKE(name, offset_type) \
    int name(int file, offset_type offset, offset_type length) { \
        REAL(name); \
        if (is_tracked(file)) problem("space is set aside"); \
        return real(file, offset, length); \
    }
FALLOCATE_LIKE(posix_fallocate, off_t)
FALLOCATE_LIKE(posix_fallocate64, off64_t)

// A child gets a clean environment from the server; it must be recorded all the same.
static char **with_recorder(char *const given[]) {
    static const char *names[] = {"LD_PRELOAD", "RECORDER_ROOT", "RECORDER_LOG"};
    size_t count = 0;
    while (given && given[count]) count++;
    char **all = calloc(count + 4, sizeof *all);
    if (!all) abort();
    if (count) memcpy(all, given, count * sizeof *all);
    for (size_t index = 0; index < 3; index++) {
        const char *value = getenv(names[index]);
        if (value && asprintf(&all[count++], "%s=%s", names[index], value) < 0) abort();
    }
    return all;
}

#define SPAWN_LIKE(name) \
    int name(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes, \
             char *const arguments[], char *const environment[]) { \
        REAL(name); \
        return real(child, path, actions, attributes, arguments, with_recorder(environment)); \
    }
SPAWN_LIKE(posix_spawn)
SPAWN_LIKE(posix_spawnp)
