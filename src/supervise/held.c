#include "supervise/held.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pen_status make_folder(struct pen_held *held, struct pen_text *why)
{
    const char *place = getenv("TMPDIR");
    if (held->path.length > 0)
        return PEN_OK;
    pen_text_add(&held->folder, "%s/penstock-XXXXXX",
                 place == NULL || *place == '\0' ? "/tmp" : place);
    if (held->folder.has_failed)
        return PEN_NOMEM;
    if (mkdtemp(held->folder.bytes) == NULL) {
        pen_why(why, "cannot make the folder %s: %s",
                pen_text_string(&held->folder), strerror(errno));
        pen_text_clear(&held->folder);
        return PEN_IO;
    }
    pen_text_add(&held->path, "%s/holder", pen_text_string(&held->folder));
    return held->path.has_failed ? PEN_NOMEM : PEN_OK;
}

static void begin_epoch(struct pen_held *held, uint64_t epoch)
{
    held->epoch = epoch;
    held->num_ranks = held->num_joined = 0;
    held->committed = held->first = held->gone = PEN_UNKNOWN;
    free(held->steps);
    held->steps = NULL;
}

/*
 * Stops the holder. The path stays: ranks on other nodes find their holders by
 * it.
 */
static void stop(struct pen_held *held)
{
    pen_holder_stop(&held->holder);
    held->holder = PEN_HOLDER_EMPTY;
    if (held->path.length > 0)
        unlink(pen_text_string(&held->path));
}

/* Nodes that share the folder and are lost leave their sockets there. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    for (struct dirent *it; (it = readdir(folder)) != NULL;)
        if (strncmp(it->d_name, "holder.", strlen("holder.")) == 0)
            unlinkat(dirfd(folder), it->d_name, 0);
    closedir(folder);
    rmdir(path);
}

static void end(struct pen_held *held)
{
    stop(held);
    if (held->folder.length > 0)
        remove_folder(pen_text_string(&held->folder));
    pen_text_release(&held->path);
    pen_text_release(&held->folder);
}

static pen_status start(struct pen_held *held, uint64_t epoch,
                        struct pen_text *why)
{
    held->is_lost = false;
    begin_epoch(held, epoch);
    pen_status status = make_folder(held, why);
    if (status == PEN_OK)
        status = pen_holder_start(pen_text_string(&held->path), epoch,
                                  &held->holder, why);
    if (status != PEN_OK)
        end(held);
    return status;
}

pen_status pen_held_start(struct pen_held *held, uint64_t epoch,
                          struct pen_text *why)
{
    *held = (struct pen_held){.holder = PEN_HOLDER_EMPTY};
    return start(held, epoch, why);
}

pen_status pen_held_advance(struct pen_held *held, uint64_t epoch,
                            struct pen_text *why)
{
    struct pen_text unused = PEN_TEXT_EMPTY;
    pen_status status = PEN_LOST;
    if (!held->is_lost)
        status = pen_holder_set_epoch(&held->holder, epoch, &unused);
    pen_text_release(&unused);
    if (status == PEN_OK) {
        pen_held_read(held); /* of the epoch before */
        begin_epoch(held, epoch);
        return PEN_OK;
    }
    stop(held);
    return start(held, epoch, why);
}

static bool join(struct pen_held *held,
                 const struct pen_holder_message *message)
{
    if (held->steps == NULL) {
        held->steps = malloc(message->num_ranks * sizeof *held->steps);
        if (held->steps == NULL)
            return false;
        held->num_ranks = message->num_ranks;
        for (uint32_t i = 0; i < held->num_ranks; i++)
            held->steps[i] = PEN_UNKNOWN;
    }
    return message->rank < held->num_ranks;
}

static void note_commit(struct pen_held *held, uint32_t rank, int64_t step)
{
    int64_t least = step;
    uint32_t num_known = 0;
    held->steps[rank] = step;
    for (uint32_t i = 0; i < held->num_ranks; i++) {
        num_known += held->steps[i] != PEN_UNKNOWN;
        if (held->steps[i] != PEN_UNKNOWN && held->steps[i] < least)
            least = held->steps[i];
    }
    if (num_known < held->num_joined)
        return;
    if (held->first == PEN_UNKNOWN)
        held->first = least;
    held->committed = least;
}

static void take(struct pen_held *held,
                 const struct pen_holder_message *message)
{
    if (message->epoch != held->epoch || !join(held, message))
        return;
    if (message->kind == PEN_HOLDER_CONNECTED)
        held->num_joined++;
    else if (message->kind == PEN_HOLDER_COMMITTED)
        note_commit(held, message->rank, (int64_t)message->step);
    else if (message->kind == PEN_HOLDER_GONE && held->gone == PEN_UNKNOWN)
        held->gone = message->rank;
}

void pen_held_read(struct pen_held *held)
{
    struct pen_holder_message message;
    pen_status status = PEN_OK;
    if (held->holder.events < 0 || held->is_lost)
        return;
    while ((status = pen_holder_next_event(&held->holder, &message)) == PEN_OK)
        take(held, &message);
    held->is_lost = status != PEN_BUSY;
}

void pen_held_settle(struct pen_held *held)
{
    struct pen_holder_message entry = {.count = 1};
    pen_held_read(held);
    for (uint32_t i = 0; i < entry.count && !held->is_lost; i++) {
        if (held->holder.events < 0 ||
            pen_holder_entry(&held->holder, i, &entry, NULL) != PEN_OK)
            return;
        bool is_own = i < entry.count && entry.is_copy == 0 &&
                      entry.epoch == held->epoch &&
                      entry.rank < held->num_ranks && held->steps != NULL;
        uint64_t step =
            entry.steps[0] > entry.steps[1] ? entry.steps[0] : entry.steps[1];
        if (is_own && step > 0)
            note_commit(held, entry.rank, (int64_t)step);
    }
}

void pen_held_stop(struct pen_held *held)
{
    end(held);
    free(held->steps);
    held->steps = NULL;
}
