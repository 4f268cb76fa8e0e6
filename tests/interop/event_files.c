/*
 * Writes DIR/run.jsonl and event files in DIR/events of the same training: 45
 * steps, then resumed after step 37 up to step 100. What the judges compare.
 */
#include "runtime/tensorboard.h"

#include <math.h>
#include <stdio.h>

static struct pen_run_step step_number(uint64_t number)
{
    double x = (double)number;
    return (struct pen_run_step){
        .step = number,
        .loss = number == 13 ? NAN : 2 + 9 / sqrt(x),
        .grad_norm = number == 13 ? INFINITY : 1 / x,
        .lr = 6e-4 * x / 100,
        .tokens = number * 4096,
        .tokens_per_sec = 1300 + 50 * sin(x),
        .share_of_peak = 0.7,
        .step_ms = 3125,
        .memory_bytes = 3000000000u + number,
        .elapsed_sec = 3.125 * x,
        .val_loss = number % 10 == 0 ? 2.1 + 9 / sqrt(x) : NAN,
        .val_accuracy = number % 20 == 0 ? 1 - 1 / sqrt(x) : NAN,
    };
}

static pen_status train(const char *directory, uint64_t last_step, uint64_t to,
                        struct pen_text *why)
{
    struct pen_text log_path = PEN_TEXT_EMPTY;
    struct pen_text events_path = PEN_TEXT_EMPTY;
    struct pen_run_log log;
    struct pen_tensorboard *board = NULL;
    const struct pen_run_head head = {.model = "preset:gpt2"};
    pen_text_add(&log_path, "%s/run.jsonl", directory);
    pen_text_add(&events_path, "%s/events", directory);
    pen_status status = pen_run_log_open(&log, pen_text_string(&log_path),
                                         &head, last_step, why);
    if (status != PEN_OK)
        goto release_paths;
    status = pen_tensorboard_create(pen_text_string(&events_path), last_step,
                                    &board, why);
    for (uint64_t i = last_step + 1; i <= to && status == PEN_OK; i++) {
        struct pen_run_step step = step_number(i);
        status = pen_run_log_append(&log, &step, why);
        if (status == PEN_OK)
            status = pen_tensorboard_add(board, &step, why);
    }
    pen_tensorboard_free(board);
    pen_run_log_close(&log);
release_paths:
    pen_text_release(&log_path);
    pen_text_release(&events_path);
    return status;
}

int main(int argc, char **argv)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    if (argc != 2) {
        fputs("usage: event_files DIR\n", stderr);
        return 2;
    }
    pen_status status = train(argv[1], 0, 45, &why);
    if (status == PEN_OK)
        status = train(argv[1], 37, 100, &why);
    if (status != PEN_OK)
        fprintf(stderr, "%s\n", pen_text_string(&why));
    pen_text_release(&why);
    return status == PEN_OK ? 0 : 1;
}
