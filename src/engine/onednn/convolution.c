/*
 * Convolutions. The caller's images and the weight lie plain; the library is
 * asked what it likes best, and what it likes otherwise is copied there and
 * back by its reorders, in the engine's scratch:
 *
 *   | source | weight | target | second gradient | the library's own |
 *
 * In bf16 the copy of the weight is also where it is rounded.
 */
#include "base/bug.h"
#include "engine/onednn/onednn.h"

#include <stdlib.h>
#include <string.h>

enum operand { SOURCE, WEIGHT, TARGET, OPERANDS };
enum { PASSES = PEN__BACKWARD_WEIGHT + 1 };

/* One pass: the product, and for each operand the copy it needs, if any. */
struct pass {
    struct pen__product product;
    struct pen__product copies[OPERANDS]; /* not made: used where it lies */
    size_t places[OPERANDS];              /* of the copies in the scratch */
};

/* The primitives prepared for one shape, whatever the parameters are. */
struct pen__convolution {
    struct pen_image_window window;
    size_t outputs;
    bool has_bias;
    size_t tail; /* where the library's own scratch begins */
    size_t gradient;
    struct pass passes[PASSES];
    struct pen__convolution *next;
};

static size_t align(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

void pen__convolution_free(struct pen__convolution *convolution)
{
    while (convolution != NULL) {
        struct pen__convolution *next = convolution->next;
        for (int i = 0; i < PASSES; i++) {
            struct pass *pass = &convolution->passes[i];
            pen__product_release(&pass->product);
            for (int operand = 0; operand < OPERANDS; operand++)
                pen__product_release(&pass->copies[operand]);
        }
        free(convolution);
        convolution = next;
    }
}

static struct pen__convolution *
prepared(const struct pen__onednn *self,
         const struct pen_convolution *convolution)
{
    struct pen__convolution *found = self->convolutions;
    while (found != NULL &&
           (memcmp(&found->window, &convolution->window,
                   sizeof found->window) != 0 ||
            found->outputs != convolution->weight->shape.rows ||
            found->has_bias != (convolution->bias != NULL)))
        found = found->next;
    return found;
}

/* Plain descriptors of the operands, and the same with the layout left open. */
struct operands {
    struct pen__md plain[OPERANDS];
    struct pen__md any[OPERANDS];
    struct pen__md any_gradient;
    struct pen__md bias;
};

static void operands_release(struct operands *operands)
{
    for (int i = 0; i < OPERANDS; i++) {
        pen__md_release(&operands->plain[i]);
        pen__md_release(&operands->any[i]);
    }
    pen__md_release(&operands->any_gradient);
    pen__md_release(&operands->bias);
}

static dnnl_status_t describe(const size_t *sizes, dnnl_data_type_t plain_type,
                              dnnl_data_type_t type, struct pen__md *plain,
                              struct pen__md *any)
{
    const size_t strides[] = {sizes[1] * sizes[2] * sizes[3],
                              sizes[2] * sizes[3], sizes[3], 1};
    dnnl_status_t status = pen__md_init(plain, 4, sizes, plain_type, strides);
    return status == dnnl_success ? pen__md_init(any, 4, sizes, type, NULL)
                                  : status;
}

static dnnl_status_t operands_init(const struct pen__onednn *self,
                                   const struct pen_convolution *convolution,
                                   struct operands *out)
{
    const struct pen_image_window *window = &convolution->window;
    dnnl_data_type_t type =
        self->engine.dtype == PEN_PRECISION_F32 ? dnnl_f32 : dnnl_bf16;
    size_t outputs = convolution->weight->shape.rows;
    const size_t source[] = {window->batch, window->channels, window->image[0],
                             window->image[1]};
    const size_t weight[] = {outputs, window->channels, window->kernel[0],
                             window->kernel[1]};
    const size_t target[] = {window->batch, outputs,
                             pen_image_window_steps(window, 0),
                             pen_image_window_steps(window, 1)};
    const size_t one = 1;
    *out = (struct operands){0};
    dnnl_status_t status =
        describe(source, type, type, &out->plain[SOURCE], &out->any[SOURCE]);
    if (status == dnnl_success)
        status = describe(weight, dnnl_f32, type, &out->plain[WEIGHT],
                          &out->any[WEIGHT]);
    if (status == dnnl_success)
        status = describe(target, type, type, &out->plain[TARGET],
                          &out->any[TARGET]);
    if (status == dnnl_success)
        status = pen__md_init(&out->any_gradient, 4, weight, dnnl_f32, NULL);
    if (status == dnnl_success && convolution->bias != NULL)
        status = pen__md_init(&out->bias, 1, &outputs, dnnl_f32, &one);
    if (status != dnnl_success)
        operands_release(out);
    return status;
}

static enum operand output_of(enum pen__pass pass)
{
    static const enum operand outputs[] = {TARGET, SOURCE, WEIGHT};
    return outputs[pass];
}

/* Returns the layout that the library prefers for an operand of a pass. */
static PEN__MD liked(dnnl_primitive_desc_t description, enum pen__pass pass,
                     enum operand operand)
{
    static const dnnl_query_t queries[PASSES][OPERANDS] = {
        {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
        {dnnl_query_src_md, dnnl_query_diff_weights_md,
         dnnl_query_diff_dst_md}};
    return dnnl_primitive_desc_query_md(description, queries[pass][operand], 0);
}

static pen_status make_copy(struct pen__onednn *self, PEN__MD from, PEN__MD to,
                            struct pen_text *why, struct pen__product *out)
{
    static const int ids[] = {DNNL_ARG_FROM, DNNL_ARG_TO};
    PEN__MD mds[] = {from, to};
    dnnl_primitive_desc_t description;
    dnnl_status_t made = pen__reorder(self->library, from, to, &description);
    if (made != dnnl_success)
        return pen__refused(made, "a copy between layouts of images", why);
    pen_status status =
        pen__product_init(self, description, 2, ids, mds, why, out);
    dnnl_primitive_desc_destroy(description);
    return status;
}

/* The copies of one pass, and room for them from the start of the scratch. */
static pen_status
make_copies(struct pen__onednn *self, const struct operands *operands,
            enum pen__pass kind, dnnl_primitive_desc_t description,
            struct pen_text *why, struct pass *pass, size_t *end)
{
    pen_status status = PEN_OK;
    size_t at = 0;
    for (int i = 0; status == PEN_OK && i < OPERANDS; i++) {
        PEN__MD plain = pen__md_of(&operands->plain[i]);
        PEN__MD wanted = liked(description, kind, (enum operand)i);
        if (pen__md_is_equal(plain, wanted))
            continue;
        bool is_output = output_of(kind) == (enum operand)i;
        status = make_copy(self, is_output ? wanted : plain,
                           is_output ? plain : wanted, why, &pass->copies[i]);
        pass->places[i] = at;
        at += align(dnnl_memory_desc_get_size(wanted));
    }
    if (at > *end)
        *end = at;
    return status;
}

static pen_status
make_pass(struct pen__onednn *self, const struct operands *operands,
          enum pen__pass kind, dnnl_primitive_desc_t description,
          struct pen_text *why, struct pen__convolution *convolution)
{
    static const int ids[PASSES][OPERANDS] = {
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
        {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    struct pass *pass = &convolution->passes[kind];
    bool has_bias = kind == PEN__FORWARD && convolution->has_bias;
    int all_ids[OPERANDS + 1];
    PEN__MD mds[OPERANDS + 1];
    for (int i = 0; i < OPERANDS; i++) {
        all_ids[i] = ids[kind][i];
        mds[i] = liked(description, kind, (enum operand)i);
    }
    all_ids[OPERANDS] = DNNL_ARG_BIAS;
    mds[OPERANDS] = pen__md_of(&operands->bias);
    pen_status status =
        pen__product_init(self, description, OPERANDS + has_bias, all_ids, mds,
                          why, &pass->product);
    return status == PEN_OK ? make_copies(self, operands, kind, description,
                                          why, pass, &convolution->gradient)
                            : status;
}

static pen_status make_passes(struct pen__onednn *self,
                              const struct operands *operands,
                              struct pen_text *why,
                              struct pen__convolution *convolution)
{
    struct pen__slide slide;
    memcpy(slide.stride, convolution->window.stride, sizeof slide.stride);
    memcpy(slide.padding, convolution->window.padding, sizeof slide.padding);
    dnnl_primitive_desc_t forward = NULL;
    pen_status status = PEN_OK;
    for (int kind = 0; status == PEN_OK && kind < PASSES; kind++) {
        struct pen__product_shape shape = {
            .source = operands->any[SOURCE],
            .weight = kind == PEN__BACKWARD_WEIGHT ? operands->any_gradient
                                                   : operands->any[WEIGHT],
            .target = operands->any[TARGET]};
        if (kind == PEN__FORWARD)
            shape.bias = operands->bias;
        dnnl_primitive_desc_t description;
        dnnl_status_t made =
            pen__convolve(self->library, (enum pen__pass)kind, &shape, &slide,
                          forward, &description);
        if (made != dnnl_success) {
            status = pen__refused(made, "a convolution of this size", why);
            break;
        }
        status = make_pass(self, operands, (enum pen__pass)kind, description,
                           why, convolution);
        if (kind == PEN__FORWARD)
            forward = description; /* the hint of the others */
        else
            dnnl_primitive_desc_destroy(description);
    }
    if (forward != NULL)
        dnnl_primitive_desc_destroy(forward);
    return status;
}

/* The most scratch that a product or a copy takes for itself. */
static size_t own_scratch(const struct pen__convolution *convolution)
{
    size_t largest = 0;
    for (int i = 0; i < PASSES; i++) {
        const struct pass *pass = &convolution->passes[i];
        if (pass->product.scratch_bytes > largest)
            largest = pass->product.scratch_bytes;
        for (int operand = 0; operand < OPERANDS; operand++)
            if (pass->copies[operand].scratch_bytes > largest)
                largest = pass->copies[operand].scratch_bytes;
    }
    return largest;
}

static pen_status convolution_prepare(struct pen_engine *engine,
                                      const struct pen_convolution *wanted,
                                      struct pen_text *why)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    if (prepared(self, wanted) != NULL)
        return PEN_OK;
    struct pen__convolution *convolution = calloc(1, sizeof *convolution);
    if (convolution == NULL) {
        pen_why(why, "no memory for a convolution");
        return PEN_NOMEM;
    }
    convolution->window = wanted->window;
    convolution->outputs = wanted->weight->shape.rows;
    convolution->has_bias = wanted->bias != NULL;
    struct operands operands;
    pen_status status;
    dnnl_status_t made = operands_init(self, wanted, &operands);
    if (made != dnnl_success) {
        status = pen__refused(made, "images of this size", why);
    } else {
        status = make_passes(self, &operands, why, convolution);
        operands_release(&operands);
    }
    convolution->tail =
        convolution->gradient + align(wanted->weight->count * sizeof(float));
    if (status == PEN_OK)
        status = pen__scratch_grow(
            self, convolution->tail + own_scratch(convolution), why);
    if (status != PEN_OK) {
        pen__convolution_free(convolution);
        return status;
    }
    convolution->next = self->convolutions;
    self->convolutions = convolution;
    return PEN_OK;
}

/*
 * Where a kernel is larger than its image, oneDNN 2.6 on AMX multiplies scratch
 * that it has not written by zero, and a NaN may come of it.
 */
static void clear_own_scratch(struct pen__onednn *self,
                              const struct pen__convolution *convolution)
{
    const struct pen_image_window *window = &convolution->window;
    if (self->engine.dtype == PEN_PRECISION_BF16 &&
        (window->kernel[0] > window->image[0] ||
         window->kernel[1] > window->image[1]))
        memset(self->scratch + convolution->tail, 0, own_scratch(convolution));
}

/* pointers: the operands as they lie with the caller, then the bias. */
static void run(struct pen__onednn *self, struct pen__convolution *convolution,
                enum pen__pass kind, const void *const *pointers)
{
    struct pass *pass = &convolution->passes[kind];
    enum operand output = output_of(kind);
    char *tail = self->scratch + convolution->tail;
    const void *used[OPERANDS + 1] = {pointers[SOURCE], pointers[WEIGHT],
                                      pointers[TARGET], NULL};
    if (kind == PEN__FORWARD && convolution->has_bias)
        used[OPERANDS] = pointers[OPERANDS];
    for (int i = 0; i < OPERANDS; i++) {
        if (pass->copies[i].primitive == NULL)
            continue;
        used[i] = self->scratch + pass->places[i];
        const void *ends[] = {pointers[i], used[i]};
        if ((enum operand)i != output)
            pen__product_run(self, &pass->copies[i], ends, tail);
    }
    pen__product_run(self, &pass->product, used, tail);
    if (pass->copies[output].primitive != NULL) {
        const void *ends[] = {used[output], pointers[output]};
        pen__product_run(self, &pass->copies[output], ends, tail);
    }
}

static void convolution_forward(struct pen_engine *engine,
                                const struct pen_convolution *convolution,
                                const void *x, void *y)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen__convolution *found = prepared(self, convolution);
    PEN_BUG_UNLESS(found != NULL);
    const void *pointers[] = {x, convolution->weight->parts[PEN_PART_VALUE], y,
                              convolution->bias == NULL
                                  ? NULL
                                  : convolution->bias->parts[PEN_PART_VALUE]};
    run(self, found, PEN__FORWARD, pointers);
}

static void
convolution_backward_input(struct pen_engine *engine,
                           const struct pen_convolution *convolution,
                           const void *dy, void *dx)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen__convolution *found = prepared(self, convolution);
    PEN_BUG_UNLESS(found != NULL);
    const void *pointers[] = {dx, convolution->weight->parts[PEN_PART_VALUE],
                              dy};
    run(self, found, PEN__BACKWARD_INPUT, pointers);
}

static void
convolution_backward_weight(struct pen_engine *engine,
                            const struct pen_convolution *convolution,
                            const void *x, const void *dy)
{
    struct pen__onednn *self = (struct pen__onednn *)engine;
    struct pen__convolution *found = prepared(self, convolution);
    PEN_BUG_UNLESS(found != NULL);
    struct pen_parameter *weight = convolution->weight;
    bool is_first = weight->is_gradient_zero;
    float *gradient = weight->parts[PEN_PART_GRADIENT];
    float *to =
        is_first ? gradient : (float *)(self->scratch + found->gradient);
    const void *pointers[] = {x, to, dy};
    clear_own_scratch(self, found);
    run(self, found, PEN__BACKWARD_WEIGHT, pointers);
    for (size_t i = 0; !is_first && i < weight->count; i++)
        gradient[i] += to[i];
    weight->is_gradient_zero = false;
    if (convolution->bias != NULL)
        self->rows->add_channels(engine, found->window.batch, found->outputs,
                                 pen_image_window_steps(&found->window, 0) *
                                     pen_image_window_steps(&found->window, 1),
                                 dy, pen__gradient(convolution->bias));
}

void pen__convolution_ops(struct pen_engine_ops *ops)
{
    ops->convolution_prepare = convolution_prepare;
    ops->convolution_forward = convolution_forward;
    ops->convolution_backward_input = convolution_backward_input;
    ops->convolution_backward_weight = convolution_backward_weight;
}
