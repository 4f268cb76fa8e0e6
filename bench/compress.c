/*
 * How fast compressors work: bytes of the vector of floats per second of one
 * core, for all that a member does for one mean (encode and decode of all
 * rounds) among N, without the network.
 *
 *   bench/compress [-m MILLIONS] [-n MEMBERS] [-r ROUNDS] [COMPRESSOR...]
 *
 * The vector has matrices of 1024 x 4096 and a vector of 4096. The others of a
 * member, which is the first, are its mirrors: what it sends to one comes back
 * from the one that is as far on its other side. Each round
 * measures all compressors in turn, and a copy of the vector; the median of the
 * rounds is told, and the time in copies.
 */
#include "sync/registry.h"

#include "measure.h"

#include <string.h>
#include <unistd.h>

enum { ROWS = 1024, COLUMNS = 4096, MOST = 32, MOST_ROUNDS = 99 };

/* ---- mirrors ---- */

struct mirror {
    struct pen_group peers;
    void *received[MOST]; /* where the next from this one goes */
};

static void mirror_send(struct pen_group *peers, uint32_t to, uint32_t channel,
                        const void *bytes, size_t length,
                        struct pen_group_request *request)
{
    struct mirror *mirror = (struct mirror *)peers;
    (void)channel, (void)request;
    memcpy(mirror->received[(peers->size - to) % peers->size], bytes, length);
}

static void mirror_receive(struct pen_group *peers, uint32_t from,
                           uint32_t channel, void *bytes, size_t length,
                           struct pen_group_request *request)
{
    struct mirror *mirror = (struct mirror *)peers;
    (void)channel, (void)request, (void)length;
    mirror->received[from] = bytes;
}

static pen_status mirror_test(struct pen_group *peers,
                              struct pen_group_request *request)
{
    (void)peers, (void)request;
    return PEN_OK;
}

static pen_status mirror_wait(struct pen_group *peers,
                              bool (*is_done)(void *context), void *context,
                              int64_t end_ns)
{
    (void)peers, (void)end_ns;
    while (!is_done(context))
        continue;
    return PEN_OK;
}

static const struct pen_group_ops mirror_ops = {.send = mirror_send,
                                                .receive = mirror_receive,
                                                .test = mirror_test,
                                                .wait = mirror_wait};

/* ---- one compressor ---- */

struct subject {
    const char *name;
    struct pen_sync_choice choice;
    void *state;
    struct pen_collective *collective;
    double ms[MOST_ROUNDS];
};

struct bench {
    struct mirror mirror;
    struct pen_sync_tensor *tensors;
    size_t num_tensors;
    size_t count;
    float *given;
    float *vector;
    int num_rounds;
};

static void make(struct bench *bench, const char *name, struct subject *out)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    size_t sum, gathered;
    *out = (struct subject){.name = name};
    if (pen_sync_choose("allreduce", 0, NULL, 0, name, &out->choice, &why) !=
        PEN_OK)
        stop_unless(0, pen_text_string(&why));
    struct pen_compression setting = {.peers = &bench->mirror.peers,
                                      .tensors = bench->tensors,
                                      .num_tensors = bench->num_tensors,
                                      .count = bench->count,
                                      .seed = 1,
                                      .options =
                                          out->choice.compressor_options};
    const struct pen_compressor *compressor = out->choice.compressor;
    compressor->sizes(&setting, &sum, &gathered);
    stop_unless(compressor->create(&setting, &out->state, &why) == PEN_OK &&
                    pen_collective_create(&bench->mirror.peers, 0, sum,
                                          gathered, &out->collective) == PEN_OK,
                "out of memory");
    pen_text_release(&why);
}

static void release(struct subject *subject)
{
    pen_collective_free(subject->collective);
    subject->choice.compressor->free(subject->state);
}

static void exchange(struct pen_collective *collective,
                     const struct pen_round *round)
{
    if (round->kind == PEN_ROUND_SUM)
        pen_collective_sum(collective, round->floats, round->count);
    else if (round->kind == PEN_ROUND_GATHER)
        pen_collective_gather(collective, round->bytes, round->length);
    else
        pen_collective_scatter(collective, round->pieces, round->lengths);
    pen_collective_wait(collective);
}

/* Of the core, whoever else wants it. */
static double core_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Milliseconds of one mean, without what the exchange takes. */
static double time_mean(struct bench *bench, struct subject *subject,
                        uint64_t step)
{
    const struct pen_compressor *compressor = subject->choice.compressor;
    double ms = 0;
    memcpy(bench->vector, bench->given, bench->count * sizeof(float));
    for (uint32_t round = 0; round < compressor->num_rounds; round++) {
        struct pen_round sent = {0};
        double start = core_ms();
        compressor->encode(subject->state, round, step, bench->vector, &sent);
        ms += core_ms() - start;
        exchange(subject->collective, &sent);
        start = core_ms();
        compressor->decode(subject->state, round, step, subject->collective,
                           bench->vector);
        ms += core_ms() - start;
    }
    return ms;
}

static double time_copy(struct bench *bench)
{
    double start = core_ms();
    memcpy(bench->vector, bench->given, bench->count * sizeof(float));
    return core_ms() - start;
}

/* ---- all ---- */

static void make_vector(struct bench *bench, double millions)
{
    size_t matrices = (size_t)(millions * 1e6 / (ROWS * COLUMNS)) + 1;
    unsigned long long random = 1;
    bench->num_tensors = matrices + 1;
    bench->tensors = calloc(bench->num_tensors, sizeof *bench->tensors);
    stop_unless(bench->tensors != NULL, "out of memory");
    for (size_t i = 0; i < bench->num_tensors; i++) {
        struct pen_sync_tensor *it = &bench->tensors[i];
        it->key = i;
        it->rows = i < matrices ? ROWS : 1;
        it->columns = COLUMNS;
        it->count = it->rows * it->columns;
        it->first = bench->count;
        bench->count += it->count;
    }
    bench->given = calloc(bench->count, sizeof(float));
    bench->vector = calloc(bench->count, sizeof(float));
    stop_unless(bench->given != NULL && bench->vector != NULL, "out of memory");
    for (size_t i = 0; i < bench->count; i++) {
        float sum = 0; /* of four even ones: nearly normal */
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        for (int k = 0; k < 4; k++)
            sum += (float)(random >> (16 + 12 * k) & 4095) / 4096 - 0.5f;
        bench->given[i] = sum;
    }
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return values[count / 2];
}

static void print_row(const struct bench *bench, const char *name, double ms,
                      double copy_ms)
{
    printf("%-28s %2u %9.2f %8.2f %8.2f\n", name, bench->mirror.peers.size, ms,
           (double)bench->count * sizeof(float) / ms * 1e-6, ms / copy_ms);
}

static void measure(struct bench *bench, char **names, size_t num_names)
{
    struct subject subjects[MOST];
    double copies[MOST_ROUNDS];
    for (size_t i = 0; i < num_names; i++)
        make(bench, names[i], &subjects[i]);
    for (int round = -1; round < bench->num_rounds; round++) {
        double copy = time_copy(bench);
        if (round >= 0)
            copies[round] = copy;
        for (size_t i = 0; i < num_names; i++) {
            /* The first warms errors and pages up. */
            double ms = time_mean(bench, &subjects[i], (uint64_t)round + 2);
            if (round >= 0)
                subjects[i].ms[round] = ms;
        }
    }
    double copy_ms = median(copies, bench->num_rounds);
    print_row(bench, "copy", copy_ms, copy_ms);
    for (size_t i = 0; i < num_names; i++) {
        print_row(bench, subjects[i].name,
                  median(subjects[i].ms, bench->num_rounds), copy_ms);
        release(&subjects[i]);
    }
}

int main(int argc, char **argv)
{
    static char *standard[] = {
        "random-block", "sign",        "int8",       "int4",
        "top-k",        "top-k:0.001", "top-k:0.03", "dgc:0.001,warmup=0",
        "powersgd:1",   "powersgd",    "powersgd:4"};
    struct bench bench = {.num_rounds = 7};
    uint32_t from = 1, to = 4;
    double millions = 16;
    int letter;
    while ((letter = getopt(argc, argv, "m:n:r:")) != -1) {
        if (letter == 'm')
            millions = strtod(optarg, NULL);
        else if (letter == 'n')
            from = to = (uint32_t)strtoul(optarg, NULL, 10);
        else if (letter == 'r')
            bench.num_rounds = (int)strtol(optarg, NULL, 10);
        else
            return 2;
    }
    stop_unless(from >= 1 && to <= MOST && bench.num_rounds >= 1 &&
                    bench.num_rounds <= MOST_ROUNDS && argc - optind <= MOST,
                "too few or too many");
    bool is_standard = optind == argc;
    make_vector(&bench, millions);
    printf("%zu floats\n%-28s %2s %9s %8s %8s\n", bench.count, "compressor",
           "N", "ms", "GB/s", "copies");
    for (uint32_t n = from; n <= to; n++) {
        bench.mirror =
            (struct mirror){.peers = {.ops = &mirror_ops, .size = n}};
        measure(&bench, is_standard ? standard : argv + optind,
                is_standard ? sizeof standard / sizeof *standard
                            : (size_t)(argc - optind));
    }
    free(bench.tensors);
    free(bench.given);
    free(bench.vector);
    return 0;
}
