/*
 * What tests/interop/run_models asks of Penstock.
 *
 *   model_files tensors SOURCE           name and shape of every tensor
 *   model_files layers SOURCE            parameters of every layer, of those of
 *                                        experts; all, active, one further
 *                                        prediction
 *   model_files config SOURCE            config.json as Penstock writes it
 *   model_files fits SOURCE WEIGHTS      every tensor found in the weights?
 *   model_files copy WEIGHTS DIRECTORY MAX_SHARD_BYTES
 */
#include "core/model.h"
#include "core/weights.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_tensors(const struct pen_model *model)
{
    for (uint32_t i = 0; i < model->num_tensors; i++) {
        struct pen_tensor_info info;
        pen_model_tensor(model, i, &info);
        printf("%s", info.name);
        for (uint32_t d = 0; d < info.form->num_dims; d++)
            printf(" %" PRIu64, info.form->shape[d]);
        printf("\n");
    }
}

static void print_layers(const struct pen_model *model)
{
    for (uint32_t layer = 0; layer < model->num_layers; layer++)
        printf("%" PRIu64 " %" PRIu64 "\n",
               pen_model_layer_parameters(model, layer),
               pen_model_expert_parameters(model, layer));
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", model->num_parameters,
           pen_model_active_parameters(model), pen_model_mtp_parameters(model));
}

static void print_config(const struct pen_model *model)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_model_print(model, &text);
    fputs(pen_text_string(&text), stdout);
    pen_text_release(&text);
}

static pen_status check_fit(const struct pen_model *model, const char *path,
                            struct pen_text *why)
{
    struct pen_weights *weights = NULL;
    pen_status status = pen_weights_open(path, &weights, why);
    for (uint32_t i = 0; status == PEN_OK && i < model->num_tensors; i++) {
        const struct pen_safetensor *found;
        status = pen_weights_find_tensor(weights, model, i, &found, why);
    }
    pen_weights_close(weights);
    return status;
}

static pen_status put_all(const struct pen_weights *from,
                          struct pen_weights_writer *to, struct pen_text *why)
{
    pen_status status = PEN_OK;
    for (size_t i = 0; status == PEN_OK && i < pen_weights_count(from); i++) {
        const struct pen_safetensor *tensor = pen_weights_at(from, i);
        status = pen_weights_put(to, i, tensor->bytes, tensor->num_bytes, why);
    }
    if (status == PEN_OK)
        return pen_weights_finish(to, why);
    pen_weights_abandon(to);
    return status;
}

static pen_status copy(const char *from, const char *directory, uint64_t most,
                       struct pen_text *why)
{
    struct pen_weights *weights = NULL;
    struct pen_weights_writer *writer = NULL;
    pen_status status = pen_weights_open(from, &weights, why);
    if (status != PEN_OK)
        return status;
    size_t count = pen_weights_count(weights);
    struct pen_tensor_spec *specs = calloc(count + 1, sizeof *specs);
    for (size_t i = 0; specs != NULL && i < count; i++) {
        const struct pen_safetensor *tensor = pen_weights_at(weights, i);
        specs[i] = (struct pen_tensor_spec){tensor->name, tensor->dtype,
                                            tensor->num_dims, tensor->shape};
    }
    status = specs == NULL ? PEN_NOMEM
                           : pen_weights_create(directory, "model", specs,
                                                count, most, &writer, why);
    if (status == PEN_OK)
        status = put_all(weights, writer, why);
    free(specs);
    pen_weights_close(weights);
    return status;
}

static pen_status run(int count, char **words, struct pen_text *why)
{
    if (count == 5 && strcmp(words[1], "copy") == 0)
        return copy(words[2], words[3], strtoull(words[4], NULL, 10), why);
    struct pen_model *model = NULL;
    pen_status status = PEN_INVALID;
    if (count >= 3)
        status = pen_model_load(words[2], &model, why);
    else
        pen_why(why, "usage: see the top of model_files.c");
    if (status != PEN_OK)
        return status;
    if (strcmp(words[1], "tensors") == 0)
        print_tensors(model);
    else if (strcmp(words[1], "layers") == 0)
        print_layers(model);
    else if (strcmp(words[1], "config") == 0)
        print_config(model);
    else if (count == 4)
        status = check_fit(model, words[3], why);
    pen_model_free(model);
    return status;
}

int main(int count, char **words)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = run(count, words, &why);
    if (status != PEN_OK)
        fprintf(stderr, "model_files: %s\n", pen_text_string(&why));
    pen_text_release(&why);
    return status == PEN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
