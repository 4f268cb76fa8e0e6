#include "runtime/verifier.h"

#include "base/crc32c.h"
#include "runtime/trainer_internal.h"

#include <inttypes.h>
#include <stdlib.h>

struct pen_verifier {
    struct pen_trainer *trainer;
    uint32_t num_parts;  /* of the model */
    uint32_t num_slots;  /* parts of all places in tensor groups */
    uint32_t num_copies; /* of each part, of which a member may have several */
    double *checks;      /* [slot][copy]; each has one contributor */
    uint64_t last_good;  /* step of the last check that found nothing */
    struct pen_mirror mirror;
};

/* The parts of a parameter that are compared; with ZeRO-1 only the first. */
static const struct {
    enum pen_parameter_part part;
    const char *name;
} kinds[] = {{PEN_PART_VALUE, "weights"},
             {PEN_PART_MOMENT1, "first moments"},
             {PEN_PART_MOMENT2, "second moments"}};

/* ---- making ---- */

pen_status pen_verifier_create(struct pen_trainer *trainer,
                               struct pen_verifier **out, struct pen_text *why)
{
    const struct pen_layout *layout = &trainer->layout;
    uint32_t num_copies = pen_layout_copies(layout);
    if (trainer->options.world != NULL) {
        pen_why(why, "--verify-interval compares replicas that are always the "
                     "same; those of this --sync, or with --compress, may "
                     "differ. Leave it out, or use --sync allreduce");
        return PEN_INVALID;
    }
    if (layout->drops_values) {
        pen_why(why, "--verify-interval compares weights that all replicas "
                     "keep, and with --sharding zero3 each keeps those that it "
                     "steps. Leave it out, or use --sharding zero2");
        return PEN_INVALID;
    }
    if (num_copies == 1 || trainer->options.sleeps != NULL) {
        pen_why(why, "--verify-interval needs replicas to compare, and there "
                     "is one alone. Leave it out, or start more ranks than "
                     "--pipeline-model-parallel-size");
        return PEN_INVALID;
    }
    if (layout->num_experts > 1) {
        pen_why(why, "--verify-interval compares replicas with the same "
                     "weights, and --expert-model-parallel-size deals out "
                     "their experts. Drop one of them");
        return PEN_INVALID;
    }
    struct pen_verifier *verifier = calloc(1, sizeof *verifier);
    if (verifier == NULL)
        return PEN_NOMEM;
    *verifier =
        (struct pen_verifier){.trainer = trainer,
                              .num_parts = pen_shape_parts(&layout->shape),
                              .num_copies = num_copies,
                              .last_good = trainer->progress.steps};
    verifier->num_slots = verifier->num_parts * pen_layout_group_size(layout);
    verifier->checks = calloc((size_t)verifier->num_slots * num_copies,
                              sizeof *verifier->checks);
    pen_status status =
        pen_mirror_init(&verifier->mirror, trainer->engine,
                        pen__trainer_largest_parameter(trainer));
    if (verifier->checks == NULL)
        status = PEN_NOMEM;
    if (status == PEN_OK)
        *out = verifier;
    else
        pen_verifier_free(verifier);
    return status;
}

void pen_verifier_free(struct pen_verifier *verifier)
{
    if (verifier == NULL)
        return;
    pen_mirror_release(&verifier->mirror);
    free(verifier->checks);
    free(verifier);
}

/* ---- checks ---- */

static size_t num_kinds(const struct pen_verifier *verifier, uint32_t stage,
                        size_t parameter)
{
    const struct pen_trainer *trainer = verifier->trainer;
    bool has_moments = trainer->options.sharding == PEN_SHARDING_NONE &&
                       pen_exchange_owns(trainer->exchange, stage, parameter);
    return has_moments ? 1 + (size_t)pen_optimizer_moments_of(
                                 &trainer->options.optimizer,
                                 pen_trainer_network(verifier->trainer, stage),
                                 parameter)
                       : 1;
}

static uint32_t check_of(struct pen_verifier *verifier,
                         const struct pen_network_parameter *it, size_t kind)
{
    const struct pen_mirror_piece piece = {.parameter = it->parameter,
                                           .part = kinds[kind].part,
                                           .count = pen_network_count(it)};
    return pen_crc32c(pen_mirror_show(&verifier->mirror, &piece),
                      piece.count * sizeof(float));
}

/* Visits what is compared of a stage, in an order that all members share. */
typedef void row_visitor(void *context, const struct pen_network_parameter *it,
                         size_t kind, uint32_t check);

static void visit(struct pen_verifier *verifier, uint32_t stage,
                  row_visitor *visitor, void *context)
{
    struct pen_network *network = pen_trainer_network(verifier->trainer, stage);
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        for (size_t k = 0; k < num_kinds(verifier, stage, i); k++)
            visitor(context, it, k, check_of(verifier, it, k));
    }
}

/* Joins all checks in one: a tensor that differs alone changes it. */
static void join(void *context, const struct pen_network_parameter *it,
                 size_t kind, uint32_t check)
{
    uint32_t *joined = context;
    uint32_t both[] = {*joined, check};
    (void)it;
    (void)kind;
    *joined = pen_crc32c(both, sizeof both);
}

static pen_status sum(const struct pen_verifier *verifier, double *values,
                      size_t count)
{
    struct pen_transport *transport = verifier->trainer->options.transport;
    struct pen_request request = {.is_active = false};
    pen_transport_sum(transport, values, count, &request);
    return pen_transport_wait(transport, &request);
}

/* ---- differing ranks ---- */

static bool all_agree(const double *checks, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (checks[i] != checks[0])
            return false;
    return true;
}

/* The check that more than half of the members have; NULL: there is none. */
static const double *majority(const double *checks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t same = 0;
        for (uint32_t k = 0; k < count; k++)
            same += checks[k] == checks[i];
        if (2 * same > count)
            return &checks[i];
    }
    return NULL;
}

/* The tensors of a part, each with the checks of all members. */
struct table {
    const struct pen_verifier *verifier;
    size_t num_rows;
    double *tensors; /* of the model; `kinds` has the kind of each */
    double *kinds;
    double *checks; /* [row][copy] */
    size_t row;
    uint32_t copy; /* the first of the member */
    uint32_t users;
};

static void count_row(void *context, const struct pen_network_parameter *it,
                      size_t kind, uint32_t check)
{
    (void)it;
    (void)kind;
    (void)check;
    *(double *)context += 1;
}

static void fill_row(void *context, const struct pen_network_parameter *it,
                     size_t kind, uint32_t check)
{
    struct table *table = context;
    const struct pen_verifier *verifier = table->verifier;
    for (uint32_t i = 0; i < table->users; i++)
        table->checks[table->row * verifier->num_copies + table->copy + i] =
            check;
    if (table->copy == 0) {
        table->tensors[table->row] = it->slices[0].tensor;
        table->kinds[table->row] = (double)kind;
    }
    table->row++;
}

/* The slot of a stage of this rank. */
static uint32_t slot_of(const struct pen_verifier *verifier, uint32_t stage)
{
    struct pen_trainer *trainer = verifier->trainer;
    return trainer->layout.place.at[PEN_AXIS_TENSOR] * verifier->num_parts +
           pen_executor_stage(trainer->executor, stage)->part;
}

/* Index of the stage of this rank that is a member of a slot; or num_stages. */
static uint32_t stage_of_slot(const struct pen_verifier *verifier,
                              uint32_t slot, uint32_t first)
{
    uint32_t count = pen_trainer_num_stages(verifier->trainer);
    for (uint32_t s = first; s < count; s++)
        if (slot_of(verifier, s) == slot)
            return s;
    return count;
}

/* The first copy of a member, and how many it has. */
static uint32_t copy_of(const struct pen_verifier *verifier, uint32_t stage)
{
    struct pen_trainer *trainer = verifier->trainer;
    return pen_layout_copy(&trainer->layout,
                           pen_executor_stage(trainer->executor, stage)->stage);
}

static uint32_t users_of(const struct pen_verifier *verifier, uint32_t stage)
{
    struct pen_trainer *trainer = verifier->trainer;
    return pen_shape_users(&trainer->layout.shape,
                           pen_executor_stage(trainer->executor, stage)->stage);
}

/* On all ranks; release its arrays, also on failure. */
static pen_status make_table(struct pen_verifier *verifier, uint32_t slot,
                             struct table *table)
{
    uint32_t num_stages = pen_trainer_num_stages(verifier->trainer);
    double num_rows = 0;
    uint32_t s = stage_of_slot(verifier, slot, 0);
    if (s < num_stages && copy_of(verifier, s) == 0)
        visit(verifier, s, count_row, &num_rows);
    pen_status status = sum(verifier, &num_rows, 1);
    *table = (struct table){.verifier = verifier, .num_rows = (size_t)num_rows};
    if (status != PEN_OK)
        return status;
    size_t count = table->num_rows * (verifier->num_copies + (size_t)2);
    table->tensors = calloc(count, sizeof *table->tensors);
    if (table->tensors == NULL)
        return PEN_NOMEM;
    table->kinds = table->tensors + table->num_rows;
    table->checks = table->kinds + table->num_rows;
    for (; s < num_stages; s = stage_of_slot(verifier, slot, s + 1)) {
        table->row = 0;
        table->copy = copy_of(verifier, s);
        table->users = users_of(verifier, s);
        visit(verifier, s, fill_row, table);
    }
    return sum(verifier, table->tensors, count);
}

static uint32_t rank_of(const struct pen_verifier *verifier, uint32_t slot,
                        uint32_t copy)
{
    struct pen_layout layout = verifier->trainer->layout;
    layout.place.at[PEN_AXIS_TENSOR] = slot / verifier->num_parts;
    return pen_layout_rank_of(&layout, slot % verifier->num_parts, copy);
}

/* "rank 2", "ranks 2 and 5", "ranks 0, 1 and 3" */
static void add_ranks(const struct pen_verifier *verifier, uint32_t slot,
                      const double *checks, const double *like, bool is_like,
                      struct pen_text *out)
{
    enum { MOST = 8 };
    uint32_t ranks[MOST];
    uint32_t count = 0;
    for (uint32_t i = 0; i < verifier->num_copies; i++) {
        uint32_t rank = rank_of(verifier, slot, i);
        bool is_told = count > 0 && count <= MOST && ranks[count - 1] == rank;
        if ((checks[i] == *like) != is_like || is_told)
            continue;
        if (count < MOST)
            ranks[count] = rank;
        count++;
    }
    uint32_t named = count < MOST ? count : MOST;
    pen_text_add(out, "rank%s ", count == 1 ? "" : "s");
    for (uint32_t i = 0; i < named; i++)
        pen_text_add(out, "%s%" PRIu32,
                     i == 0                             ? ""
                     : i + 1 == named && count == named ? " and "
                                                        : ", ",
                     ranks[i]);
    if (count > named)
        pen_text_add(out, " and %" PRIu32 " more", count - named);
}

static void name_ranks(const struct pen_verifier *verifier, uint32_t slot,
                       const double *checks, struct pen_text *why)
{
    const double *most = majority(checks, verifier->num_copies);
    if (why == NULL)
        return;
    if (most != NULL) {
        add_ranks(verifier, slot, checks, most, false, why);
        pen_text_add(why, " against ");
        add_ranks(verifier, slot, checks, most, true, why);
        pen_text_add(why, ", which are more and probably right");
        return;
    }
    add_ranks(verifier, slot, checks, &checks[0], true, why);
    pen_text_add(why, " against ");
    add_ranks(verifier, slot, checks, &checks[0], false, why);
    pen_text_add(why, "; which is right is not known");
}

static pen_status explain(struct pen_verifier *verifier, uint32_t slot,
                          uint64_t step, struct pen_text *why)
{
    struct table table;
    size_t num_different = 0, first = 0;
    pen_status status = make_table(verifier, slot, &table);
    if (status != PEN_OK) {
        free(table.tensors);
        return status;
    }
    for (size_t i = table.num_rows; i-- > 0;) {
        if (all_agree(table.checks + i * verifier->num_copies,
                      verifier->num_copies))
            continue;
        num_different++;
        first = i;
    }
    struct pen_any_tensor about = {.name = "?"};
    if (num_different > 0)
        pen_any_model_tensor(verifier->trainer->options.model,
                             (uint32_t)table.tensors[first], &about);
    pen_why(why,
            "after step %" PRIu64 " the replicas differ in %zu of %zu "
            "tensors of stage %" PRIu32 ", first in the %s of %s: ",
            step, num_different, table.num_rows, slot % verifier->num_parts,
            kinds[(size_t)table.kinds[first]].name, about.name);
    name_ranks(verifier, slot, table.checks + first * verifier->num_copies,
               why);
    pen_why(why,
            ". A bit changed in memory or in a processor; they were the same "
            "after step %" PRIu64
            ". Load a checkpoint of that step or before, and check the machine "
            "of the rank that differs",
            verifier->last_good);
    free(table.tensors);
    return PEN_DAMAGED;
}

pen_status pen_verifier_check(struct pen_verifier *verifier, uint64_t step,
                              struct pen_text *why)
{
    uint32_t num_copies = verifier->num_copies;
    size_t count = (size_t)verifier->num_slots * num_copies;
    struct pen_trainer *trainer = verifier->trainer;
    for (size_t i = 0; i < count; i++)
        verifier->checks[i] = 0;
    for (uint32_t s = 0; s < pen_trainer_num_stages(trainer); s++) {
        uint32_t check = 0;
        visit(verifier, s, join, &check);
        double *checks = verifier->checks +
                         (size_t)slot_of(verifier, s) * num_copies +
                         copy_of(verifier, s);
        for (uint32_t i = 0; i < users_of(verifier, s); i++)
            checks[i] = check;
    }
    pen_status status = sum(verifier, verifier->checks, count);
    if (status != PEN_OK)
        return status;
    for (uint32_t slot = 0; slot < verifier->num_slots; slot++)
        if (!all_agree(verifier->checks + (size_t)slot * num_copies,
                       num_copies))
            return explain(verifier, slot, step, why);
    verifier->last_good = step;
    return PEN_OK;
}
