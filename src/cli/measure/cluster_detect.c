/*
 * penstock cluster detect: this machine, or under mpirun all of them, measured
 * into a cluster.yaml. A device is a rank: all measure at the same time, as
 * they will compute, so that shared memory shows in the figures. Cores that are
 * shared do not, for the best of several runs counts: that is warned of.
 */
#include "cli/program/cli.h"

#include "base/file.h"
#include "base/log.h"
#include "cli/measure/profile_link.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "cli/program/progress.h"
#include "cli/train/lost.h"
#include "core/cluster.h"
#include "host/peak.h"
#include "host/threads.h"
#include "runtime/agree.h"
#include "runtime/transport.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Parts that are measured one after the other: those of one process, then
 * links.
 */
enum { OWN_PARTS = 3, ALL_PARTS = 5, HOST_SIZE = 256 };

#define MESSAGE_BYTES ((size_t)4 << 20)
#define ALIKE 0.2 /* nodes that differ by less are of one kind */

struct args {
    uint64_t threads;
    const char *output; /* NULL: standard output */
};

#define AT(member) offsetof(struct args, member)

static const struct pen__field fields[] = {
    COUNT("threads", threads, 1, 4096,
          "compute threads; OMP_NUM_THREADS, or one per core, when not given"),
    TEXT("output", "FILE", output,
         "write the cluster to FILE; to standard output when not given")};

static const struct pen__line command_line = {
    .name = "penstock cluster detect",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .doc = "Measures this machine, or under mpirun a cluster, and writes "
           "a cluster file.\vEach rank is a device. All ranks measure "
           "products in f32 and bf16 and memory bandwidth at the same "
           "time, then the links inside nodes and between nodes. The "
           "figures are valid only if nothing else runs meanwhile."};

/* ---- what each rank measures ---- */

/*
 * The figures of one rank; all of them are doubles, so that one sum gathers
 * them.
 */
struct figures {
    double host; /* a number for its name */
    double f32_flops;
    double bf16_flops; /* 0: it has no such products */
    double memory_bytes;
    double memory_bytes_per_sec;
};

struct detection {
    struct pen_transport *transport;
    struct pen__progress progress;
    struct pen_topology topology;
    int threads;
    struct figures *ranks; /* of all, owned */
    uint32_t num_ranks;
    uint32_t node_size; /* ranks of each node; 0: they do not lie in blocks */
    struct pen_profile_link inside;
    struct pen_profile_link outside;
};

static void show(struct detection *it, uint32_t done, const char *next)
{
    if (pen_transport_rank(it->transport) == 0)
        pen__progress_update(&it->progress, done,
                             it->num_ranks == 1 ? OWN_PARTS : ALL_PARTS, next);
}

/* Hashes the host by FNV-1a, cut to the bits that a double holds. */
static double number_host(void)
{
    char name[HOST_SIZE] = "";
    uint64_t hash = UINT64_C(14695981039346656037);
    (void)gethostname(name, sizeof name - 1);
    for (const char *at = name; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return (double)(hash >> 12);
}

static double usable_memory(const struct pen_topology *topology)
{
    uint64_t bytes = topology->memory_bytes;
    if (topology->memory_limit_bytes > 0 &&
        topology->memory_limit_bytes < bytes)
        bytes = topology->memory_limit_bytes;
    return (double)bytes;
}

static pen_status measure_own(struct detection *it, struct figures *out,
                              struct pen_text *why)
{
    struct pen_text no_bf16 = PEN_TEXT_EMPTY;
    pen_status status = pen_topology_read(&it->topology, why);
    if (status != PEN_OK)
        return status;
    out->host = number_host();
    out->memory_bytes = usable_memory(&it->topology);
    show(it, 0, "products in f32");
    status = pen_transport_meet(it->transport);
    if (status != PEN_OK)
        return status;
    status =
        pen_peak_flops(PEN_PRECISION_F32, it->threads, why, &out->f32_flops);
    if (status != PEN_OK)
        return status;
    show(it, 1, "products in bf16");
    status = pen_transport_meet(it->transport);
    if (status != PEN_OK)
        return status;
    if (pen_peak_flops(PEN_PRECISION_BF16, it->threads, &no_bf16,
                       &out->bf16_flops) != PEN_OK)
        out->bf16_flops = 0;
    pen_text_release(&no_bf16);
    show(it, 2, "memory");
    status = pen_transport_meet(it->transport);
    if (status != PEN_OK)
        return status;
    return pen_peak_bandwidth(&it->topology, it->threads, why,
                              &out->memory_bytes_per_sec);
}

/* Gathers the figures of all ranks on every rank. */
static pen_status gather(struct detection *it, const struct figures *own,
                         struct pen_text *why)
{
    struct pen_request request = {.is_active = false};
    it->ranks = calloc(it->num_ranks, sizeof *it->ranks);
    if (it->ranks == NULL) {
        pen_why(why, "no memory for the figures of %u ranks", it->num_ranks);
        return PEN_NOMEM;
    }
    it->ranks[pen_transport_rank(it->transport)] = *own;
    pen_transport_sum(it->transport, (double *)it->ranks,
                      it->num_ranks * (sizeof *own / sizeof(double)), &request);
    return pen_transport_wait(it->transport, &request);
}

/* ---- places of ranks ---- */

/* Nodes follow each other with as many ranks each; otherwise 0. */
static uint32_t find_node_size(const struct detection *it)
{
    uint32_t size = 1;
    while (size < it->num_ranks && it->ranks[size].host == it->ranks[0].host)
        size++;
    if (it->num_ranks % size != 0)
        return 0;
    for (uint32_t i = 0; i < it->num_ranks; i++) {
        uint32_t first = i - i % size;
        if (it->ranks[i].host != it->ranks[first].host ||
            (i == first && i > 0 && it->ranks[i].host == it->ranks[i - 1].host))
            return 0;
    }
    return size;
}

/* Neighbours in pairs, `distance` apart; the last one may be alone. */
static uint32_t peer_at(const struct detection *it, uint32_t distance,
                        uint32_t block)
{
    uint32_t rank = pen_transport_rank(it->transport);
    uint32_t place = rank % block / distance;
    uint32_t peer = place % 2 == 0 ? rank + distance : rank - distance;
    return peer / block == rank / block && peer < it->num_ranks ? peer : rank;
}

/*
 * Returns a peer on another node where ranks are not in blocks: rank 0 and the
 * first rank of another node.
 */
static uint32_t peer_elsewhere(const struct detection *it)
{
    uint32_t rank = pen_transport_rank(it->transport);
    uint32_t other = 1;
    while (it->ranks[other].host == it->ranks[0].host)
        other++;
    return rank == 0 ? other : rank == other ? 0 : rank;
}

static pen_status measure_links(struct detection *it, struct pen_text *why)
{
    uint32_t all = it->num_ranks;
    uint32_t size = it->node_size == 0 ? 1 : it->node_size;
    pen_status status = PEN_OK;
    show(it, OWN_PARTS, all == 1 ? NULL : "links inside nodes");
    if (size > 1)
        status = pen__profile_link(it->transport, peer_at(it, 1, size),
                                   MESSAGE_BYTES, &it->inside, why);
    if (all > size)
        show(it, OWN_PARTS + 1, "links between nodes");
    if (status == PEN_OK && all > size)
        status = pen__profile_link(it->transport,
                                   it->node_size == 0 ? peer_elsewhere(it)
                                                      : peer_at(it, size, all),
                                   MESSAGE_BYTES, &it->outside, why);
    return status;
}

static pen_status measure(struct detection *it, struct pen_text *why)
{
    struct figures own = {0};
    pen_status status = measure_own(it, &own, why);
    if (status == PEN_OK)
        status = gather(it, &own, why);
    if (status != PEN_OK)
        return status;
    it->node_size = find_node_size(it);
    return measure_links(it, why);
}

/* ---- the cluster ---- */

/* Rounds to four digits: no more were measured. */
static double shorten(double value)
{
    char text[PEN_REAL_SIZE];
    snprintf(text, sizeof text, "%.4g", value);
    return strtod(text, NULL);
}

/* Makes a device of the mean of a node's ranks; they share the memory. */
static struct pen_device device_of(const struct detection *it, uint32_t first,
                                   uint32_t count)
{
    struct pen_device device = {.memory_bytes = 0};
    double rate = 0, sharers = 0;
    for (uint32_t i = first; i < first + count; i++) {
        device.flops[PEN_NUMBER_F32] += it->ranks[i].f32_flops / count;
        device.flops[PEN_NUMBER_BF16] += it->ranks[i].bf16_flops / count;
        rate += it->ranks[i].memory_bytes_per_sec / count;
    }
    for (uint32_t i = 0; i < it->num_ranks; i++)
        sharers += it->ranks[i].host == it->ranks[first].host;
    device.memory_bytes_per_sec = shorten(rate);
    device.memory_bytes =
        (uint64_t)(it->ranks[first].memory_bytes / sharers) >> 20 << 20;
    for (int i = 0; i < PEN_NUMBERS; i++)
        device.flops[i] = shorten(device.flops[i]);
    return device;
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= ALIKE * fmax(a, b);
}

static bool is_alike(const struct pen_device *a, const struct pen_device *b)
{
    return is_near(a->flops[PEN_NUMBER_F32], b->flops[PEN_NUMBER_F32]) &&
           is_near(a->flops[PEN_NUMBER_BF16], b->flops[PEN_NUMBER_BF16]) &&
           is_near((double)a->memory_bytes, (double)b->memory_bytes);
}

/* Nodes in a row that are alike are one group, with the figures of the first.
 */
static void add_groups(const struct detection *it, struct pen_cluster *out)
{
    uint32_t size = it->node_size == 0 ? 1 : it->node_size;
    for (uint32_t first = 0; first < it->num_ranks; first += size) {
        struct pen_device device = device_of(it, first, size);
        struct pen_device_group *last =
            out->num_groups == 0 ? NULL : &out->groups[out->num_groups - 1];
        if (last != NULL && (out->num_groups == PEN_CLUSTER_MAX_KINDS ||
                             is_alike(&last->device, &device))) {
            last->count += size;
            continue;
        }
        snprintf(device.kind, sizeof device.kind, "host");
        if (last != NULL)
            snprintf(device.kind, sizeof device.kind, "host-%u",
                     out->num_groups + 1);
        pen_device_default_constants(&device);
        out->groups[out->num_groups++] =
            (struct pen_device_group){.device = device, .count = size};
    }
}

static void add_level(struct pen_cluster *out, const char *name, uint32_t size,
                      const struct pen_profile_link *link)
{
    struct pen_link_level *level = &out->levels[out->num_levels++];
    snprintf(level->name, sizeof level->name, "%s", name);
    level->size = size;
    level->bytes_per_sec = shorten(link->bytes_per_sec);
    level->latency_sec = shorten(link->latency_sec);
}

/*
 * Adds the levels. One process has no link, so a copy in memory, read and
 * written, represents it.
 */
static void add_levels(const struct detection *it, struct pen_cluster *out)
{
    const struct pen_profile_link copy = {
        .bytes_per_sec = it->ranks[0].memory_bytes_per_sec / 2};
    if (it->num_ranks == 1)
        add_level(out, "node", 0, &copy);
    if (it->inside.is_there)
        add_level(out, "node", it->outside.is_there ? it->node_size : 0,
                  &it->inside);
    if (it->outside.is_there)
        add_level(out, "cluster", 0, &it->outside);
}

static void describe(const struct detection *it,
                     const struct pen_cluster *cluster, struct pen_text *out)
{
    const char *cpu = it->topology.cpu_name;
    pen_text_add(out,
                 "# measured by penstock cluster detect; a device is a rank "
                 "with %d thread%s\n# ",
                 it->threads, it->threads == 1 ? "" : "s");
    pen_text_add_printable(out, cpu, strlen(cpu));
    pen_text_add(out, ", %u core%s\n", it->topology.machine.cores,
                 it->topology.machine.cores == 1 ? "" : "s");
    if (it->num_ranks == 1)
        pen_text_add_string(
            out,
            "# one process: its link is a copy in memory; run under mpirun "
            "to measure real links\n");
    pen_cluster_print(cluster, out);
}

static pen_status write_cluster(const struct detection *it, const char *path,
                                struct pen_text *why)
{
    struct pen_link_level levels[2] = {{.size = 0}};
    struct pen_cluster cluster = {.levels = levels};
    struct pen_text text = PEN_TEXT_EMPTY;
    snprintf(cluster.name, sizeof cluster.name, "%u rank%s, %u to a node",
             it->num_ranks, it->num_ranks == 1 ? "" : "s",
             it->node_size == 0 ? 1 : it->node_size);
    cluster.groups = calloc(it->num_ranks, sizeof *cluster.groups);
    if (cluster.groups == NULL) {
        pen_why(why, "no memory for a cluster of %u ranks", it->num_ranks);
        return PEN_NOMEM;
    }
    add_groups(it, &cluster);
    add_levels(it, &cluster);
    pen_status status = pen_cluster_check(&cluster, why);
    if (status == PEN_OK) {
        describe(it, &cluster, &text);
        status = pen_file_write_text(path, &text, why);
    }
    pen_text_release(&text);
    free(cluster.groups);
    return status;
}

/* ---- the command ---- */

static void warn(const struct detection *it)
{
    uint32_t cores = it->topology.machine.cores;
    uint32_t sharers = 0;
    for (uint32_t i = 0; i < it->num_ranks; i++)
        sharers += it->ranks[i].host == it->ranks[0].host;
    if ((uint64_t)sharers * (uint32_t)it->threads > cores)
        pen_log(PEN_LOG_WARN,
                "%u rank%s of %d thread%s share %u core%s: the figures hold "
                "for a rank that does not share its cores",
                sharers, sharers == 1 ? "" : "s", it->threads,
                it->threads == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
    if (it->node_size == 0)
        pen_log(PEN_LOG_WARN,
                "the ranks of a node are not consecutive, or nodes differ in "
                "their number of ranks: all links are treated as one level");
}

/*
 * Measures all ranks, which end together: an error of one ends them all. All
 * ranks know the links that cannot be distinguished; one of them reports it.
 */
static int detect(const struct args *args, struct detection *it,
                  struct pen_text *why)
{
    bool is_first = pen_transport_rank(it->transport) == 0;
    it->num_ranks = pen_transport_size(it->transport);
    pen__progress_init(&it->progress, "parts");
    pen_status status = measure(it, why);
    pen__progress_finish(&it->progress);
    status = pen_agree(it->transport, status, "measuring the machine",
                       PEN_AGREE_DEADLINE_SEC, why);
    if (status == PEN_LOST)
        pen__end_lost(it->transport, NULL, NULL);
    if (status == PEN_OK && is_first) {
        warn(it);
        status =
            write_cluster(it, args->output == NULL ? "-" : args->output, why);
    }
    free(it->ranks);
    if (status == PEN_OK)
        return PEN__EXIT_OK;
    return pen__refuse_as(status, why); /* the first rank has the reason */
}

static int start(const struct args *args, struct pen_text *why)
{
    struct pen_threads_options wanted = {.count = (int)args->threads};
    struct pen_threads threads = {0};
    struct pen_launch launch = pen_launch_read_own();
    struct detection it = {.transport = NULL};
    pen_status status = pen_threads_start(&wanted, &threads, why);
    if (status == PEN_OK)
        status = pen_transport_open(&launch, &it.transport, why);
    it.threads = threads.count;
    int code =
        status == PEN_OK ? detect(args, &it, why) : pen__refuse_as(status, why);
    pen_transport_close(it.transport);
    return code;
}

static int run(int argc, char **argv)
{
    struct args args = {.threads = 0};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (argc < 2 || strcmp(argv[1], "detect") != 0) {
        pen_log(PEN_LOG_ERROR,
                "this program runs cluster detect only; use penstock for the "
                "other commands");
        return PEN__EXIT_USAGE;
    }
    int code = PEN__EXIT_USAGE;
    if (pen__line_read(&command_line, argc - 1, argv + 1, &args))
        code = start(&args, &why);
    pen_text_release(&why);
    return code;
}

static int help(int argc, char **argv)
{
    (void)argc, (void)argv;
    return pen__line_help(&command_line);
}

const struct pen__command pen__cluster_detect = {
    "cluster", "lists, shows, checks and measures clusters", run, help};
