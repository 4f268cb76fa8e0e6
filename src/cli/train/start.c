#include "cli/train/start.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/program/program.h"
#include "core/run_ranks.h"
#include "runtime/agree.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- threads ---- */

/*
 * Cores of one of several ranks on this node: those it is bound to, or its
 * share.
 */
static int share_of_cores(uint32_t num_ranks)
{
    struct pen_topology topology;
    struct pen_text unused = PEN_TEXT_EMPTY;
    pen_status status = pen_topology_read(&topology, &unused);
    pen_text_release(&unused);
    if (status != PEN_OK)
        return 1;
    uint32_t usable = topology.usable.cores;
    uint32_t share =
        usable < topology.allowed.cores ? usable : usable / num_ranks;
    return share == 0 ? 1 : (int)share;
}

struct pen_threads_options
pen__train_threads(const struct pen__train_args *args,
                   const struct pen_launch *launch)
{
    struct pen_threads_options options = {.count = (int)args->threads};
    if (launch->local_size == PEN_LAUNCH_UNKNOWN || launch->local_size < 2)
        return options;
    options.is_unbound = true; /* launchers bind */
    if (args->threads == 0 && getenv("OMP_NUM_THREADS") == NULL)
        options.count = share_of_cores(launch->local_size);
    return options;
}

/* ---- the same on all ranks ---- */

static void print_layout(const struct pen__train_layout *layout,
                         unsigned modules, struct pen_text *text)
{
    if (layout->num_shares == 0)
        pen_schedule_print(layout->schedule, text);
    for (uint32_t i = 0; i < layout->num_shares; i++) /* a schedule for each */
        pen_text_add(text, "%u\n", layout->shares[i]);
    for (uint32_t i = 0; i < pen_shape_parts(&layout->schedule->shape); i++)
        pen_text_add(text, "%u %u %u\n", layout->parts[i].first,
                     layout->parts[i].count,
                     (unsigned)layout->parts[i].recompute);
    pen_text_add(text, "%u\n", modules);
}

static pen_status describe_plan(const struct pen__train_facts *facts,
                                struct pen_launch_identity *identity,
                                struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    const struct pen_schedule *schedule = facts->layout->schedule;
    const struct pen__train_moves *moves = facts->moves;
    if (schedule == NULL)
        return PEN_OK;
    print_layout(facts->layout, facts->args->modules, &text);
    for (size_t i = moves->next; i < moves->count; i++) {
        pen_text_add(&text, "%u %d\n", moves->items[i].layout.num_ranks,
                     moves->items[i].args.sharding);
        print_layout(&moves->items[i].layout, moves->items[i].args.modules,
                     &text);
    }
    pen_status status = text.has_failed
                            ? PEN_NOMEM
                            : pen_launch_identity_set(
                                  identity, PEN_IDENTITY_PLAN, schedule->name,
                                  pen_text_string(&text), text.length, why);
    pen_text_release(&text);
    return status;
}

static pen_status describe_model(const struct pen_any_model *model,
                                 struct pen_launch_identity *identity,
                                 struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_any_model_print(model, PEN_DTYPE_F32, &text);
    pen_status status =
        text.has_failed
            ? PEN_NOMEM
            : pen_launch_identity_set(identity, PEN_IDENTITY_MODEL, "config",
                                      pen_text_string(&text), text.length, why);
    pen_text_release(&text);
    return status;
}

/* Leaves out options on outputs that only some ranks write or show. */
static pen_status describe_options(const struct pen__train_args *args,
                                   struct pen_launch_identity *identity,
                                   struct pen_text *why)
{
    struct pen__train_args common = *args;
    common.log = common.tensorboard_dir = common.metrics_port = NULL;
    json_t *settings = pen__train_args_print(&common);
    char *text = json_dumps(settings, JSON_SORT_KEYS);
    pen_status status = PEN_NOMEM;
    if (text != NULL)
        status =
            pen_launch_identity_set(identity, PEN_IDENTITY_OPTIONS,
                                    "command line", text, strlen(text), why);
    free(text);
    json_decref(settings);
    return status;
}

/* A word of --data-path is a weight, a file, or what its files begin with. */
static pen_status add_files(const char *word, struct pen_text *names,
                            const char **paths, size_t *count)
{
    static const char *const endings[] = {"", ".bin", ".idx"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        struct pen_text *name = &names[*count];
        pen_text_add(name, "%s%s", word, endings[i]);
        struct stat facts;
        if (name->has_failed)
            return PEN_NOMEM;
        if (stat(pen_text_string(name), &facts) == 0 && S_ISREG(facts.st_mode))
            paths[(*count)++] = pen_text_string(name);
        else
            pen_text_release(name);
    }
    return PEN_OK;
}

static pen_status describe_data(const struct pen__train_args *args,
                                struct pen_launch_identity *identity,
                                struct pen_text *why)
{
    size_t most = 3 * args->data_path.count + 1, count = 0;
    const char **paths = calloc(most, sizeof *paths);
    struct pen_text *names = calloc(most, sizeof *names);
    pen_status status = paths == NULL || names == NULL ? PEN_NOMEM : PEN_OK;
    for (size_t i = 0; i < args->data_path.count && status == PEN_OK; i++)
        status = add_files(args->data_path.words[i], names, paths, &count);
    if (status == PEN_OK && args->token_ids != NULL)
        paths[count++] = args->token_ids;
    if (status == PEN_OK)
        status = pen_launch_identity_set_files(identity, paths, count, why);
    for (size_t i = 0; i < most && names != NULL; i++)
        pen_text_release(&names[i]);
    free(names);
    free(paths);
    return status;
}

/*
 * Describes the engines of all ranks, so that ranks with the same options give
 * the same text.
 */
static void describe_engines(const struct pen__train_args *args,
                             struct pen_text *out)
{
    for (uint32_t i = 0; i < args->num_engines; i++) {
        const struct pen__train_engine *it = &args->engines[i];
        if (i > 0)
            pen_text_add(out, "; ");
        if (it->kind->describe != NULL)
            it->kind->describe(it->device, out);
    }
}

static pen_status describe(const struct pen__train_facts *facts,
                           struct pen_launch_identity *identity,
                           struct pen_text *why)
{
    struct pen_text library = PEN_TEXT_EMPTY;
    struct pen_text instructions = PEN_TEXT_EMPTY;
    describe_engines(facts->args, &library);
    pen_engine_onednn_instructions(&instructions);
    pen_status status = PEN_NOMEM;
    if (!library.has_failed && !instructions.has_failed)
        status = pen_launch_identity_set_build(
            identity, pen__program_version(), pen_text_string(&library),
            pen_text_string(&instructions), why);
    pen_text_release(&library);
    pen_text_release(&instructions);
    if (status == PEN_OK)
        status = describe_plan(facts, identity, why);
    if (status == PEN_OK)
        status = describe_model(facts->model, identity, why);
    if (status == PEN_OK)
        status = describe_options(facts->args, identity, why);
    if (status == PEN_OK)
        status = describe_data(facts->args, identity, why);
    return status;
}

pen_status pen__train_describe(const struct pen__train_facts *facts,
                               const struct pen_transport *transport,
                               struct pen_launch_identity *out,
                               struct pen_text *why)
{
    char host[56] = "";
    if (pen_transport_size(transport) == 1)
        return PEN_OK;
    (void)gethostname(host, sizeof host - 1);
    pen_launch_identity_init(out, pen_transport_rank(transport), host);
    return describe(facts, out, why);
}

pen_status pen__train_compare(const struct pen_launch_identity *own,
                              struct pen_transport *transport,
                              struct pen_text *why)
{
    struct pen_launch_identity first = *own;
    if (pen_transport_size(transport) == 1)
        return PEN_OK;
    pen_status status = pen_transport_share(transport, &first, sizeof first);
    return status == PEN_OK ? pen_launch_identity_compare(own, &first, why)
                            : status;
}

static pen_status sum(struct pen_transport *transport, double *values,
                      size_t count)
{
    struct pen_request request = {.is_active = false};
    pen_transport_sum(transport, values, count, &request);
    return pen_transport_wait(transport, &request);
}

double pen__train_patience(const struct pen__train_args *args)
{
    enum { OUTSIDE_OF_STEPS = 10 };
    return isnan(args->hang_timeout) ? PEN_AGREE_DEADLINE_SEC
                                     : OUTSIDE_OF_STEPS * args->hang_timeout;
}

/* ---- memory ---- */

/* A longer list is not read; the worst rank is printed in any case. */
enum { MOST_LINES = 16 };

static void tell_ranks(const double *peaks, const double *predicted,
                       uint32_t size)
{
    uint32_t worst = 0, largest = 0;
    for (uint32_t i = 0; i < size; i++) {
        double off = fabs(peaks[i] / predicted[i] - 1);
        if (off > fabs(peaks[worst] / predicted[worst] - 1))
            worst = i;
        if (peaks[i] > peaks[largest])
            largest = i;
        if (size > 1 && size <= MOST_LINES)
            pen_log(PEN_LOG_INFO,
                    "memory of rank %" PRIu32
                    " was %.1f MB at its peak, predicted %.1f, %+.1f %%",
                    i, PEN__MB(peaks[i]), PEN__MB(predicted[i]),
                    100 * (peaks[i] / predicted[i] - 1));
    }
    if (size > MOST_LINES)
        pen_log(
            PEN_LOG_INFO,
            "memory was %.1f MB at its peak on rank %" PRIu32
            "; the largest difference from the prediction was on rank %" PRIu32
            " with %+.1f %%",
            PEN__MB(peaks[largest]), largest, worst,
            100 * (peaks[worst] / predicted[worst] - 1));
}

static pen_status remove_old(const char *folder, const char *name,
                             struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s/%s", folder, name);
    pen_status status = path.has_failed ? PEN_NOMEM : PEN_OK;
    if (status == PEN_OK && unlink(pen_text_string(&path)) != 0 &&
        errno != ENOENT) {
        pen_why(why, "cannot remove %s: %s", pen_text_string(&path),
                strerror(errno));
        status = PEN_IO;
    }
    pen_text_release(&path);
    return status;
}

static void warn_of_peaks(uint32_t rank, pen_status status,
                          struct pen_text *why)
{
    if (rank == 0 && status != PEN_OK)
        pen_log(PEN_LOG_WARN, "could not write the memory peaks: %s",
                why->length > 0 ? pen_text_string(why)
                                : pen_status_text(status));
    pen_text_release(why);
}

pen_status pen__train_make_run(const struct pen__train_args *args,
                               bool is_first, struct pen_text *why)
{
    if (args->run_log.has_failed || args->run_trace.has_failed)
        return PEN_NOMEM;
    if (args->run == NULL)
        return PEN_OK;
    pen_status status = pen_file_make_folder(args->run, 0777, why);
    if (!is_first || status != PEN_OK)
        return status;
    status = remove_old(args->run, "ranks.json", why);
    if (status == PEN_OK)
        status = remove_old(args->run, "trace/schedule.pen", why);
    return status;
}

/* Writes ranks.json with whole bytes, though they come as reals. */
static pen_status write_ranks(const char *folder, const double *peaks,
                              const double *predicted, uint32_t size,
                              struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_run_ranks ranks = {calloc(size, sizeof *ranks.ranks), size};
    pen_status status = PEN_NOMEM;
    for (uint32_t i = 0; i < size && ranks.ranks != NULL; i++)
        ranks.ranks[i] =
            (struct pen_run_rank){(uint64_t)predicted[i], (uint64_t)peaks[i]};
    pen_text_add(&path, "%s/ranks.json", folder);
    if (ranks.ranks != NULL) {
        pen_run_ranks_print(&ranks, &text);
        status = pen_file_write_text(pen_text_string(&path), &text, why);
    }
    free(ranks.ranks);
    pen_text_release(&text);
    pen_text_release(&path);
    return status;
}

pen_status pen__train_tell_peaks(const struct pen__train_args *args,
                                 struct pen_transport *transport,
                                 size_t predicted)
{
    uint32_t size = pen_transport_size(transport);
    uint32_t rank = pen_transport_rank(transport);
    struct pen_text why = PEN_TEXT_EMPTY;
    double *both = calloc((size_t)2 * size, sizeof *both);
    pen_status status = PEN_OK;
    if (both == NULL)
        status = PEN_NOMEM;
    status = pen_agree(transport, status, "summing up peaks of memory",
                       pen__train_patience(args), &why);
    if (status != PEN_OK || both == NULL || pen_memory_peak() == 0) {
        warn_of_peaks(rank, status == PEN_LOST ? PEN_OK : status, &why);
        free(both);
        return status == PEN_LOST ? status : PEN_OK;
    }
    both[rank] = (double)pen_memory_peak();
    both[size + rank] = (double)predicted;
    status = sum(transport, both, (size_t)2 * size);
    if (status != PEN_OK) {
        free(both);
        return status;
    }
    if (size == 1)
        pen_log(PEN_LOG_INFO,
                "memory was %.1f MB at its peak, %+.1f %%; %.1f MB at the end",
                PEN__MB(both[0]), 100 * (both[0] / both[1] - 1),
                PEN__MB(pen_memory_resident()));
    else if (rank == 0)
        tell_ranks(both, both + size, size);
    if (rank == 0 && args->run != NULL)
        status = write_ranks(args->run, both, both + size, size, &why);
    warn_of_peaks(rank, status, &why);
    free(both);
    return PEN_OK;
}

pen_status pen__train_tell_sent(struct pen_transport *transport)
{
    double sent[PEN_TAG_KINDS];
    for (int kind = 0; kind < PEN_TAG_KINDS; kind++)
        sent[kind] =
            (double)pen_transport_sent(transport, (enum pen_tag_kind)kind);
    if (pen_transport_size(transport) == 1)
        return PEN_OK;
    pen_status status = sum(transport, sent, PEN_TAG_KINDS);
    if (status == PEN_OK && pen_transport_rank(transport) == 0) {
        pen_log(PEN_LOG_INFO,
                "sent %.0f bytes between stages, %.0f of gradients to be "
                "summed and %.0f of their sums",
                sent[PEN_TAG_ACT] + sent[PEN_TAG_GRAD], sent[PEN_TAG_GRADIENT],
                sent[PEN_TAG_SUM]);
        if (sent[PEN_TAG_VALUE] > 0)
            pen_log(PEN_LOG_INFO, "sent %.0f bytes of weights by their owners",
                    sent[PEN_TAG_VALUE]);
        if (sent[PEN_TAG_TENSOR] > 0)
            pen_log(PEN_LOG_INFO,
                    "sent %.0f bytes between tensor-parallel ranks",
                    sent[PEN_TAG_TENSOR]);
        if (sent[PEN_TAG_CONTEXT] > 0)
            pen_log(PEN_LOG_INFO,
                    "sent %.0f bytes between context-parallel ranks",
                    sent[PEN_TAG_CONTEXT]);
        if (sent[PEN_TAG_EXPERT] > 0)
            pen_log(PEN_LOG_INFO,
                    "sent %.0f bytes between expert-parallel ranks",
                    sent[PEN_TAG_EXPERT]);
    }
    return status;
}
