/* Blame in words. */
#include "culprits/blame_internal.h"

#include <ctype.h>

/* Adds "rank 17 (row 1 of pipeline 2)". */
static void add_rank(const struct pen_blame *blame, uint32_t rank,
                     struct pen_text *out)
{
    pen_text_add(out, "rank %u", rank);
    if (pen_mesh_num_replicas(&blame->mesh) > 1)
        pen_text_add(out, " (row %u of pipeline %u)",
                     pen_mesh_row(&blame->mesh, rank),
                     pen_mesh_replica(&blame->mesh, rank));
}

static void add_seconds(double sec, struct pen_text *out)
{
    if (sec >= 1)
        pen_text_add(out, "%.3g s", sec);
    else if (sec >= 1e-3)
        pen_text_add(out, "%.3g ms", sec * 1e3);
    else
        pen_text_add(out, "%.3g us", sec * 1e6);
}

static const char *const nouns[] = {[PEN_BLAME_RANK] = "ranks that compute",
                                    [PEN_BLAME_LINK] =
                                        "links on which messages take",
                                    [PEN_BLAME_SUMS] = "rows whose sums take"};

/* Adds the cause, with its verb. */
static void add_cause(const struct pen_blame *blame, struct pen_text *out)
{
    if (blame->kind == PEN_BLAME_RANK) {
        add_rank(blame, blame->rank, out);
        pen_text_add_string(out, " computes");
    } else if (blame->kind == PEN_BLAME_LINK) {
        pen_text_add_string(out, "a message from ");
        add_rank(blame, blame->rank, out);
        pen_text_add_string(out, " to ");
        add_rank(blame, blame->to, out);
        pen_text_add_string(out, " takes");
    } else {
        pen_text_add(out, "the sum of the gradients of row %u takes",
                     pen_mesh_row(&blame->mesh, blame->rank));
    }
}

static void add_longer(const struct pen_blame *blame, double share,
                       struct pen_text *out)
{
    pen_text_add(out, "this causes %.0f %% of the ", 100 * share);
    add_seconds(blame->longer_sec, out);
    pen_text_add_string(out, " by which a step is longer");
}

static void tell_one(const struct pen_blame *blame, struct pen_text *out)
{
    size_t start = out->length;
    add_cause(blame, out);
    if (out->length > start)
        out->bytes[start] = (char)toupper((unsigned char)out->bytes[start]);
    if (blame->factor > 0)
        pen_text_add(out, " %.1f times as long as undisturbed; ",
                     blame->factor);
    else
        pen_text_add_string(out, " longer than undisturbed; ");
    add_longer(blame, blame->share, out);
    pen_text_add_string(out, ".\n");
}

static void tell_end(const struct pen_blame *blame, struct pen_text *out)
{
    pen_text_add_string(out, "Messages from and to ");
    add_rank(blame, blame->end, out);
    pen_text_add_string(out, " take longer than undisturbed; ");
    add_longer(blame, blame->end_share, out);
    pen_text_add_string(out, ".\n");
}

static void tell_many(const struct pen_blame *blame, struct pen_text *out)
{
    pen_text_add(out, "There are %u %s longer than undisturbed; ",
                 blame->num_alike, nouns[blame->kind]);
    add_longer(blame, blame->alike_share, out);
    pen_text_add_string(out, ".\n"
                             "The largest part, ");
    pen_text_add(out, "%.0f %%, is that ", 100 * blame->share);
    add_cause(blame, out);
    pen_text_add_string(out, " longer.\n");
}

void pen_blame_print(const struct pen_blame *blame, struct pen_text *out)
{
    if (!(blame->longer_sec > 0)) {
        pen_text_add_string(out, "A step is not longer than undisturbed.\n");
    } else if (blame->kind == PEN_BLAME_NOBODY) {
        pen_text_add_string(out, "A step is ");
        add_seconds(blame->longer_sec, out);
        pen_text_add_string(out, " longer than undisturbed, but no rank, link "
                                 "or sum alone takes longer.\n");
    } else if (blame->share < 0.5 && blame->end_share >= 0.5) {
        tell_end(blame, out);
    } else if (blame->share < 0.5 && blame->num_alike > 1) {
        tell_many(blame, out);
    } else {
        tell_one(blame, out);
    }
}

void pen_blame_tell(const struct pen_run_figures *disturbed,
                    const struct pen_run_figures *plain,
                    const struct pen_schedule *schedule, struct pen_text *out)
{
    struct pen_blame blame;
    if (pen_blame_find(disturbed, plain, schedule, &blame) != PEN_OK) {
        out->has_failed = 1;
        return;
    }
    pen_blame_print(&blame, out);
    pen_blame_release(&blame);
}
