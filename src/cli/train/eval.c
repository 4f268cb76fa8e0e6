/*
 * penstock eval: loss and perplexity of a model on tokens, or accuracy on
 * images.
 */
#include "cli/program/cli.h"

#include "cli/program/answer.h"
#include "cli/program/field_rows.h"
#include "cli/program/line.h"
#include "cli/train/data.h"
#include "cli/train/engine_word.h"
#include "host/threads.h"
#include "runtime/pretrained.h"
#include "runtime/trainer.h"

#include <inttypes.h>
#include <math.h>

struct args {
    const char *model;
    struct pen__list data_path;
    const char *token_ids;
    const char *split;
    uint64_t seq_length;
    uint64_t micro_batch_size;
    bool is_bf16;
    const char *engine_name; /* NULL: onednn */
    const struct pen_engine_kind *engine;
    const char *device; /* of it; NULL: its choice */
    uint64_t threads;
};

#define AT(member) offsetof(struct args, member)

static const struct pen__field fields[] = {
    TEXT("model", "MODEL", model,
         "a run, a checkpoint, or a folder with weights"),
    LIST("data-path", "PREFIX", data_path,
         "file of tokens, or a folder with the files of MNIST or CIFAR-10"),
    TEXT("token-ids", "FILE", token_ids,
         "instead of --data-path: a text file of token ids, one "
         "sequence per line, used in order"),
    TEXT("split", "SHARES", split,
         "evaluate the validation part of this split, as in train; all "
         "data when not given"),
    SIZE("seq-length", seq_length, 1, 1u << 24,
         "tokens per sequence; the model's positions when not given"),
    SIZE("micro-batch-size", micro_batch_size, 1, 1u << 24,
         "samples per micro-batch; 1 when not given"),
    FLAG("bf16", is_bf16, "products in bf16"),
    TEXT("engine", "NAME", engine_name,
         "onednn, reference (plain loops), opencl[:DEVICE] or cuda[:DEVICE]; "
         "onednn "
         "when not given"),
    COUNT("threads", threads, 1, 4096,
          "compute threads; OMP_NUM_THREADS, or one per core, when not "
          "given"),
    JSON("print JSON")};

static void check(void *context, const struct argp_state *state)
{
    struct args *args = context;
    args->engine = pen__engine_word(args->engine_name, &args->device, state);
    pen__line_require(state, args->model != NULL, "model");
    if ((args->data_path.count == 0) == (args->token_ids == NULL))
        argp_error(state, "one of --data-path and --token-ids is required");
    if (args->data_path.count > 1)
        argp_error(state, "eval takes one --data-path; give a single prefix");
}

static const struct pen__line command_line = {
    .name = "penstock eval",
    .fields = fields,
    .num_fields = sizeof fields / sizeof *fields,
    .doc = "Prints loss and perplexity of a model on tokens, or accuracy "
           "on images.\vThe loss is the mean over all predictions of all "
           "whole sequences, each used once; perplexity is its "
           "exponential. For images, eval uses the whole test set, and "
           "accuracy is the share of images with the right label.",
    .check = check};

static pen_status open_data(const struct args *args,
                            const struct pen_any_model *model,
                            struct pen_batches **out, struct pen_text *why)
{
    const struct pen__data_wish wish = {.data_path = &args->data_path,
                                        .token_ids = args->token_ids,
                                        .split = args->split,
                                        .seq_length = args->seq_length,
                                        .is_evaluation = true};
    return pen__data_open(model, &wish, out, why);
}

static pen_status make_trainer(const struct args *args, int threads,
                               const struct pen_pretrained *pretrained,
                               const struct pen_batches *batches,
                               struct pen_trainer **out, struct pen_text *why)
{
    struct pen_trainer_options options = {.model = &pretrained->model,
                                          .sample = pen_batches_shape(batches),
                                          .engine = args->engine,
                                          .device = args->device,
                                          .is_bf16 = args->is_bf16,
                                          .threads = threads,
                                          .micro_batch = args->micro_batch_size,
                                          .global_batch =
                                              args->micro_batch_size,
                                          .is_forward_only = true};
    if (pretrained->weights == NULL) {
        pen_why(why, "%s has no weights to evaluate", args->model);
        return PEN_INVALID;
    }
    pen_status status = pen_trainer_create(&options, out, why);
    if (status == PEN_OK)
        status = pen_trainer_load_weights(*out, pretrained->weights, why);
    return status;
}

/* A loss over tokens is also told as perplexity. */
static int print_text(double loss, uint64_t tokens)
{
    if (pen__answer_is_json())
        return pen__print_json("eval", json_pack("{s:f,s:f,s:I}", "loss", loss,
                                                 "perplexity", exp(loss),
                                                 "tokens", (json_int_t)tokens));
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add(&text,
                 "loss %.6f, perplexity %.4f over %" PRIu64 " predictions\n",
                 loss, exp(loss), tokens);
    return pen__print(&text);
}

static int print_images(const struct pen_evaluation *found, uint64_t images)
{
    if (pen__answer_is_json())
        return pen__print_json(
            "eval", json_pack("{s:f,s:f,s:I}", "loss", found->loss, "accuracy",
                              found->accuracy, "images", (json_int_t)images));
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_text_add(&text, "loss %.6f, accuracy %.2f %% over %" PRIu64 " images\n",
                 found->loss, 100 * found->accuracy, images);
    return pen__print(&text);
}

static int print(const struct pen_evaluation *found, uint64_t num_targets)
{
    return isnan(found->accuracy) ? print_text(found->loss, num_targets)
                                  : print_images(found, num_targets);
}

static int evaluate(const struct args *args, struct pen_text *why)
{
    struct pen_threads_options wanted = {.count = (int)args->threads};
    struct pen_threads threads = {0};
    struct pen_pretrained pretrained = {0};
    struct pen_batches *batches = NULL;
    struct pen_trainer *trainer = NULL;
    struct pen_evaluation found = {0};
    pen_status status = pen_threads_start(&wanted, &threads, why);
    if (status == PEN_OK)
        status = pen_pretrained_open(&pretrained, args->model, why);
    pen__warn_skipped(pretrained.checkpoint);
    if (status == PEN_OK)
        status = open_data(args, &pretrained.model, &batches, why);
    if (status == PEN_OK)
        status = make_trainer(args, threads.count, &pretrained, batches,
                              &trainer, why);
    uint64_t count = batches == NULL ? 0 : pen_batches_epoch(batches);
    if (status == PEN_OK)
        status = pen_trainer_evaluate(trainer, batches, count, &found, why);
    int code =
        status == PEN_OK
            ? print(&found, count * pen_batches_shape(batches).num_targets)
            : pen__refuse_as(status, why);
    pen_trainer_free(trainer);
    pen_batches_free(batches);
    pen_pretrained_release(&pretrained);
    return code;
}

static int run(int argc, char **argv)
{
    struct args args = {.micro_batch_size = 1};
    struct pen_text why = PEN_TEXT_EMPTY;
    int code = PEN__EXIT_USAGE;
    if (pen__line_read(&command_line, argc, argv, &args))
        code = evaluate(&args, &why);
    pen__list_release(&args.data_path);
    pen_text_release(&why);
    return code;
}

const struct pen__command pen__eval = {
    "eval", "prints loss and perplexity or accuracy of a model", run, NULL};
