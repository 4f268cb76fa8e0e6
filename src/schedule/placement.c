#include "schedule/placement.h"

#include "base/bug.h"
#include "base/multiple.h"

#include <string.h>

static const char *const names[PEN_PLACEMENT_KINDS] = {
#define PEN_PLACEMENT_NAME(name, text) [PEN_PLACEMENT_##name] = text,
    PEN_PLACEMENT_TABLE(PEN_PLACEMENT_NAME)
#undef PEN_PLACEMENT_NAME
};

const char *pen_placement_text(enum pen_placement_kind kind)
{
    PEN_BUG_UNLESS((unsigned)kind < PEN_PLACEMENT_KINDS);
    return names[kind];
}

bool pen_placement_parse(const char *text, size_t length,
                         enum pen_placement_kind *out)
{
    for (unsigned kind = 0; kind < PEN_PLACEMENT_KINDS; kind++) {
        if (strlen(names[kind]) == length &&
            memcmp(names[kind], text, length) == 0) {
            *out = (enum pen_placement_kind)kind;
            return true;
        }
    }
    return false;
}

/* Stages per rank, or 0 when the placement does not fix the number. */
static uint64_t expected_stages(const struct pen_shape *shape)
{
    uint64_t p = shape->num_ranks;
    switch (shape->placement) {
    case PEN_PLACEMENT_LINEAR:
        return p;
    case PEN_PLACEMENT_V:
    case PEN_PLACEMENT_BIDIRECTIONAL:
        return 2 * p;
    case PEN_PLACEMENT_BIDIRECTIONAL_V:
        return 4 * p;
    case PEN_PLACEMENT_CYCLIC:
        return p * p;
    default:
        return 0;
    }
}

uint32_t pen_placement_copies(enum pen_placement_kind kind, uint32_t num_ranks)
{
    switch (kind) {
    case PEN_PLACEMENT_BIDIRECTIONAL:
    case PEN_PLACEMENT_BIDIRECTIONAL_V:
        return 2;
    case PEN_PLACEMENT_CYCLIC:
        return num_ranks;
    default:
        return 1;
    }
}

/* ---- replicated parts ---- */

static uint32_t replicas_of(const struct pen_shape *shape, uint32_t part)
{
    return shape->first_ranks[part + 1] - shape->first_ranks[part];
}

pen_status pen_replicas_parse(const char *text, size_t length,
                              uint32_t out[PEN_MAX_REPLICATED], uint32_t *count,
                              struct pen_text *why)
{
    size_t at = 0;
    *count = 0;
    while (*count < PEN_MAX_REPLICATED) {
        uint32_t number = 0;
        size_t start = at;
        while (at < length && text[at] >= '0' && text[at] <= '9' &&
               number <= PEN_MAX_STAGES)
            number = number * 10 + (uint32_t)(text[at++] - '0');
        if (at == start || number == 0 || number > PEN_MAX_STAGES)
            break;
        out[(*count)++] = number;
        if (at == length)
            return PEN_OK;
        if (text[at++] != ',')
            break;
    }
    pen_why(why,
            "ranks of each stage are 1 to %u numbers from 1 to %u with commas "
            "between them, as 3,1",
            PEN_MAX_REPLICATED, PEN_MAX_STAGES);
    return PEN_INVALID;
}

pen_status pen_shape_replicate(struct pen_shape *shape,
                               const uint32_t *replicas, uint32_t num_parts,
                               struct pen_text *why)
{
    uint64_t copies = 1;
    uint64_t ranks = 0;
    bool fits = num_parts > 0 && num_parts <= PEN_MAX_REPLICATED;
    for (uint32_t i = 0; i < num_parts && fits; i++) {
        fits = replicas[i] > 0 && replicas[i] <= PEN_MAX_STAGES;
        if (!fits)
            break;
        ranks += replicas[i];
        copies = pen_common_multiple(copies, replicas[i]);
        fits = ranks <= PEN_MAX_STAGES && copies * num_parts <= PEN_MAX_STAGES;
        shape->first_ranks[i + 1] = (uint16_t)ranks;
    }
    if (!fits) {
        pen_why(
            why,
            "stages with ranks of their own: at most %u stages, each with a "
            "rank, at most %u ranks, and at most %u for the number of "
            "stages times the least common multiple of their ranks",
            PEN_MAX_REPLICATED, PEN_MAX_STAGES, PEN_MAX_STAGES);
        return PEN_INVALID;
    }
    shape->placement = PEN_PLACEMENT_REPLICATED;
    shape->first_ranks[0] = 0;
    for (uint32_t i = num_parts + 1; i <= PEN_MAX_REPLICATED; i++)
        shape->first_ranks[i] = 0;
    shape->num_ranks = (uint32_t)ranks;
    shape->num_copies = (uint32_t)copies;
    shape->num_stages = num_parts * (uint32_t)copies;
    return PEN_OK;
}

/* Checks that ranks, stages and copies are those of its counts. */
static pen_status check_replicas(const struct pen_shape *shape,
                                 struct pen_text *why)
{
    struct pen_shape other = *shape;
    uint32_t replicas[PEN_MAX_REPLICATED];
    uint32_t count = 0;
    while (count < PEN_MAX_REPLICATED &&
           shape->first_ranks[count + 1] > shape->first_ranks[count]) {
        replicas[count] = replicas_of(shape, count);
        count++;
    }
    pen_status status = pen_shape_replicate(&other, replicas, count, why);
    if (status != PEN_OK || (other.num_ranks == shape->num_ranks &&
                             other.num_stages == shape->num_stages &&
                             other.num_copies == shape->num_copies))
        return status;
    pen_why(why,
            "these replicas make %u ranks, %u stages and %u copies, not %u, %u "
            "and %u",
            other.num_ranks, other.num_stages, other.num_copies,
            shape->num_ranks, shape->num_stages, shape->num_copies);
    return PEN_INVALID;
}

/* Returns the replicated part on a rank. */
static uint32_t part_on(const struct pen_shape *shape, uint32_t rank)
{
    uint32_t part = 0;
    while (shape->first_ranks[part + 1] <= rank)
        part++;
    return part;
}

/* ---- all placements ---- */

pen_status pen_shape_check(const struct pen_shape *shape, struct pen_text *why)
{
    const char *name = pen_placement_text(shape->placement);
    if (shape->num_ranks == 0 || shape->num_stages == 0 ||
        shape->num_microbatches == 0 || shape->num_slices == 0) {
        pen_why(why, "ranks, stages, microbatches and slices must be at "
                     "least 1");
        return PEN_INVALID;
    }
    if (shape->num_stages > PEN_MAX_STAGES) {
        pen_why(why, "%u stages, at most %u are supported", shape->num_stages,
                PEN_MAX_STAGES);
        return PEN_INVALID;
    }
    if (shape->num_slices > UINT16_MAX + 1u) {
        pen_why(why, "%u slices, at most %u are supported", shape->num_slices,
                UINT16_MAX + 1u);
        return PEN_INVALID;
    }
    bool is_replicated = shape->placement == PEN_PLACEMENT_REPLICATED;
    if (is_replicated && check_replicas(shape, why) != PEN_OK)
        return PEN_INVALID;
    if (!is_replicated &&
        shape->num_copies !=
            pen_placement_copies(shape->placement, shape->num_ranks)) {
        pen_why(why, "placement %s has %u copies, not %u", name,
                pen_placement_copies(shape->placement, shape->num_ranks),
                shape->num_copies);
        return PEN_INVALID;
    }
    uint64_t stages = expected_stages(shape);
    if (stages != 0 && shape->num_stages != stages) {
        pen_why(why, "placement %s on %u ranks has %llu stages, not %u", name,
                shape->num_ranks, (unsigned long long)stages,
                shape->num_stages);
        return PEN_INVALID;
    }
    uint32_t p = shape->num_ranks;
    bool is_wave = shape->placement == PEN_PLACEMENT_WAVE;
    if (!is_replicated && (shape->num_stages % p != 0 ||
                           (is_wave && (shape->num_stages / p) % 2 != 0))) {
        pen_why(why, "placement %s on %u ranks needs %s of %u stages, not %u",
                name, p, is_wave ? "an even multiple" : "a multiple", p,
                shape->num_stages);
        return PEN_INVALID;
    }
    if (shape->num_microbatches == UINT32_MAX ||
        shape->num_microbatches % shape->num_copies != 0) {
        pen_why(why,
                "%u micro-batches cannot be divided evenly among %u copies",
                shape->num_microbatches, shape->num_copies);
        return PEN_INVALID;
    }
    return PEN_OK;
}

uint32_t pen_shape_parts(const struct pen_shape *shape)
{
    return shape->num_stages / shape->num_copies;
}

uint32_t pen_shape_chunks(const struct pen_shape *shape)
{
    if (shape->placement == PEN_PLACEMENT_CYCLIC)
        return shape->num_ranks;
    if (shape->placement == PEN_PLACEMENT_REPLICATED)
        return 1;
    return pen_shape_parts(shape) / shape->num_ranks;
}

/* Returns a position that turns back at each end: 0 1 2 3 3 2 1 0 0 1 ... */
static uint32_t fold(uint32_t part, uint32_t p)
{
    uint32_t chunk = part / p;
    uint32_t at = part % p;
    return chunk % 2 == 0 ? at : p - 1 - at;
}

/* Apart, so that the other placements need no stack for its calls. */
static __attribute__((noinline)) uint32_t
replicated_rank(const struct pen_shape *shape, uint32_t stage)
{
    return shape->first_ranks[pen_shape_part_of_stage(shape, stage)] +
           pen_shape_member_of_stage(shape, stage);
}

/* Separate as well: other placements need neither part nor copy. */
static __attribute__((noinline)) uint32_t
bidirectional_rank(const struct pen_shape *shape, uint32_t stage)
{
    uint32_t p = shape->num_ranks;
    uint32_t at = fold(pen_shape_part_of_stage(shape, stage), p);
    return pen_shape_copy_of_stage(shape, stage) == 0 ? at : p - 1 - at;
}

uint32_t pen_shape_rank_of(const struct pen_shape *shape, uint32_t stage)
{
    uint32_t p = shape->num_ranks;
    switch (shape->placement) {
    case PEN_PLACEMENT_LINEAR:
        return stage;
    case PEN_PLACEMENT_LOOP:
        return stage % p;
    case PEN_PLACEMENT_V:
    case PEN_PLACEMENT_WAVE:
        return fold(stage, p);
    case PEN_PLACEMENT_BIDIRECTIONAL: /* its parts do not turn */
    case PEN_PLACEMENT_BIDIRECTIONAL_V:
        return bidirectional_rank(shape, stage);
    case PEN_PLACEMENT_CYCLIC:
        return stage / p;
    case PEN_PLACEMENT_REPLICATED:
        return replicated_rank(shape, stage);
    case PEN_PLACEMENT_KINDS:
        break;
    }
    pen_bug(__FILE__, __LINE__, "a placement that exists");
}

uint32_t pen_shape_stage_at(const struct pen_shape *shape, uint32_t rank,
                            uint32_t copy, uint32_t chunk)
{
    uint32_t p = shape->num_ranks;
    uint32_t base = copy * pen_shape_parts(shape);
    switch (shape->placement) {
    case PEN_PLACEMENT_LINEAR:
    case PEN_PLACEMENT_LOOP:
        return chunk * p + rank;
    case PEN_PLACEMENT_V:
    case PEN_PLACEMENT_WAVE:
    case PEN_PLACEMENT_BIDIRECTIONAL:
    case PEN_PLACEMENT_BIDIRECTIONAL_V: {
        uint32_t at = copy == 0 ? rank : p - 1 - rank;
        return base + chunk * p + (chunk % 2 == 0 ? at : p - 1 - at);
    }
    case PEN_PLACEMENT_CYCLIC:
        PEN_BUG_UNLESS(copy == rank);
        return base + chunk;
    case PEN_PLACEMENT_REPLICATED: {
        uint32_t stage = base + part_on(shape, rank);
        return pen_shape_rank_of(shape, stage) == rank ? stage : PEN_NO_STAGE;
    }
    case PEN_PLACEMENT_KINDS:
        break;
    }
    pen_bug(__FILE__, __LINE__, "a placement that exists");
}

uint32_t pen_shape_copy_of_stage(const struct pen_shape *shape, uint32_t stage)
{
    return stage / pen_shape_parts(shape);
}

uint32_t pen_shape_part_of_stage(const struct pen_shape *shape, uint32_t stage)
{
    return stage % pen_shape_parts(shape);
}

uint32_t pen_shape_copy_of_microbatch(const struct pen_shape *shape,
                                      uint32_t microbatch)
{
    return microbatch / (shape->num_microbatches / shape->num_copies);
}

uint32_t pen_shape_members(const struct pen_shape *shape, uint32_t part)
{
    return shape->placement == PEN_PLACEMENT_REPLICATED
               ? replicas_of(shape, part)
               : shape->num_copies;
}

uint32_t pen_shape_member_of_stage(const struct pen_shape *shape,
                                   uint32_t stage)
{
    return pen_shape_copy_of_stage(shape, stage) /
           pen_shape_users(shape, stage);
}

uint32_t pen_shape_users(const struct pen_shape *shape, uint32_t stage)
{
    uint32_t part = pen_shape_part_of_stage(shape, stage);
    return shape->num_copies / pen_shape_members(shape, part);
}

uint32_t pen__shape_replicated_keeper(const struct pen_shape *shape,
                                      uint32_t stage)
{
    uint32_t copy = pen_shape_copy_of_stage(shape, stage);
    return stage -
           copy % pen_shape_users(shape, stage) * pen_shape_parts(shape);
}

uint32_t pen_shape_next_stage(const struct pen_shape *shape, uint32_t stage)
{
    uint32_t parts = pen_shape_parts(shape);
    return stage % parts + 1 == parts ? PEN_NO_STAGE : stage + 1;
}

uint32_t pen_shape_previous_stage(const struct pen_shape *shape, uint32_t stage)
{
    return stage % pen_shape_parts(shape) == 0 ? PEN_NO_STAGE : stage - 1;
}

bool pen_shape_is_remote(const struct pen_shape *shape, uint32_t stage,
                         uint32_t other)
{
    return other != PEN_NO_STAGE &&
           pen_shape_rank_of(shape, stage) != pen_shape_rank_of(shape, other);
}

uint32_t pen_shape_partner(const struct pen_shape *shape, uint32_t rank)
{
    return shape->num_ranks - 1 - rank;
}
