#include "supervise/leftovers.h"

#include "supervise/policy.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHARED "/dev/shm/"

/* How names begin: Open MPI 4 and 5, MPICH, UCX, PSM2, and our own board. */
static const char *const kinds[] = {
    "vader_segment.", "sm_segment.", "open_mpi.",      "mpich_",
    "ucx_shm_",       "psm2_shm.",   "penstock-board-"};

static bool is_of_mpi(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

static bool has_name(const struct pen_leftovers *leftovers, const char *line)
{
    const char *at = pen_text_string(&leftovers->names);
    size_t length = strlen(line);
    while ((at = strstr(at, line)) != NULL) {
        if (at == leftovers->names.bytes || at[-1] == '\n')
            return true;
        at += length;
    }
    return false;
}

void pen_leftovers_read(struct pen_leftovers *leftovers, const char *maps)
{
    while ((maps = strstr(maps, " " SHARED)) != NULL) {
        char line[256];
        maps += strlen(" " SHARED);
        size_t length = strcspn(maps, " /\n");
        if (maps[length] != '\n' || length + 2 > sizeof line)
            continue; /* a folder, or deleted already */
        memcpy(line, maps, length + 1);
        line[length + 1] = '\0';
        if (is_of_mpi(line) && !has_name(leftovers, line))
            pen_text_add_string(&leftovers->names, line);
    }
}

static void note_process(struct pen_leftovers *leftovers, pid_t pid)
{
    char path[32];
    char part[4096];
    struct pen_text maps = PEN_TEXT_EMPTY;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t length;
    while ((length = read(file, part, sizeof part)) > 0)
        pen_text_add_bytes(&maps, part, (size_t)length);
    close(file);
    pen_leftovers_read(leftovers, pen_text_string(&maps));
    pen_text_release(&maps);
}

void pen_leftovers_note(struct pen_leftovers *leftovers,
                        const struct pen_family *family)
{
    for (size_t i = 0; i < family->count; i++)
        if (!family->members[i].has_ended &&
            family->members[i].rank != PEN_UNKNOWN)
            note_process(leftovers, family->members[i].pid);
}

/* Levels of a session of Open MPI: it has two below its own. */
enum { DEEPEST = 8 };

/*
 * Removes the contents of a folder, not through links; the folder itself stays.
 */
static void empty_folder(int parent, const char *name, int depth)
{
    int file =
        openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = file < 0 ? NULL : fdopendir(file);
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        const char *item = entry->d_name;
        if (strcmp(item, ".") == 0 || strcmp(item, "..") == 0 ||
            unlinkat(file, item, 0) == 0 || depth == DEEPEST)
            continue;
        empty_folder(file, item, depth + 1);
        unlinkat(file, item, AT_REMOVEDIR);
    }
    if (folder != NULL)
        closedir(folder);
    else if (file >= 0)
        close(file);
}

/* Removes TMPDIR/ompi.HOST.UID/pid.PID, the session folder of Open MPI 4. */
static void remove_session(pid_t launcher)
{
    char host[256] = "";
    char path[4096];
    const char *folder = getenv("TMPDIR");
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = '\0';
    snprintf(path, sizeof path, "%s/ompi.%s.%u/pid.%d",
             folder == NULL ? "/tmp" : folder, host, (unsigned)geteuid(),
             launcher);
    empty_folder(AT_FDCWD, path, 0);
    rmdir(path);
}

bool pen_leftovers_is_kin(const struct pen_leftovers *leftovers,
                          const char *name)
{
    char job[256] = "\n";
    const char *last = strrchr(name, '.');
    size_t length = last == NULL ? 0 : (size_t)(last + 1 - name);
    if (length == 0 || length + 2 > sizeof job ||
        (strncmp(name, kinds[0], strlen(kinds[0])) != 0 &&
         strncmp(name, kinds[1], strlen(kinds[1])) != 0))
        return false;
    memcpy(job + 1, name, length);
    job[length + 1] = '\0';
    const char *names = pen_text_string(&leftovers->names);
    return strncmp(names, job + 1, length) == 0 || strstr(names, job) != NULL;
}

/*
 * Removes the files of kin. A rank that was killed soon after its start may not
 * have been examined.
 */
static void remove_kin(const struct pen_leftovers *leftovers)
{
    DIR *folder = opendir(SHARED);
    struct dirent *entry;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (pen_leftovers_is_kin(leftovers, entry->d_name))
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder != NULL)
        closedir(folder);
}

void pen_leftovers_remove(struct pen_leftovers *leftovers, pid_t launcher)
{
    char *at = leftovers->names.length > 0 ? leftovers->names.bytes : NULL;
    while (at != NULL && *at != '\0') {
        char path[sizeof SHARED + 256];
        size_t length = strcspn(at, "\n");
        snprintf(path, sizeof path, SHARED "%.*s", (int)length, at);
        unlink(path);
        at += length + (at[length] == '\n');
    }
    remove_kin(leftovers);
    remove_session(launcher);
    pen_text_release(&leftovers->names);
}
