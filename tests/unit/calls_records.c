/*
 * Records of ranks are read within bounds, paired, and judged: the fault that
 * was written into them is the one that is named.
 */
#include "support/support.h"

#include "calls/faults.h"
#include "calls/reader.h"
#include "calls/waits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000LL
#define NOON 1790000000000000000LL

/* ---- jobs that are written by hand */

struct job {
    struct pen_calls calls;
    struct pen_meetings meetings;
    struct pen_call_faults faults;
    struct pen_call_waits waits;
};

static pen_status read_rank(const char *path, const char *bytes, size_t length,
                            struct job *job, struct pen_text *why)
{
    uint32_t world = 0;
    pen_status status = pen_call_rank_parse(
        path, bytes, length, &job->calls.ranks[job->calls.num_ranks], &world,
        why);
    if (status == PEN_OK)
        job->calls.num_ranks++;
    if (world > job->calls.world)
        job->calls.world = world;
    return status;
}

static void judge(struct job *job)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (pen__calls_join(&job->calls, &why) != PEN_OK ||
        pen_meetings_init(&job->calls, &job->meetings, &why) != PEN_OK ||
        pen_calls_align(&job->calls, &job->meetings, &why) != PEN_OK ||
        pen_call_faults_find(&job->meetings, &job->faults, &why) != PEN_OK ||
        pen_call_waits_init(&job->meetings, &job->waits, &why) != PEN_OK)
        fail_msg("%s", pen_text_string(&why));
    pen_text_release(&why);
}

/* Texts of ranks 0, 1, ...; NULL: the rank has no file. */
static void judge_texts(const char *const *texts, uint32_t count,
                        struct job *job)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    *job = (struct job){.calls.ranks = calloc(count, sizeof *job->calls.ranks)};
    assert_non_null(job->calls.ranks);
    for (uint32_t i = 0; i < count; i++) {
        char path[32];
        snprintf(path, sizeof path, "rank_%u.json", i);
        if (texts[i] != NULL &&
            read_rank(path, texts[i], strlen(texts[i]), job, &why) != PEN_OK)
            fail_msg("%s: %s", path, pen_text_string(&why));
    }
    pen_text_release(&why);
    judge(job);
}

static void release(struct job *job)
{
    pen_call_waits_release(&job->waits);
    pen_call_faults_release(&job->faults);
    pen_meetings_release(&job->meetings);
    pen_calls_release(&job->calls);
}

/* A job of four ranks whose records the tests bend. */
#define RANKS 4

struct bent {
    unsigned steps;
    int64_t late_ns[RANKS];  /* before each step */
    int64_t clock_ns[RANKS]; /* added to all times */
    unsigned last[RANKS];    /* calls that are recorded; 0: all */
    bool has_ends;
    const char *state;
};

/* A step is an all_reduce of 100, one of 200 and a barrier. */
static void add_rank(const struct bent *bent, unsigned rank,
                     struct pen_text *out)
{
    static const char *const names[] = {"all_reduce", "all_reduce", "barrier"};
    unsigned count = 3 * bent->steps;
    int64_t now = NOON;
    if (bent->last[rank] > 0)
        count = bent->last[rank];
    pen_text_add(out, "{\"pg_config\":{\"0\":{\"ranks\":\"[0, 1, 2, 3]\"}},"
                      "\"entries\":[");
    for (unsigned i = 0; i < count; i++) {
        int64_t begin = now + MS;
        int64_t end = now + 10 * MS;
        int64_t latest = 0;
        for (unsigned other = 0; other < RANKS && i % 3 == 0; other++)
            latest =
                latest > bent->late_ns[other] ? latest : bent->late_ns[other];
        if (i % 3 == 0) {
            begin += bent->late_ns[rank];
            end += latest;
        }
        now = end;
        pen_text_add(
            out,
            "%s{\"profiling_name\":\"nccl:%s\",\"collective_seq_id\":%u,"
            "\"process_group\":[\"0\",\"default_pg\"],\"record_id\":%u,"
            "\"input_sizes\":[[%u]],\"input_dtypes\":[\"Float\"],"
            "\"state\":\"%s\",\"time_created_ns\":%lld,"
            "\"time_discovered_completed_ns\":%lld}",
            i == 0 ? "" : ",", names[i % 3], i + 1, i, (i % 3 + 1) * 100,
            bent->state, (long long)(begin + bent->clock_ns[rank]),
            (long long)(bent->has_ends ? end + bent->clock_ns[rank] : 0));
    }
    pen_text_add(out, "]}");
}

static void judge_bent(const struct bent *bent, struct job *job)
{
    struct pen_text texts[RANKS] = {PEN_TEXT_EMPTY, PEN_TEXT_EMPTY,
                                    PEN_TEXT_EMPTY, PEN_TEXT_EMPTY};
    const char *strings[RANKS];
    for (unsigned i = 0; i < RANKS; i++) {
        add_rank(bent, i, &texts[i]);
        strings[i] = pen_text_string(&texts[i]);
    }
    judge_texts(strings, RANKS, job);
    for (unsigned i = 0; i < RANKS; i++)
        pen_text_release(&texts[i]);
}

static void assert_fault(const struct job *job, enum pen_call_fault_kind kind,
                         uint32_t rank)
{
    assert_true(job->faults.count > 0);
    assert_string_equal(pen_call_fault_word(kind),
                        pen_call_fault_word(job->faults.list[0].kind));
    assert_int_equal(1, job->faults.list[0].num_ranks);
    assert_int_equal(rank, job->faults.list[0].ranks[0]);
}

static void assert_near(double wanted, double found, double error)
{
    if (!(fabs(wanted - found) <= error))
        fail_msg("%g instead of %g", found, wanted);
}

/* ---- waiting and clocks */

static void the_late_rank_is_named_with_its_seconds(void **state)
{
    (void)state;
    struct bent bent = {.steps = 5, .late_ns = {[2] = 50 * MS}, .state = "x"};
    struct job job;
    judge_bent(&bent, &job);
    assert_int_equal(0, job.faults.count);
    assert_int_equal(2, job.waits.late_line);
    /* Three others wait 50 ms in each step but the first. */
    assert_near(0.6, job.waits.ranks[2].caused_sec, 1e-9);
    assert_near(0.2, job.waits.ranks[0].waited_sec, 1e-9);
    assert_near(0, job.waits.ranks[2].waited_sec, 1e-9);
    release(&job);
}

static void clocks_of_hosts_that_differ_are_moved(void **state)
{
    (void)state;
    for (unsigned has_ends = 0; has_ends < 2; has_ends++) {
        struct bent bent = {.steps = 5,
                            .late_ns = {[2] = 50 * MS},
                            .clock_ns = {[1] = 5000 * MS, [3] = -700 * MS},
                            .has_ends = has_ends != 0,
                            .state = "completed"};
        struct job job;
        judge_bent(&bent, &job);
        assert_near(-5, 1e-9 * (double)job.calls.ranks[1].shift_ns, 0.06);
        assert_near(0.7, 1e-9 * (double)job.calls.ranks[3].shift_ns, 0.06);
        assert_int_equal(0, job.calls.ranks[2].shift_ns);
        assert_int_equal(2, job.waits.late_line);
        release(&job);
    }
}

static void a_rank_that_is_always_late_is_not_taken_for_a_clock(void **state)
{
    (void)state;
    struct bent bent = {.steps = 9,
                        .late_ns = {[1] = 500 * MS},
                        .has_ends = true,
                        .state = "completed"};
    struct job job;
    judge_bent(&bent, &job);
    assert_int_equal(0, job.calls.ranks[1].shift_ns);
    assert_int_equal(1, job.waits.late_line);
    release(&job);
}

/* ---- faults */

static void a_record_that_ends_is_named(void **state)
{
    (void)state;
    struct bent bent = {.steps = 4, .last = {[1] = 7}, .state = "scheduled"};
    struct job job;
    judge_bent(&bent, &job);
    assert_fault(&job, PEN_CALL_FAULT_STOPPED, 1);
    assert_int_equal(8, job.faults.list[0].meeting->number);
    release(&job);
    /* It ended for others, so that the rank was there. */
    bent.state = "completed";
    judge_bent(&bent, &job);
    assert_int_equal(0, job.faults.count);
    release(&job);
}

#define GROUP "\"pg_config\":{\"0\":{\"ranks\":\"[0, 1, 2]\"}}"
#define ENTRY(number, op, size, more)                                          \
    "{\"profiling_name\":\"nccl:" op "\",\"collective_seq_id\":" number        \
    ",\"process_group\":[\"0\",\"\"],\"input_sizes\":[[" size                  \
    "]],\"input_dtypes\":[\"Float\"],\"time_created_ns\":" number "000" more   \
    "}"
#define RECORD(entries) "{\"entries\":[" entries "]," GROUP "}"

#define A(number) ENTRY(number, "all_reduce", "10", "")
#define B(number) ENTRY(number, "all_reduce", "20", "")
#define C(number) ENTRY(number, "all_gather", "10", "")

static void a_rank_that_skips_is_told_from_one_that_calls_wrongly(void **state)
{
    (void)state;
    static const char full[] =
        RECORD(A("1") "," B("2") "," C("3") "," A("4") "," B("5"));
    static const char skips[] =
        RECORD(A("1") "," B("2") "," C("3") "," A("4") "," C("5"));
    static const char other[] = RECORD(A("1") "," B("2") "," C("3") "," A(
        "4") "," ENTRY("5", "all_reduce", "21", ""));
    struct job job;
    judge_texts((const char *[]){full, skips, full}, 3, &job);
    assert_fault(&job, PEN_CALL_FAULT_SKIPPED, 1);
    release(&job);
    judge_texts((const char *[]){full, full, other}, 3, &job);
    assert_fault(&job, PEN_CALL_FAULT_MISMATCHED, 2);
    assert_false(job.faults.list[0].is_even);
    release(&job);
    /* One against one: the steps before say who is right. */
    judge_texts((const char *[]){skips, full, NULL}, 3, &job);
    assert_fault(&job, PEN_CALL_FAULT_SKIPPED, 0);
    assert_int_equal(2, job.faults.count);
    assert_int_equal(PEN_CALL_FAULT_ABSENT, job.faults.list[1].kind);
    release(&job);
    /* Also where the step begins with the call: B came after A. */
    judge_texts(
        (const char *[]){RECORD(A("1") "," B("2") "," C("3") "," B("4")),
                         RECORD(A("1") "," B("2") "," C("3") "," A("4")), NULL},
        3, &job);
    assert_fault(&job, PEN_CALL_FAULT_SKIPPED, 0);
    release(&job);
    /* And a shape that was never seen is wrong. */
    judge_texts((const char *[]){RECORD(A("1") "," C("2") "," ENTRY(
                                     "3", "all_reduce", "11", "")),
                                 RECORD(A("1") "," C("2") "," A("3")), NULL},
                3, &job);
    assert_fault(&job, PEN_CALL_FAULT_MISMATCHED, 0);
    release(&job);
    /* Without steps before, either may be wrong. */
    judge_texts((const char *[]){RECORD(A("1")), RECORD(B("1")), NULL}, 3,
                &job);
    assert_int_equal(PEN_CALL_FAULT_MISMATCHED, job.faults.list[0].kind);
    assert_true(job.faults.list[0].is_even);
    release(&job);
}

static void a_rank_without_a_file_is_absent(void **state)
{
    (void)state;
    struct job job;
    judge_texts((const char *[]){RECORD(A("1")), NULL, RECORD(A("1"))}, 3,
                &job);
    assert_int_equal(3, job.calls.world);
    assert_fault(&job, PEN_CALL_FAULT_ABSENT, 1);
    release(&job);
}

static void a_ring_that_lost_calls_is_judged_from_its_first(void **state)
{
    (void)state;
    struct job job;
    judge_texts((const char *[]){RECORD(A("1") "," B("2") "," C("3")),
                                 RECORD(ENTRY("3", "all_gather", "10",
                                              ",\"record_id\":2")),
                                 RECORD(A("1") "," B("2") "," C("3"))},
                3, &job);
    assert_int_equal(0, job.faults.count);
    assert_int_equal(2, job.calls.ranks[1].num_lost);
    release(&job);
}

/* ---- sends and receives */

#define SEND(peer) ENTRY("1", "send 0->" peer, "5", ",\"is_p2p\":true")
#define RECV(state)                                                            \
    ENTRY("1", "recv 1<-0", "5", ",\"is_p2p\":true,\"state\":\"" state "\"")

static void a_receive_without_a_send_is_named(void **state)
{
    (void)state;
    struct job job;
    judge_texts((const char *[]){RECORD(SEND("1")),
                                 RECORD(RECV("completed") "," RECV("started")),
                                 RECORD("")},
                3, &job);
    assert_fault(&job, PEN_CALL_FAULT_UNSENT, 0);
    assert_int_equal(2, job.faults.list[0].message->number);
    assert_int_equal(1, job.faults.list[0].right_rank);
    release(&job);
    judge_texts((const char *[]){RECORD(SEND("1") "," SEND("1")),
                                 RECORD(RECV("completed")), RECORD("")},
                3, &job);
    assert_fault(&job, PEN_CALL_FAULT_UNRECEIVED, 1);
    release(&job);
    judge_texts((const char *[]){RECORD(ENTRY("1", "send 0->1", "6", "")),
                                 RECORD(RECV("started")), RECORD("")},
                3, &job);
    assert_fault(&job, PEN_CALL_FAULT_MISMATCHED, 0);
    release(&job);
}

/* ---- files that are wrong */

static void assert_refused(const char *path, const char *text, size_t length,
                           const char *reason)
{
    struct job job = {.calls.ranks = calloc(1, sizeof *job.calls.ranks)};
    struct pen_text why = PEN_TEXT_EMPTY;
    if (read_rank(path, text, length, &job, &why) == PEN_OK ||
        strstr(pen_text_string(&why), reason) == NULL)
        fail_msg("%.60s: '%s' lacks '%s'", text, pen_text_string(&why), reason);
    pen_calls_release(&job.calls);
    pen_text_release(&why);
}

static void bad_files_are_refused_by_their_place(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *reason;
    } cases[] = {
        {"", "line 1, column 1: expected a list or an object"},
        {"5", "expected a list or an object"},
        {"{}", "it must be a record of PyTorch's Flight Recorder"},
        {"{\"entries\":5}", "expected a list or an object"},
        {"{\"entries\":[5]}", "entries[0].profiling_name must be a text"},
        {"{\"entries\":[],\"traceEvents\":[]}", "it must be a record"},
        {"{\"entries\":[{\"profiling_name\":\"nccl:all_reduce\"}]}",
         "entries[0].collective_seq_id must be a whole number"},
        {"{\"entries\":[{\"profiling_name\":\"nccl:send\"}]}",
         "entries[0].profiling_name has no peer"},
        {"{\"entries\":[{\"profiling_name\":\"nccl:send 0->65536\"}]}",
         "has no peer"},
        {"{\"entries\":[]} x", "expected the end of the file"},
        {"{\"entries\":[}", "line 1, column 13: expected a value"},
        {"{\"entries\":[]", "expected ',' or the end"},
        {"{\"entries\" []}", "expected ':'"},
        {"{entries:[]}", "expected a key in quotes"},
        {"{\"entries\":[{\"a\":tru}]}", "line 1, column"},
        {"{\"entries\":[\"abc]}", "the file ends"},
        {"{\"entries\":[],\"pg_config\":{\"0\":{\"ranks\":[-1]}}}",
         "whole numbers from 0"},
        {"{\"entries\":[],\"pg_config\":{\"0\":{\"ranks\":\"[70000]\"}}}",
         "whole numbers from 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused("rank_0", cases[i].text, strlen(cases[i].text),
                       cases[i].reason);
    assert_refused("calls.json", "{\"entries\":[]}", 14, "which rank it is of");
    assert_refused("rank_65536", "{\"entries\":[]}", 14, "which rank it is of");
}

static void a_file_that_is_cut_is_refused_at_every_byte(void **state)
{
    (void)state;
    static const char whole[] = RECORD(A("1") "," B("2"));
    for (size_t length = 0; length < sizeof whole - 1; length++)
        assert_refused("rank_0", whole, length, "");
}

static void deep_values_are_skipped_or_refused(void **state)
{
    (void)state;
    struct pen_text text = PEN_TEXT_EMPTY;
    struct job job = {.calls.ranks = calloc(1, sizeof *job.calls.ranks)};
    /* A key that nobody reads may be as deep as it likes. */
    pen_text_add(&text, "{\"entries\":[],\"more\":");
    pen_text_add_repeat(&text, '[', 1000000);
    pen_text_add_repeat(&text, ']', 1000000);
    pen_text_add(&text, "}");
    assert_int_equal(PEN_OK,
                     read_rank("rank_0", text.bytes, text.length, &job, NULL));
    pen_calls_release(&job.calls);
    pen_text_clear(&text);
    pen_text_add(&text, "{\"entries\":[");
    pen_text_add_repeat(&text, '[', 1000000);
    pen_text_add_repeat(&text, ']', 1000000);
    pen_text_add(&text, "]}");
    assert_refused("rank_0", text.bytes, text.length, "maximum parsing depth");
    pen_text_release(&text);
}

static void ranks_that_are_there_twice_are_refused(void **state)
{
    (void)state;
    struct job job = {.calls.ranks = calloc(2, sizeof *job.calls.ranks)};
    struct pen_text why = PEN_TEXT_EMPTY;
    static const char text[] = RECORD(A("1"));
    assert_int_equal(PEN_OK,
                     read_rank("a/rank_7", text, sizeof text - 1, &job, &why));
    assert_int_equal(PEN_OK,
                     read_rank("b/rank_7", text, sizeof text - 1, &job, &why));
    assert_int_equal(PEN_INVALID, pen__calls_join(&job.calls, &why));
    assert_string_equal("a/rank_7 and b/rank_7 are both of rank 7; give one "
                        "file per rank",
                        pen_text_string(&why));
    pen_calls_release(&job.calls);
    pen_text_release(&why);
}

static void huge_numbers_stay_within_bounds(void **state)
{
    (void)state;
    struct job job;
    static const char text[] = RECORD(
        "{\"profiling_name\":\"nccl:all_reduce\",\"collective_seq_id\":"
        "9223372036854775807,\"input_sizes\":[[9223372036854775807,"
        "9223372036854775807],[-5]],\"time_created_ns\":9223372036854775807}");
    judge_texts((const char *[]){text, text, text}, 3, &job);
    assert_int_equal(0, job.calls.ranks[0].calls[0].begin_ns);
    assert_true(job.calls.ranks[0].calls[0].data.elements <= (uint64_t)1 << 60);
    release(&job);
    static const char events[] =
        "[{\"ph\":\"X\",\"name\":\"all_reduce\",\"ts\":1e300,\"dur\":1e300},"
        "{\"ph\":\"X\",\"name\":\"all_reduce\",\"ts\":-2e15,\"dur\":2e15}]";
    judge_texts((const char *[]){events, events}, 2, &job);
    assert_int_equal(2, job.calls.ranks[0].count);
    release(&job);
}

/* ---- traces */

#define EVENT(cat, name, ts, args)                                             \
    "{\"ph\":\"X\",\"cat\":\"" cat "\",\"name\":\"" name "\",\"ts\":" ts       \
    ",\"dur\":2.5,\"args\":{" args "}}"

static void of_a_trace_only_the_best_kind_of_event_is_kept(void **state)
{
    (void)state;
    struct job job = {.calls.ranks = calloc(1, sizeof *job.calls.ranks)};
    static const char text[] =
        "{\"distributedInfo\":{\"rank\":3,\"world_size\":8},"
        "\"baseTimeNanoseconds\":1000,\"traceEvents\":[" EVENT(
            "cpu_op", "aten::gather", "1",
            "") "," EVENT("cpu_op", "c10d::allreduce_", "2",
                          "") "," EVENT("user_annotation", "nccl:all_reduce",
                                        "3",
                                        "") "," EVENT("kernel",
                                                      "ncclDevKernel_"
                                                      "AllReduce_Sum_"
                                                      "f32_RING_LL",
                                                      "9",
                                                      "\"Collective "
                                                      "name\":"
                                                      "\"allreduce\","
                                                      "\"In msg "
                                                      "nelems\":7,"
                                                      "\"dtype\":"
                                                      "\"Float\","
                                                      "\"Process Group "
                                                      "Name\":\"5\","
                                                      "\"Process Group "
                                                      "Ranks\":\"[3, "
                                                      "4]\"") "," EVENT("kerne"
                                                                        "l",
                                                                        "reduce"
                                                                        "_kerne"
                                                                        "l",
                                                                        "10",
                                                                        "") "]"
                                                                            "}";
    assert_int_equal(PEN_OK,
                     read_rank("any", text, sizeof text - 1, &job, NULL));
    const struct pen_call_rank *rank = &job.calls.ranks[0];
    assert_int_equal(3, rank->rank);
    assert_int_equal(8, job.calls.world);
    assert_int_equal(1, rank->count);
    assert_int_equal(PEN_CALL_ALL_REDUCE, rank->calls[0].op);
    assert_int_equal(7, rank->calls[0].data.elements);
    assert_int_equal(10000, rank->calls[0].begin_ns);
    assert_int_equal(12500, rank->calls[0].end_ns);
    assert_int_equal(2, rank->groups[rank->calls[0].group].count);
    pen_calls_release(&job.calls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_late_rank_is_named_with_its_seconds),
        cmocka_unit_test(clocks_of_hosts_that_differ_are_moved),
        cmocka_unit_test(a_rank_that_is_always_late_is_not_taken_for_a_clock),
        cmocka_unit_test(a_record_that_ends_is_named),
        cmocka_unit_test(a_rank_that_skips_is_told_from_one_that_calls_wrongly),
        cmocka_unit_test(a_rank_without_a_file_is_absent),
        cmocka_unit_test(a_ring_that_lost_calls_is_judged_from_its_first),
        cmocka_unit_test(a_receive_without_a_send_is_named),
        cmocka_unit_test(bad_files_are_refused_by_their_place),
        cmocka_unit_test(a_file_that_is_cut_is_refused_at_every_byte),
        cmocka_unit_test(deep_values_are_skipped_or_refused),
        cmocka_unit_test(ranks_that_are_there_twice_are_refused),
        cmocka_unit_test(huge_numbers_stay_within_bounds),
        cmocka_unit_test(of_a_trace_only_the_best_kind_of_event_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
