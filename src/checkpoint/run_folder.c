/*
 * The lock on the folder of a run, held by its owner. Locks are those of open
 * file descriptions (F_OFD_SETLK): they work over NFS, and a reader of the file
 * in the same process does not lose them.
 */
#define _GNU_SOURCE /* NOLINT(bugprone-reserved-identifier): F_OFD_SETLK */
#include "checkpoint/run_folder.h"

#include "base/bug.h"
#include "base/draft.h"
#include "base/file.h"
#include "checkpoint/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_NAME ".lock"
#define HOST_SIZE 65

/*
 * Pauses between attempts: a rank that has ended may leave a process that has
 * its files for up to a second (watch/leave.h), and a job may be started again
 * at once.
 */
#define PAUSE_NS 50000000
enum { MOST_PAUSES = 40 };

static pen_status refuse_memory(struct pen_text *why)
{
    pen_why(why, "no memory to claim the folder of a run");
    return PEN_NOMEM;
}

/* ---- the lock ---- */

/* The contents of the lock file. */
struct holder {
    char run[PEN_RUN_ID_SIZE];
    char host[HOST_SIZE];
    long process;
};

static struct holder describe_self(const char *run)
{
    struct holder self = {.host = "?", .process = (long)getpid()};
    snprintf(self.run, sizeof self.run, "%s", run);
    (void)gethostname(self.host, sizeof self.host - 1);
    return self;
}

/* Returns false when the file does not name its holder. */
static bool read_holder(int handle, struct holder *out)
{
    char text[PEN_RUN_ID_SIZE + HOST_SIZE + 32];
    ssize_t length = pread(handle, text, sizeof text - 1, 0);
    if (length <= 0)
        return false;
    text[length] = '\0';
    return sscanf(text, "%16[0-9a-f] %64[a-zA-Z0-9._?-] %ld", out->run,
                  out->host, &out->process) == 3 &&
           pen_run_id_is_valid(out->run);
}

static pen_status write_holder(int handle, const char *path, const char *run,
                               struct pen_text *why)
{
    char text[PEN_RUN_ID_SIZE + HOST_SIZE + 32];
    struct holder self = describe_self(run);
    int length = snprintf(text, sizeof text, "%s %s %ld\n", self.run, self.host,
                          self.process);
    if (ftruncate(handle, 0) == 0 &&
        pwrite(handle, text, (size_t)length, 0) == (ssize_t)length &&
        fsync(handle) == 0)
        return PEN_OK;
    return pen_file_refuse("write", path, why);
}

static pen_status refuse_second(const char *folder, int handle,
                                struct pen_text *why)
{
    struct holder holder;
    pen_why(why, "%s is in use by another job", folder);
    if (read_holder(handle, &holder))
        pen_why(why, " (run %s, process %ld on %s)", holder.run, holder.process,
                holder.host);
    pen_why(why, ": wait until it has ended, or give --save another folder");
    return PEN_INVALID;
}

/*
 * Returns false when another process has the lock; true also where there are no
 * locks.
 */
static bool take_lock(int handle, bool *has_lock)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *has_lock = fcntl(handle, F_OFD_SETLK, &whole) == 0;
    return *has_lock || (errno != EAGAIN && errno != EACCES);
}

static pen_status lock(const char *folder, const char *path,
                       struct pen_run_folder *out, struct pen_text *why)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    out->handle = open(
        path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (out->handle < 0)
        return pen_file_refuse("open", path, why);
    for (int i = 0; i < MOST_PAUSES; i++) {
        if (take_lock(out->handle, &out->has_lock))
            return PEN_OK;
        nanosleep(&pause, NULL);
    }
    return refuse_second(folder, out->handle, why);
}

/* ---- what is in the folder ---- */

/* Writes a file as a save does, with its sync and its rename. */
static pen_status probe(const char *folder, struct pen_text *why)
{
    static const char zeros[4096];
    struct holder self = describe_self("");
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/" PEN__TEMPORARY "probe-%s-%ld", folder, self.host,
                 self.process);
    if (path.has_failed) {
        pen_text_release(&path);
        return refuse_memory(why);
    }
    pen_status status = pen_draft_write_file(pen_text_string(&path), zeros,
                                             sizeof zeros, &reason);
    if (status == PEN_OK && unlink(pen_text_string(&path)) != 0)
        status = pen_file_refuse("remove", pen_text_string(&path), &reason);
    if (status != PEN_OK)
        pen_why(why,
                "no checkpoint can be saved: %s; make %s writable, or give "
                "--save another folder",
                pen_text_string(&reason), folder);
    pen_text_release(&path);
    pen_text_release(&reason);
    return status;
}

static bool is_same_folder(const char *folder,
                           const struct pen_checkpoint *loaded)
{
    struct stat own, other;
    struct pen_text parent = PEN_TEXT_EMPTY;
    pen_text_add(&parent, "%s/..", pen_text_string(&loaded->path));
    bool is_same = !parent.has_failed && stat(folder, &own) == 0 &&
                   stat(pen_text_string(&parent), &other) == 0 &&
                   own.st_dev == other.st_dev && own.st_ino == other.st_ino;
    pen_text_release(&parent);
    return is_same;
}

/* The newest step that is not of this run; NULL when there is none. */
static const struct pen_checkpoint_entry *
find_strange(const struct pen_checkpoint_list *list, const char *run)
{
    for (size_t i = list->count; i-- > 0;) {
        const struct pen_checkpoint_entry *entry = &list->entries[i];
        bool is_own = entry->run[0] == '\0' || strcmp(entry->run, run) == 0;
        if (!is_own)
            return entry;
    }
    return NULL;
}

static void add_other(const char *folder,
                      const struct pen_checkpoint_entry *entry,
                      struct pen_text *why)
{
    bool is_known = entry->run[0] != '\0';
    pen_why(why,
            "%s holds steps of another run (id %s, newest step %" PRIu64 ")",
            folder, is_known ? entry->run : "unknown", entry->step);
}

static pen_status check_start(const char *folder,
                              const struct pen_checkpoint_list *list,
                              struct pen_text *why)
{
    if (list->count == 0)
        return PEN_OK;
    add_other(folder, &list->entries[list->count - 1], why);
    pen_why(why, ": resume it with --load %s, or give --save another folder",
            folder);
    return PEN_INVALID;
}

static pen_status check_resume(const char *folder,
                               const struct pen_checkpoint *loaded,
                               const struct pen_checkpoint_list *list,
                               struct pen_text *why)
{
    PEN_BUG_UNLESS(list->count > 0 && list->entries != NULL);
    const char *run = loaded->manifest.run;
    bool is_same = is_same_folder(folder, loaded);
    bool is_old = strcmp(run, PEN_RUN_ID_OLD) == 0;
    const struct pen_checkpoint_entry *newest = &list->entries[list->count - 1];
    /* Runs of 0.1.0 all have the same id. */
    const struct pen_checkpoint_entry *strange =
        is_old && !is_same ? newest : find_strange(list, run);
    if (strange != NULL) {
        add_other(folder, strange, why);
        pen_why(why,
                " than %s (id %s): give --save another folder, or move those "
                "steps elsewhere",
                pen_text_string(&loaded->path), run);
        return PEN_INVALID;
    }
    while (newest > list->entries && !newest->is_whole)
        newest--;
    if (!newest->is_whole || newest->step <= loaded->manifest.step ||
        (is_same && loaded->is_newest))
        return PEN_OK;
    pen_why(why,
            "%s holds newer steps of this run (newest step %" PRIu64
            ") than %s, which --load gives: give --save another folder, or "
            "move the newer steps elsewhere",
            folder, newest->step, pen_text_string(&loaded->path));
    return PEN_INVALID;
}

static pen_status choose_run(const char *folder,
                             const struct pen_checkpoint *loaded,
                             char out[PEN_RUN_ID_SIZE], struct pen_text *why)
{
    struct pen_checkpoint_list list;
    pen_status status = pen_checkpoint_list_load(folder, &list, why);
    if (status != PEN_OK)
        return status;
    if (list.count == 0 && loaded != NULL && loaded->is_in_memory) {
        memcpy(out, loaded->manifest.run, PEN_RUN_ID_SIZE);
    } else if (list.count == 0) {
        status = pen_run_id_draw(out, why);
    } else if (loaded == NULL) {
        status = check_start(folder, &list, why);
    } else {
        status = check_resume(folder, loaded, &list, why);
        memcpy(out, loaded->manifest.run, PEN_RUN_ID_SIZE);
    }
    pen_checkpoint_list_release(&list);
    return status;
}

/* ---- the whole ---- */

static pen_status claim(const char *folder, const char *path,
                        const struct pen_checkpoint *loaded,
                        struct pen_run_folder *out, struct pen_text *why)
{
    pen_status status = pen__run_make(folder, why);
    if (status == PEN_OK)
        status = lock(folder, path, out, why);
    if (status == PEN_OK)
        status = choose_run(folder, loaded, out->run, why);
    if (status == PEN_OK)
        status = probe(folder, why);
    if (status == PEN_OK)
        status = write_holder(out->handle, path, out->run, why);
    return status;
}

pen_status pen_run_folder_claim(const char *folder,
                                const struct pen_checkpoint *loaded,
                                struct pen_run_folder *out,
                                struct pen_text *why)
{
    struct pen_run_folder claimed = PEN_RUN_FOLDER_NONE;
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/" LOCK_NAME, folder);
    pen_status status = path.has_failed ? refuse_memory(why)
                                        : claim(folder, pen_text_string(&path),
                                                loaded, &claimed, why);
    if (status == PEN_OK)
        *out = claimed;
    else if (claimed.handle >= 0)
        close(claimed.handle);
    pen_text_release(&path);
    return status;
}

pen_status pen_run_folder_join(const char *folder,
                               const char run[PEN_RUN_ID_SIZE],
                               struct pen_text *why)
{
    struct holder holder, self = describe_self(run);
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/" LOCK_NAME, folder);
    int handle = open(pen_text_string(&path),
                      O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool is_seen = handle >= 0 && read_holder(handle, &holder) &&
                   strcmp(holder.run, run) == 0;
    if (handle >= 0)
        close(handle);
    pen_text_release(&path);
    if (is_seen)
        return probe(folder, why);
    pen_why(why,
            "%s on %s is not the folder that the job saves to: give "
            "--save a folder on a file system that all nodes share",
            folder, self.host);
    return PEN_INVALID;
}

void pen_run_folder_release(struct pen_run_folder *folder)
{
    if (folder->handle < 0)
        return;
    if (folder->has_lock)
        (void)!ftruncate(folder->handle, 0);
    close(folder->handle);
    *folder = PEN_RUN_FOLDER_NONE;
}
