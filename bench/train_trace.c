/*
 * What it costs to record one op: the event alone, and with the two readings
 * of the clock that an op needs when it begins where the one before ended.
 *
 *   train_trace DIR
 */
#include "measure.h"

#include "base/clock.h"
#include "runtime/tracer.h"

#define EVENTS 1000000
#define ROUNDS 15

static double record_all(struct pen_tracer *tracer, bool with_clock)
{
    double begin_ms = now_ms();
    int64_t end_ns = pen_clock_ns();
    for (uint32_t i = 0; i < EVENTS; i++) {
        struct pen_trace_event event = {.position = i, .begin_ns = end_ns};
        event.ready_ns = with_clock ? pen_clock_ns() : end_ns;
        event.end_ns = with_clock ? pen_clock_ns() : end_ns;
        end_ns = event.end_ns;
        pen_tracer_record(tracer, &event);
    }
    return (now_ms() - begin_ms) * 1e6 / EVENTS;
}

static double median_ns(struct pen_tracer *tracer, bool with_clock)
{
    double ns[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        ns[i] = record_all(tracer, with_clock);
        stop_unless(pen_tracer_flush(tracer, NULL) == PEN_OK, "cannot flush");
    }
    qsort(ns, ROUNDS, sizeof *ns, by_size);
    return ns[ROUNDS / 2];
}

int main(int argc, char **argv)
{
    stop_unless(argc == 2, "usage: train_trace DIR");
    const struct pen_tracer_settings settings = {.folder = argv[1],
                                                 .num_ranks = 1,
                                                 .num_ops = EVENTS,
                                                 .capacity = EVENTS};
    struct pen_tracer *tracer = NULL;
    struct pen_text why = PEN_TEXT_EMPTY;
    stop_unless(pen_tracer_create(&settings, &tracer, &why) == PEN_OK,
                pen_text_string(&why));
    printf("event alone      %6.1f ns\n", median_ns(tracer, false));
    printf("with two clocks  %6.1f ns\n", median_ns(tracer, true));
    pen_tracer_free(tracer);
    pen_text_release(&why);
    return 0;
}
