/*
 * Finding tensors in one file or many.
 */
#include "core/weights.h"

#include "base/bug.h"
#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_INDEX_BYTES 100000000u
#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"

struct pen_weights {
    struct pen_safetensors **files;
    size_t num_files;
    const struct pen_safetensor **tensors; /* sorted by name */
    size_t num_tensors;
};

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    size_t tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static bool is_plain_name(const char *file)
{
    return ends_with(file, ".safetensors") && strchr(file, '/') == NULL &&
           file[0] != '.';
}

static int compare_index_places(const void *a, const void *b)
{
    const struct pen_weight_place *x = a;
    const struct pen_weight_place *y = b;
    int files = strcmp(x->file, y->file);
    return files != 0 ? files : strcmp(x->tensor, y->tensor);
}

static pen_status read_map(const json_t *map, struct pen_weight_index *index,
                           struct pen_text *why)
{
    const char *tensor;
    json_t *value;
    index->places = calloc(json_object_size(map) + 1, sizeof *index->places);
    if (index->places == NULL) {
        pen_why(why, "no memory for %zu names", json_object_size(map));
        return PEN_NOMEM;
    }
    json_object_foreach((json_t *)map, tensor, value)
    {
        const char *file = json_string_value(value);
        if (file == NULL || !is_plain_name(file)) {
            pen_why(why, "weight_map.");
            if (why != NULL)
                pen_text_add_printable(why, tensor, strnlen(tensor, 100));
            pen_why(
                why,
                " must be the name of a .safetensors file in the folder of the "
                "index");
            return PEN_INVALID;
        }
        index->places[index->num_places++] =
            (struct pen_weight_place){file, tensor};
    }
    qsort(index->places, index->num_places, sizeof *index->places,
          compare_index_places);
    return PEN_OK;
}

pen_status pen_weight_index_parse(const char *text, size_t length,
                                  struct pen_weight_index *out,
                                  struct pen_text *why)
{
    struct pen_json json;
    struct pen_json map;
    pen_status status = pen_json_load(text, length, &json, why);
    if (status != PEN_OK)
        return status;
    struct pen_weight_index index = {.json = json.object};
    status = pen_json_open(&json, "weight_map", &map, why);
    if (status == PEN_OK)
        status = read_map(map.object, &index, why);
    if (status == PEN_OK)
        *out = index;
    else
        pen_weight_index_release(&index);
    return status;
}

void pen_weight_index_release(struct pen_weight_index *index)
{
    free(index->places);
    json_decref(index->json);
    *index = (struct pen_weight_index){.places = NULL};
}

static struct pen_weights *allocate(size_t num_files, size_t num_tensors)
{
    struct pen_weights *weights = calloc(1, sizeof *weights);
    if (weights == NULL)
        return NULL;
    weights->files = calloc(num_files + 1, sizeof *weights->files);
    weights->tensors = calloc(num_tensors + 1, sizeof *weights->tensors);
    if (weights->files == NULL || weights->tensors == NULL) {
        pen_weights_close(weights);
        return NULL;
    }
    return weights;
}

static int compare_tensors(const void *a, const void *b)
{
    const struct pen_safetensor *const *x = a;
    const struct pen_safetensor *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static pen_status check_twins(const struct pen_weights *weights,
                              struct pen_text *why)
{
    for (size_t i = 1; i < weights->num_tensors; i++)
        if (strcmp(weights->tensors[i - 1]->name, weights->tensors[i]->name) ==
            0) {
            pen_why(why, "tensor %s is there twice", weights->tensors[i]->name);
            return PEN_INVALID;
        }
    return PEN_OK;
}

pen_status pen_weights_join(struct pen_safetensors *const *files, size_t count,
                            struct pen_weights **out, struct pen_text *why)
{
    size_t num_tensors = 0;
    for (size_t i = 0; i < count; i++)
        num_tensors += files[i]->num_tensors;
    struct pen_weights *weights = allocate(count, num_tensors);
    if (weights == NULL) {
        for (size_t i = 0; i < count; i++)
            pen_safetensors_close(files[i]);
        pen_why(why, "no memory for %zu tensors", num_tensors);
        return PEN_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        weights->files[weights->num_files++] = files[i];
        for (size_t k = 0; k < files[i]->num_tensors; k++)
            weights->tensors[weights->num_tensors++] = &files[i]->tensors[k];
    }
    qsort(weights->tensors, weights->num_tensors, sizeof *weights->tensors,
          compare_tensors);
    pen_status status = check_twins(weights, why);
    if (status == PEN_OK)
        *out = weights;
    else
        pen_weights_close(weights);
    return status;
}

static pen_status open_single(const char *path, struct pen_weights **out,
                              struct pen_text *why)
{
    struct pen_safetensors *file = NULL;
    pen_status status = pen_safetensors_open(path, &file, why);
    return status == PEN_OK ? pen_weights_join(&file, 1, out, why) : status;
}

/* Opens a shard; `folder` ends in a slash or is empty. */
static pen_status open_shard(struct pen_weights *weights, const char *folder,
                             const char *name, struct pen_text *why)
{
    struct pen_text path = PEN_TEXT_EMPTY;
    pen_text_add(&path, "%s%s", folder, name);
    pen_status status = pen_safetensors_open(
        pen_text_string(&path), &weights->files[weights->num_files], why);
    if (status == PEN_OK)
        weights->num_files++;
    pen_text_release(&path);
    return status;
}

/* Places are sorted by file, so each is opened once. */
static pen_status open_shards(struct pen_weights *weights, const char *folder,
                              const struct pen_weight_index *index,
                              struct pen_text *why)
{
    for (size_t i = 0; i < index->num_places; i++) {
        const struct pen_weight_place *place = &index->places[i];
        bool is_next = i == 0 || strcmp(place[-1].file, place->file) != 0;
        pen_status status =
            is_next ? open_shard(weights, folder, place->file, why) : PEN_OK;
        if (status != PEN_OK)
            return status;
        const struct pen_safetensor *found = pen_safetensors_find(
            weights->files[weights->num_files - 1], place->tensor);
        if (found == NULL) {
            pen_why(why,
                    "%s%s does not have the tensor %s that the index names",
                    folder, place->file, place->tensor);
            return PEN_INVALID;
        }
        weights->tensors[weights->num_tensors++] = found;
    }
    qsort(weights->tensors, weights->num_tensors, sizeof *weights->tensors,
          compare_tensors);
    return PEN_OK;
}

static size_t count_files(const struct pen_weight_index *index)
{
    size_t count = 0;
    for (size_t i = 0; i < index->num_places; i++)
        count += i == 0 ||
                 strcmp(index->places[i - 1].file, index->places[i].file) != 0;
    return count;
}

static pen_status open_all(const char *path,
                           const struct pen_weight_index *index,
                           struct pen_weights **out, struct pen_text *why)
{
    struct pen_weights *weights =
        allocate(count_files(index), index->num_places);
    if (weights == NULL) {
        pen_why(why, "no memory for the tensors of %s", path);
        return PEN_NOMEM;
    }
    struct pen_text folder = PEN_TEXT_EMPTY;
    const char *slash = strrchr(path, '/');
    if (slash != NULL)
        pen_text_add_bytes(&folder, path, (size_t)(slash - path) + 1);
    pen_status status =
        open_shards(weights, pen_text_string(&folder), index, why);
    pen_text_release(&folder);
    if (status == PEN_OK)
        *out = weights;
    else
        pen_weights_close(weights);
    return status;
}

static pen_status open_index(const char *path, struct pen_weights **out,
                             struct pen_text *why)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    struct pen_text reason = PEN_TEXT_EMPTY;
    struct pen_weight_index index;
    pen_status status = pen_file_read(path, MAX_INDEX_BYTES, &text, why);
    if (status != PEN_OK)
        return status;
    status = pen_weight_index_parse(text.bytes, text.length, &index, &reason);
    pen_text_release(&text);
    if (status == PEN_OK) {
        status = open_all(path, &index, out, why);
        pen_weight_index_release(&index);
    } else {
        pen_why(why, "%s: %s", path, pen_text_string(&reason));
    }
    pen_text_release(&reason);
    return status;
}

static pen_status open_directory(const char *directory,
                                 struct pen_weights **out, struct pen_text *why)
{
    struct stat about;
    struct pen_text single = PEN_TEXT_EMPTY;
    struct pen_text index = PEN_TEXT_EMPTY;
    pen_text_add(&single, "%s/" SINGLE, directory);
    pen_text_add(&index, "%s/" INDEX, directory);
    pen_status status = PEN_IO;
    /* transformers, too, prefers the single file. */
    if (stat(pen_text_string(&single), &about) == 0)
        status = open_single(pen_text_string(&single), out, why);
    else if (stat(pen_text_string(&index), &about) == 0)
        status = open_index(pen_text_string(&index), out, why);
    else
        pen_why(why, "%s has neither " SINGLE " nor " INDEX, directory);
    pen_text_release(&single);
    pen_text_release(&index);
    return status;
}

pen_status pen_weights_open(const char *path, struct pen_weights **out,
                            struct pen_text *why)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return open_directory(path, out, why);
    return ends_with(path, ".json") ? open_index(path, out, why)
                                    : open_single(path, out, why);
}

void pen_weights_close(struct pen_weights *weights)
{
    if (weights == NULL)
        return;
    for (size_t i = 0; i < weights->num_files; i++)
        pen_safetensors_close(weights->files[i]);
    free(weights->files);
    free(weights->tensors);
    free(weights);
}

size_t pen_weights_count(const struct pen_weights *weights)
{
    return weights->num_tensors;
}

const struct pen_safetensor *pen_weights_at(const struct pen_weights *weights,
                                            size_t index)
{
    PEN_BUG_UNLESS(index < weights->num_tensors);
    return weights->tensors[index];
}

const struct pen_safetensor *pen_weights_find(const struct pen_weights *weights,
                                              const char *name)
{
    const struct pen_safetensor wanted = {.name = name};
    const struct pen_safetensor *key = &wanted;
    const struct pen_safetensor **found =
        bsearch(&key, weights->tensors, weights->num_tensors,
                sizeof *weights->tensors, compare_tensors);
    return found == NULL ? NULL : *found;
}

static void add_shape(struct pen_text *why, uint32_t num_dims,
                      const uint64_t *shape)
{
    pen_why(why, "[");
    for (uint32_t i = 0; i < num_dims; i++)
        pen_why(why, "%s%" PRIu64, i == 0 ? "" : ", ", shape[i]);
    pen_why(why, "]");
}

pen_status pen_weights_check(const struct pen_safetensor *tensor,
                             const char *name, uint32_t num_dims,
                             const uint64_t *shape, struct pen_text *why)
{
    if (tensor->num_dims != num_dims ||
        memcmp(tensor->shape, shape, num_dims * sizeof *shape) != 0) {
        pen_why(why, "tensor %s has the shape ", name);
        add_shape(why, tensor->num_dims, tensor->shape);
        pen_why(why, ", but the model needs ");
        add_shape(why, num_dims, shape);
        return PEN_INVALID;
    }
    if (!pen_dtype_is_float(tensor->dtype)) {
        pen_why(why,
                "tensor %s has the type %s; it must be F32, BF16, F16 or F64",
                name, pen_dtype_name(tensor->dtype));
        return PEN_INVALID;
    }
    return PEN_OK;
}

/*
 * Refuses a missing tensor. GPT-OSS is published with experts of four bits, in
 * blocks with scales.
 */
static pen_status refuse_missing(const struct pen_weights *weights,
                                 const char *name, struct pen_text *why)
{
    char blocks[PEN_TENSOR_NAME_SIZE + sizeof "_blocks"];
    (void)snprintf(blocks, sizeof blocks, "%s_blocks", name);
    if (pen_weights_find(weights, blocks) == NULL) {
        pen_why(why, "the weights have no tensor %s", name);
        return PEN_INVALID;
    }
    pen_why(why,
            "the weights have %s in MXFP4, which is not read; load the model "
            "in transformers with Mxfp4Config(dequantize=True) and save it, "
            "then give that folder",
            name);
    return PEN_INVALID;
}

uint32_t pen_weights_num_sections(const struct pen_weights *weights)
{
    char name[PEN_TENSOR_NAME_SIZE];
    uint32_t count = 1;
    for (;; count++) {
        int length = snprintf(name, sizeof name, "local_heads.%u.weight",
                              (unsigned)(count - 1));
        PEN_BUG_UNLESS(length > 0 && (size_t)length < sizeof name);
        if (pen_weights_find(weights, name) == NULL)
            return count;
    }
}

pen_status pen_weights_find_tensor(const struct pen_weights *weights,
                                   const struct pen_model *model,
                                   uint32_t tensor,
                                   const struct pen_safetensor **out,
                                   struct pen_text *why)
{
    struct pen_tensor_info info;
    pen_model_tensor(model, tensor, &info);
    const struct pen_safetensor *found = pen_weights_find(weights, info.name);
    if (found == NULL)
        found =
            pen_weights_find(weights, pen_model_bare_name(model, info.name));
    if (found == NULL)
        return refuse_missing(weights, info.name, why);
    pen_status status = pen_weights_check(found, info.name, info.form->num_dims,
                                          info.form->shape, why);
    if (status != PEN_OK)
        return status;
    *out = found;
    return PEN_OK;
}

static pen_status check_image_tensor(const struct pen_safetensor *found,
                                     const struct pen_image_tensor *tensor,
                                     struct pen_text *why)
{
    if (tensor->part != PEN_IMAGE_NUM_BATCHES)
        return pen_weights_check(found, tensor->name, tensor->num_dims,
                                 tensor->shape, why);
    if (found->dtype == PEN_DTYPE_I64 && found->num_dims == 0)
        return PEN_OK;
    pen_why(why, "tensor %s must be one number of type I64", tensor->name);
    return PEN_INVALID;
}

pen_status pen_weights_find_image_tensor(const struct pen_weights *weights,
                                         const struct pen_image_model *model,
                                         uint32_t tensor,
                                         const struct pen_safetensor **out,
                                         struct pen_text *why)
{
    const struct pen_image_tensor *wanted = &model->tensors[tensor];
    const struct pen_safetensor *found =
        pen_weights_find(weights, wanted->name);
    if (found == NULL) {
        pen_why(why, "the weights have no tensor %s", wanted->name);
        return PEN_INVALID;
    }
    pen_status status = check_image_tensor(found, wanted, why);
    if (status == PEN_OK)
        *out = found;
    return status;
}
