#include "supervise/family.h"

#include "base/clock.h"
#include "supervise/policy.h"
#include "watch/launch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

pen_status pen_family_adopt(struct pen_text *why)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
        return PEN_OK;
    pen_why(why, "this kernel does not give orphans to a supervisor: %s",
            strerror(errno));
    return PEN_IO;
}

/* ---- processes that exist ---- */

struct seen {
    pid_t pid;
    pid_t parent;
    uint64_t start;
    char state;
    bool is_ours;
};

struct crowd {
    struct seen *items;
    size_t count;
    size_t capacity;
};

static pen_status read_crowd(struct crowd *crowd)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    pen_status status = folder == NULL ? PEN_IO : PEN_OK;
    while (status == PEN_OK && (entry = readdir(folder)) != NULL) {
        pid_t pid = atoi(entry->d_name);
        struct pen__process process = {.state = 0};
        if (pid > 0)
            process = pen__process_read(pid);
        if (process.state == 0)
            continue;
        if (crowd->count == crowd->capacity) {
            size_t capacity = 2 * crowd->capacity + 256;
            struct seen *items =
                realloc(crowd->items, capacity * sizeof *items);
            if (items == NULL) {
                status = PEN_NOMEM;
                break;
            }
            crowd->items = items;
            crowd->capacity = capacity;
        }
        crowd->items[crowd->count++] = (struct seen){
            pid, process.parent, process.start, process.state, false};
    }
    if (folder != NULL)
        closedir(folder);
    return status;
}

static bool is_other(const struct pen_family *family, pid_t pid)
{
    for (size_t i = 0; i < family->num_others; i++)
        if (family->others[i] == pid)
            return true;
    return false;
}

static bool is_child(const struct crowd *crowd, pid_t parent, pid_t root)
{
    if (parent == root)
        return true;
    for (size_t i = 0; i < crowd->count; i++)
        if (crowd->items[i].pid == parent)
            return crowd->items[i].is_ours;
    return false;
}

/* Marks descendants, in a further pass after each generation that it finds. */
static void mark_descendants(const struct pen_family *family,
                             struct crowd *crowd)
{
    pid_t root = getpid();
    bool is_new = true;
    while (is_new) {
        is_new = false;
        for (size_t i = 0; i < crowd->count; i++) {
            struct seen *item = &crowd->items[i];
            if (item->is_ours || is_other(family, item->pid) ||
                !is_child(crowd, item->parent, root))
                continue;
            item->is_ours = is_new = true;
        }
    }
}

/* ---- members ---- */

struct environment {
    const char *bytes;
    size_t length;
};

static const char *get_variable(void *context, const char *name)
{
    const struct environment *environment = context;
    const char *at = environment->bytes;
    const char *end = at + environment->length;
    size_t length = strlen(name);
    while (at < end) {
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
        at += strlen(at) + 1;
    }
    return NULL;
}

static void read_file(pid_t pid, const char *name, struct pen_text *out)
{
    char part[4096];
    snprintf(part, sizeof part, "/proc/%d/%s", pid, name);
    int file = open(part, O_RDONLY | O_CLOEXEC);
    pen_text_clear(out);
    if (file < 0)
        return;
    ssize_t length;
    while ((length = read(file, part, sizeof part)) > 0)
        pen_text_add_bytes(out, part, (size_t)length);
    close(file);
}

/* Returns the rank of a process that trains, 0 where no launcher gives one. */
static int64_t rank_of(pid_t pid)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    int64_t rank = PEN_UNKNOWN;
    read_file(pid, "comm", &text);
    if (strcmp(pen_text_string(&text), "penstock-train\n") == 0) {
        read_file(pid, "environ", &text);
        struct environment environment = {pen_text_string(&text), text.length};
        struct pen_launch launch = pen_launch_read(get_variable, &environment);
        rank = launch.rank == PEN_LAUNCH_UNKNOWN ? 0 : (int64_t)launch.rank;
    }
    pen_text_release(&text);
    return rank;
}

static struct pen_member *find_member(const struct pen_family *family,
                                      const struct seen *item)
{
    for (size_t i = 0; i < family->count; i++)
        if (family->members[i].pid == item->pid &&
            family->members[i].start == item->start)
            return &family->members[i];
    return NULL;
}

/* Adds a process, unless it ended before its handle was open. */
static pen_status add_member(struct pen_family *family, const struct seen *item)
{
    if (family->count == family->capacity) {
        size_t capacity = 2 * family->capacity + 16;
        struct pen_member *members =
            realloc(family->members, capacity * sizeof *members);
        if (members == NULL)
            return PEN_NOMEM;
        family->members = members;
        family->capacity = capacity;
    }
    int handle = (int)syscall(SYS_pidfd_open, item->pid, 0);
    if (handle < 0)
        return PEN_OK;
    if (pen__process_read(item->pid).start != item->start) {
        close(handle);
        return PEN_OK;
    }
    family->members[family->count++] =
        (struct pen_member){.pid = item->pid,
                            .handle = handle,
                            .start = item->start,
                            .rank = rank_of(item->pid),
                            .state = item->state};
    return PEN_OK;
}

pen_status pen_family_scan(struct pen_family *family)
{
    struct crowd crowd = {NULL, 0, 0};
    pen_status status = read_crowd(&crowd);
    if (status == PEN_OK)
        mark_descendants(family, &crowd);
    for (size_t i = 0; i < crowd.count && status == PEN_OK; i++) {
        const struct seen *item = &crowd.items[i];
        if (!item->is_ours || item->state == 'Z' || item->state == 'X')
            continue;
        struct pen_member *member = find_member(family, item);
        if (member == NULL)
            status = add_member(family, item);
        else if (member->rank == PEN_UNKNOWN)
            member->rank = rank_of(member->pid); /* it may have called exec */
    }
    free(crowd.items);
    return status;
}

void pen_member_note_end(struct pen_member *member)
{
    struct pen__process process = pen__process_read(member->pid);
    member->has_ended = true;
    member->has_status = process.start == member->start && process.has_status;
    member->status = process.status;
}

void pen_family_look(struct pen_family *family, int64_t now_ns)
{
    for (size_t i = 0; i < family->count; i++) {
        struct pen_member *member = &family->members[i];
        if (member->has_ended)
            continue;
        member->state = pen__process_read(member->pid).state;
        if (member->state != 'T')
            member->stopped_ns = 0;
        else if (member->stopped_ns == 0)
            member->stopped_ns = now_ns;
    }
}

size_t pen_family_ranks(const struct pen_family *family)
{
    size_t count = 0;
    for (size_t i = 0; i < family->count; i++)
        count += !family->members[i].has_ended &&
                 family->members[i].rank != PEN_UNKNOWN;
    return count;
}

/* ---- signals ---- */

static void send(const struct pen_member *member, int number)
{
    syscall(SYS_pidfd_send_signal, member->handle, number, NULL, 0);
}

void pen_family_signal(const struct pen_family *family, int number,
                       pid_t except)
{
    for (size_t i = 0; i < family->count; i++)
        if (!family->members[i].has_ended && family->members[i].pid != except)
            send(&family->members[i], number);
}

/* Members that still live, but for the spared one. */
static size_t note_ends(struct pen_family *family, pid_t spared)
{
    size_t alive = 0;
    for (size_t i = 0; i < family->count; i++) {
        struct pen_member *member = &family->members[i];
        struct pollfd end = {.fd = member->handle, .events = POLLIN};
        if (member->has_ended || member->pid == spared)
            continue;
        if (poll(&end, 1, 0) == 1)
            pen_member_note_end(member);
        else
            alive++;
    }
    return alive;
}

/*
 * A process may make another one until it is dead, so this scans until there is
 * no new one.
 */
bool pen_family_kill(struct pen_family *family, pid_t spared, int64_t limit_ns)
{
    int64_t end = pen_clock_ns() + limit_ns;
    size_t before;
    do {
        before = family->count;
        pen_family_signal(family, SIGKILL, spared);
        while (note_ends(family, spared) > 0) {
            if (pen_clock_ns() > end)
                return false;
            poll(NULL, 0, 1);
        }
        if (pen_family_scan(family) != PEN_OK)
            return false;
    } while (family->count > before);
    return true;
}

void pen_family_release(struct pen_family *family)
{
    for (size_t i = 0; i < family->count; i++)
        close(family->members[i].handle);
    free(family->members);
    family->members = NULL;
    family->count = family->capacity = 0;
}
