/*
 * TensorBoard's event files. A file is a row of records, and the bytes of each
 * are one protobuf message (tensorboard.proto):
 *
 *   u64     length of the message        all little-endian
 *   u32     masked CRC-32C of those eight bytes
 *   bytes   the message
 *   u32     masked CRC-32C of the message
 *
 * The first message names the version of the format; each other holds the
 * scalars of one step.
 */
#include "runtime/tensorboard.h"

#include "base/bug.h"
#include "base/crc32c.h"
#include "base/journal.h"
#include "runtime/tensorboard.pb-c.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FORMAT_VERSION "brain.Event:2"
#define MOST_RECORD 1024 /* bytes, of all scalars of a step and their tags */
#define HEAD_BYTES 12
#define TAIL_BYTES 4

struct pen_tensorboard {
    struct pen_journal journal;
    unsigned char record[MOST_RECORD];
};

static const struct {
    const char *tag;
    size_t offset; /* of a double in struct pen_run_step */
} reals[] = {
    {"train/loss", offsetof(struct pen_run_step, loss)},
    {"train/grad_norm", offsetof(struct pen_run_step, grad_norm)},
    {"train/learning_rate", offsetof(struct pen_run_step, lr)},
    {"speed/tokens_per_sec", offsetof(struct pen_run_step, tokens_per_sec)},
    {"speed/share_of_peak", offsetof(struct pen_run_step, share_of_peak)},
    {"speed/step_ms", offsetof(struct pen_run_step, step_ms)},
};

#define NUM_REALS (sizeof reals / sizeof *reals)
#define MOST_SCALARS (NUM_REALS + 3) /* memory/bytes, validation/... */

static void put_little_endian(unsigned char *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

/* Masked, since a check of bytes that hold checks says little. */
static void put_check(unsigned char *at, const unsigned char *bytes,
                      size_t length)
{
    uint32_t crc = pen_crc32c(bytes, length);
    uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
    put_little_endian(at, masked, 4);
}

static double wall_time_sec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static pen_status append(struct pen_tensorboard *board, Pen__Event *event,
                         struct pen_text *why)
{
    event->wall_time = wall_time_sec();
    size_t length = pen__event__get_packed_size(event);
    PEN_BUG_UNLESS(HEAD_BYTES + length + TAIL_BYTES <= MOST_RECORD);
    unsigned char *message = board->record + HEAD_BYTES;
    put_little_endian(board->record, length, 8);
    put_check(board->record + 8, board->record, 8);
    pen__event__pack(event, message);
    put_check(message + length, message, length);
    return pen_journal_append(&board->journal, board->record,
                              HEAD_BYTES + length + TAIL_BYTES, why);
}

static pen_status append_version(struct pen_tensorboard *board,
                                 struct pen_text *why)
{
    char version[] = FORMAT_VERSION;
    Pen__Event event = PEN__EVENT__INIT;
    event.what_case = PEN__EVENT__WHAT_FILE_VERSION;
    event.file_version = version;
    return append(board, &event, why);
}

static pen_status append_start(struct pen_tensorboard *board, uint64_t step,
                               struct pen_text *why)
{
    Pen__SessionLog start = PEN__SESSION_LOG__INIT;
    Pen__Event event = PEN__EVENT__INIT;
    start.status = PEN__SESSION_LOG__STATUS__START;
    event.step = (int64_t)step;
    event.what_case = PEN__EVENT__WHAT_SESSION_LOG;
    event.session_log = &start;
    return append(board, &event, why);
}

/* As mkdir -p. */
static pen_status make_directory(const char *directory, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    const char *end = directory;
    pen_status status = PEN_OK;
    while (status == PEN_OK && *end != '\0') {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        pen_text_clear(&path);
        pen_text_add_bytes(&path, directory, (size_t)(end - directory));
        if (mkdir(pen_text_string(&path), 0777) != 0 && errno != EEXIST) {
            pen_why(why, "cannot make the folder %s: %s",
                    pen_text_string(&path), strerror(errno));
            status = PEN_IO;
        }
    }
    pen_text_release(&path);
    return status;
}

/* TensorBoard reads the files of a directory in the order of their names. */
static pen_status open_file(struct pen_tensorboard *board,
                            const char *directory, struct pen_text *why)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    struct pen_text path = PEN_TEXT_EMPTY;
    long long now_sec = (long long)time(NULL);
    int number = 0;
    do {
        pen_text_clear(&path);
        pen_text_add(&path, "%s/events.out.tfevents.%lld.%s.%ld.%d", directory,
                     now_sec, host, (long)getpid(), number++);
    } while (access(pen_text_string(&path), F_OK) == 0);
    pen_status status =
        pen_journal_open(&board->journal, pen_text_string(&path), 0, why);
    pen_text_release(&path);
    return status;
}

pen_status pen_tensorboard_create(const char *directory, uint64_t last_step,
                                  struct pen_tensorboard **out,
                                  struct pen_text *why)
{
    pen_status status = make_directory(directory, why);
    if (status != PEN_OK)
        return status;
    struct pen_tensorboard *board = calloc(1, sizeof *board);
    if (board == NULL) {
        pen_why(why, "no memory for an event file");
        return PEN_NOMEM;
    }
    status = open_file(board, directory, why);
    if (status != PEN_OK) {
        free(board);
        return status;
    }
    status = append_version(board, why);
    if (status == PEN_OK && last_step > 0)
        status = append_start(board, last_step + 1, why);
    if (status == PEN_OK)
        *out = board;
    else
        pen_tensorboard_free(board);
    return status;
}

struct scalars {
    Pen__Scalar messages[MOST_SCALARS];
    Pen__Scalar *pointers[MOST_SCALARS];
    size_t count;
};

static void add_scalar(struct scalars *scalars, const char *tag, double value)
{
    PEN_BUG_UNLESS(scalars->count < MOST_SCALARS);
    Pen__Scalar *message = &scalars->messages[scalars->count];
    pen__scalar__init(message);
    message->tag = (char *)tag; /* protobuf-c only reads it */
    message->simple_value = (float)value;
    scalars->pointers[scalars->count++] = message;
}

pen_status pen_tensorboard_add(struct pen_tensorboard *board,
                               const struct pen_run_step *step,
                               struct pen_text *why)
{
    struct scalars scalars = {.count = 0};
    for (size_t i = 0; i < NUM_REALS; i++) {
        double value;
        memcpy(&value, (const char *)step + reals[i].offset, sizeof value);
        add_scalar(&scalars, reals[i].tag, value);
    }
    add_scalar(&scalars, "memory/bytes", (double)step->memory_bytes);
    if (!isnan(step->val_loss))
        add_scalar(&scalars, "validation/loss", step->val_loss);
    if (!isnan(step->val_accuracy))
        add_scalar(&scalars, "validation/accuracy", step->val_accuracy);

    Pen__Summary summary = PEN__SUMMARY__INIT;
    Pen__Event event = PEN__EVENT__INIT;
    summary.n_value = scalars.count;
    summary.value = scalars.pointers;
    event.step = (int64_t)step->step;
    event.what_case = PEN__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return append(board, &event, why);
}

const char *pen_tensorboard_path(const struct pen_tensorboard *board)
{
    return pen_text_string(&board->journal.path);
}

void pen_tensorboard_free(struct pen_tensorboard *board)
{
    if (board == NULL)
        return;
    pen_journal_close(&board->journal);
    free(board);
}
