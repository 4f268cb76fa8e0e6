/* The files of a job: ranks in order, and groups that all of them share. */
#include "base/file.h"
#include "base/room.h"
#include "calls/reader.h"

#include <stdlib.h>
#include <string.h>

const struct pen_call_rank *pen_calls_find(const struct pen_calls *calls,
                                           uint32_t rank)
{
    size_t low = 0;
    size_t high = calls->num_ranks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (calls->ranks[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < calls->num_ranks && calls->ranks[low].rank == rank
               ? &calls->ranks[low]
               : NULL;
}

void pen_calls_release(struct pen_calls *calls)
{
    for (uint32_t i = 0; i < calls->num_ranks; i++)
        pen_call_rank_release(&calls->ranks[i]);
    for (uint32_t i = 0; i < calls->num_groups; i++)
        free(calls->groups[i].ranks);
    free(calls->ranks);
    free(calls->groups);
    *calls = (struct pen_calls){.ranks = NULL};
}

/*
 * Returns the group that all files share: of the same name and, if both say,
 * ranks.
 */
static pen_status share_group(struct pen_call_rank *all,
                              const struct pen_call_group *group, uint32_t *out,
                              struct pen_text *why)
{
    return pen__rank_group(all, group->name, group->ranks, group->count, out,
                           why);
}

/* Groups of ranks become groups of the job; `all` collects them. */
static pen_status share_groups(struct pen_calls *calls,
                               struct pen_call_rank *all, struct pen_text *why)
{
    for (uint32_t i = 0; i < calls->num_ranks; i++) {
        struct pen_call_rank *rank = &calls->ranks[i];
        uint32_t *shared = pen_room(rank->num_groups + 1u, sizeof *shared);
        pen_status status = shared == NULL ? PEN_NOMEM : PEN_OK;
        for (uint32_t g = 0; g < rank->num_groups && status == PEN_OK; g++)
            status = share_group(all, &rank->groups[g], &shared[g], why);
        for (size_t c = 0; c < rank->count && status == PEN_OK; c++)
            rank->calls[c].group = shared[rank->calls[c].group];
        free(shared);
        if (status != PEN_OK)
            return status;
    }
    calls->groups = all->groups;
    calls->num_groups = all->num_groups;
    *all = (struct pen_call_rank){.path = NULL};
    return PEN_OK;
}

static bool uses_group(const struct pen_call_rank *rank, uint32_t group)
{
    for (size_t i = 0; i < rank->count; i++) {
        if (rank->calls[i].group == group)
            return true;
    }
    return false;
}

static void count_world(struct pen_calls *calls)
{
    for (uint32_t i = 0; i < calls->num_groups; i++) {
        const struct pen_call_group *group = &calls->groups[i];
        if (group->count > 0 && group->ranks[group->count - 1] >= calls->world)
            calls->world = group->ranks[group->count - 1] + 1;
    }
    uint32_t last = calls->ranks[calls->num_ranks - 1].rank;
    if (last >= calls->world)
        calls->world = last + 1;
}

/*
 * Fills in the members of groups that no file lists: all ranks for group 0; for
 * any other, the ranks that call it.
 */
static pen_status fill_groups(struct pen_calls *calls)
{
    for (uint32_t i = 0; i < calls->num_groups; i++) {
        struct pen_call_group *group = &calls->groups[i];
        bool is_all = strcmp(group->name, "0") == 0;
        if (group->count > 0)
            continue;
        group->ranks = pen_room(calls->world, sizeof *group->ranks);
        if (group->ranks == NULL)
            return PEN_NOMEM;
        for (uint32_t rank = 0; rank < calls->world; rank++) {
            const struct pen_call_rank *found = pen_calls_find(calls, rank);
            if (is_all || (found != NULL && uses_group(found, i)))
                group->ranks[group->count++] = rank;
        }
    }
    return PEN_OK;
}

static int compare_ranks(const void *a, const void *b)
{
    const struct pen_call_rank *x = a;
    const struct pen_call_rank *y = b;
    if (x->rank != y->rank)
        return x->rank > y->rank ? 1 : -1;
    return strcmp(x->path, y->path);
}

static pen_status check_ranks(const struct pen_calls *calls,
                              struct pen_text *why)
{
    size_t num_calls = 0;
    for (uint32_t i = 0; i < calls->num_ranks; i++) {
        num_calls += calls->ranks[i].count;
        if (i == 0 || calls->ranks[i].rank != calls->ranks[i - 1].rank)
            continue;
        pen_why(why, "%s and %s are both of rank %u; give one file per rank",
                calls->ranks[i - 1].path, calls->ranks[i].path,
                calls->ranks[i].rank);
        return PEN_INVALID;
    }
    if (num_calls > 0)
        return PEN_OK;
    pen_why(why, "%s: there is no collective, send or receive in %s",
            calls->ranks[0].path,
            calls->num_ranks == 1 ? "it" : "any of the files");
    return PEN_INVALID;
}

static pen_status load_rank(const char *path, struct pen_calls *calls,
                            struct pen_text *why)
{
    struct pen_text bytes = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    uint32_t world = 0;
    pen_status status = pen_file_read(path, PEN_CALLS_MOST_BYTES, &bytes, why);
    if (status != PEN_OK)
        return status;
    status =
        pen_call_rank_parse(path, bytes.bytes, bytes.length,
                            &calls->ranks[calls->num_ranks], &world, &reason);
    if (status == PEN_OK)
        calls->num_ranks++;
    else
        pen_why(why, "%s: %s", path, pen_text_string(&reason));
    if (world > calls->world)
        calls->world = world;
    pen_text_release(&bytes);
    pen_text_release(&reason);
    return status;
}

pen_status pen__calls_join(struct pen_calls *calls, struct pen_text *why)
{
    struct pen_call_rank all = {.path = NULL};
    qsort(calls->ranks, calls->num_ranks, sizeof *calls->ranks, compare_ranks);
    pen_status status = check_ranks(calls, why);
    if (status == PEN_OK)
        status = share_groups(calls, &all, why);
    if (status == PEN_OK) {
        count_world(calls);
        status = fill_groups(calls);
    }
    pen_call_rank_release(&all);
    return status;
}

pen_status pen_calls_load(char *const *paths, size_t count,
                          struct pen_calls *out, struct pen_text *why)
{
    struct pen_calls calls = {.ranks = NULL};
    pen_status status = PEN_OK;
    if (count > PEN_CALLS_MOST_RANKS) {
        pen_why(why, "there are %zu files; the limit is %u", count,
                PEN_CALLS_MOST_RANKS);
        return PEN_INVALID;
    }
    calls.ranks = pen_room_zero(count, sizeof *calls.ranks);
    if (calls.ranks == NULL)
        return PEN_NOMEM;
    for (size_t i = 0; i < count && status == PEN_OK; i++)
        status = load_rank(paths[i], &calls, why);
    if (status == PEN_OK)
        status = pen__calls_join(&calls, why);
    if (status != PEN_OK)
        pen_calls_release(&calls);
    else
        *out = calls;
    return status;
}
