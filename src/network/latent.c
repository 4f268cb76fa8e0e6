/* Latent attention; see latent.h. */
#include "network/latent.h"

#include <stdlib.h>

static size_t key_size(const struct pen__latent *self)
{
    return self->nope + self->rope;
}

static size_t wide_size(const struct pen__latent *self)
{
    return self->nope + self->value;
}

static void *element_at(const struct pen__latent *self, void *block,
                        size_t offset, size_t elements)
{
    return pen__at(block, offset + elements * self->shape.element);
}

/* ---- passes ---- */

static struct pen_columns columns_of(const struct pen__latent *self,
                                     size_t width)
{
    return (struct pen_columns){.rows = self->shape.rows,
                                .groups = self->heads,
                                .width = width,
                                .to_stride = self->heads * key_size(self),
                                .to_step = key_size(self)};
}

static void forward_queries(const struct pen__latent *self,
                            struct pen_engine *engine, const void *a,
                            void *stash)
{
    const struct pen_engine_ops *ops = engine->ops;
    void *q = pen__at(stash, self->q);
    if (self->query_low > 0) {
        void *low = pen__at(stash, self->low_q);
        void *normed = pen__at(stash, self->normed_q);
        ops->linear_forward(engine, &self->query_down, a, NULL, low);
        ops->norm_forward(engine, &self->query_norm, low, normed, NULL,
                          pen__at(stash, self->q_rstd));
        a = normed;
    }
    ops->linear_forward(engine, &self->query_up, a, NULL, q);
    ops->rotary_forward(engine, &self->query_rotary,
                        element_at(self, q, 0, self->nope));
}

/* Puts wide and the turned ropes together as attention reads them. */
static void assemble(const struct pen__latent *self, struct pen_engine *engine,
                     void *stash, void *wide)
{
    const struct pen_engine_ops *ops = engine->ops;
    struct pen_columns columns = columns_of(self, self->nope);
    columns.from_stride = self->heads * wide_size(self);
    columns.from_step = wide_size(self);
    ops->copy_columns(engine, &columns, wide, pen__at(stash, self->k));
    columns.width = self->value;
    columns.zeros = key_size(self) - self->value;
    ops->copy_columns(engine, &columns, element_at(self, wide, 0, self->nope),
                      pen__at(stash, self->v));
    columns.width = self->rope;
    columns.zeros = 0;
    columns.from_stride = self->key_low + self->rope;
    columns.from_step = 0;
    ops->copy_columns(engine, &columns,
                      element_at(self, stash, self->low_k, self->key_low),
                      element_at(self, stash, self->k, self->nope));
}

void pen__latent_forward(const struct pen__latent *self,
                         struct pen_engine *engine, const void *a, void *stash,
                         void *scratch)
{
    const struct pen_engine_ops *ops = engine->ops;
    void *low = pen__at(stash, self->low_k);
    void *narrow = pen__at(stash, self->narrow_k);
    void *normed = pen__at(stash, self->normed_k);
    void *wide = pen__at(scratch, self->wide);
    const struct pen_columns columns = {.rows = self->shape.rows,
                                        .groups = 1,
                                        .width = self->key_low,
                                        .from_stride =
                                            self->key_low + self->rope,
                                        .to_stride = self->key_low};
    forward_queries(self, engine, a, stash);
    ops->linear_forward(engine, &self->key_down, a, NULL, low);
    ops->copy_columns(engine, &columns, low, narrow);
    ops->norm_forward(engine, &self->key_norm, narrow, normed, NULL,
                      pen__at(stash, self->k_rstd));
    ops->linear_forward(engine, &self->key_up, normed, NULL, wide);
    ops->rotary_forward(engine, &self->key_rotary,
                        element_at(self, low, 0, self->key_low));
    assemble(self, engine, stash, wide);
}

/* Splits dk and dv into the gradients of wide and of the rope of all heads. */
static void take_apart(const struct pen__latent *self,
                       struct pen_engine *engine, void *hold)
{
    const struct pen_engine_ops *ops = engine->ops;
    struct pen_columns columns = {.rows = self->shape.rows,
                                  .groups = self->heads,
                                  .width = self->nope,
                                  .from_stride = self->heads * key_size(self),
                                  .from_step = key_size(self),
                                  .to_stride = self->heads * wide_size(self),
                                  .to_step = wide_size(self)};
    ops->copy_columns(engine, &columns, pen__at(hold, self->dk),
                      pen__at(hold, self->dwide));
    columns.width = self->value;
    ops->copy_columns(engine, &columns, pen__at(hold, self->dv),
                      element_at(self, hold, self->dwide, self->nope));
    columns.width = self->rope;
    columns.to_stride = self->key_low + self->rope;
    columns.to_step = 0;
    ops->copy_columns(engine, &columns,
                      element_at(self, hold, self->dk, self->nope),
                      element_at(self, hold, self->dlow_k, self->key_low));
}

static void backward_keys(const struct pen__latent *self,
                          struct pen_engine *engine, void *stash, void *hold,
                          void *scratch)
{
    const struct pen_engine_ops *ops = engine->ops;
    void *narrow = pen__at(scratch, self->wide);
    const struct pen_columns columns = {.rows = self->shape.rows,
                                        .groups = 1,
                                        .width = self->key_low,
                                        .from_stride = self->key_low,
                                        .to_stride =
                                            self->key_low + self->rope};
    take_apart(self, engine, hold);
    ops->rotary_backward(engine, &self->key_rotary,
                         element_at(self, hold, self->dlow_k, self->key_low));
    ops->linear_backward_input(engine, &self->key_up,
                               pen__at(hold, self->dwide),
                               pen__at(hold, self->dnormed_k));
    ops->norm_backward_input(engine, &self->key_norm,
                             pen__at(stash, self->narrow_k), NULL,
                             pen__at(stash, self->k_rstd),
                             pen__at(hold, self->dnormed_k), NULL, narrow);
    ops->copy_columns(engine, &columns, narrow, pen__at(hold, self->dlow_k));
}

void pen__latent_backward_input(const struct pen__latent *self,
                                struct pen_engine *engine, void *stash,
                                void *hold, void *scratch, void *da)
{
    const struct pen_engine_ops *ops = engine->ops;
    void *dq = pen__at(hold, self->dq);
    void *second = pen__at(scratch, self->second);
    backward_keys(self, engine, stash, hold, scratch);
    ops->rotary_backward(engine, &self->query_rotary,
                         element_at(self, dq, 0, self->nope));
    if (self->query_low > 0) {
        void *dnormed = pen__at(hold, self->dnormed_q);
        void *dlow = pen__at(hold, self->dlow_q);
        ops->linear_backward_input(engine, &self->query_up, dq, dnormed);
        ops->norm_backward_input(
            engine, &self->query_norm, pen__at(stash, self->low_q), NULL,
            pen__at(stash, self->q_rstd), dnormed, NULL, dlow);
        ops->linear_backward_input(engine, &self->query_down, dlow, da);
    } else {
        ops->linear_backward_input(engine, &self->query_up, dq, da);
    }
    ops->linear_backward_input(engine, &self->key_down,
                               pen__at(hold, self->dlow_k), second);
    ops->add(engine, self->shape.rows * self->shape.hidden, da, second, da);
}

void pen__latent_backward_weight(const struct pen__latent *self,
                                 struct pen_engine *engine, const void *a,
                                 void *stash, void *hold)
{
    const struct pen_engine_ops *ops = engine->ops;
    void *dq = pen__at(hold, self->dq);
    if (self->query_low > 0) {
        ops->linear_backward_weight(engine, &self->query_up,
                                    pen__at(stash, self->normed_q), dq);
        ops->norm_backward_weight(
            engine, &self->query_norm, pen__at(stash, self->low_q), NULL,
            pen__at(stash, self->q_rstd), pen__at(hold, self->dnormed_q));
        ops->linear_backward_weight(engine, &self->query_down, a,
                                    pen__at(hold, self->dlow_q));
    } else {
        ops->linear_backward_weight(engine, &self->query_up, a, dq);
    }
    ops->linear_backward_weight(engine, &self->key_up,
                                pen__at(stash, self->normed_k),
                                pen__at(hold, self->dwide));
    ops->norm_backward_weight(
        engine, &self->key_norm, pen__at(stash, self->narrow_k), NULL,
        pen__at(stash, self->k_rstd), pen__at(hold, self->dnormed_k));
    ops->linear_backward_weight(engine, &self->key_down, a,
                                pen__at(hold, self->dlow_k));
}

void pen__latent_narrow(const struct pen__latent *self,
                        struct pen_engine *engine, const void *attended,
                        void *values)
{
    const struct pen_columns columns = {.rows = self->shape.rows,
                                        .groups = self->heads,
                                        .width = self->value,
                                        .from_stride =
                                            self->heads * key_size(self),
                                        .from_step = key_size(self),
                                        .to_stride = self->heads * self->value,
                                        .to_step = self->value};
    engine->ops->copy_columns(engine, &columns, attended, values);
}

void pen__latent_widen(const struct pen__latent *self,
                       struct pen_engine *engine, const void *values,
                       void *attended)
{
    struct pen_columns columns = columns_of(self, self->value);
    columns.from_stride = self->heads * self->value;
    columns.from_step = self->value;
    columns.zeros = key_size(self) - self->value;
    engine->ops->copy_columns(engine, &columns, values, attended);
}

/* ---- making one ---- */

/* A product that all pieces have, each a part of its gradient. */
static pen_status add_narrow(struct pen_network *network, uint32_t layer,
                             enum pen_part weight, enum pen_part bias,
                             struct pen_linear *out, struct pen_text *why)
{
    const struct pen__dense dense = {.weight = weight, .bias = bias};
    return pen__add_linear(network, layer, &dense, 1, out, why);
}

/* A product to the heads of a piece, with `outputs` outputs in all. */
static pen_status add_wide(struct pen_network *network, uint32_t layer,
                           enum pen_part weight, size_t outputs,
                           struct pen_linear *out, struct pen_text *why)
{
    bool is_copy = network->is_adding_copies;
    uint32_t sharing = network->adding_shared;
    const struct pen__dense dense = {
        .weight = weight,
        .bias = PEN_PARTS,
        .cut = pen__cut_equally(PEN__OUTPUTS, outputs, network->adding_piece,
                                network->options.tensor.total)};
    network->is_adding_copies = false;
    network->adding_shared = 0;
    pen_status status = pen__add_linear(network, layer, &dense, 1, out, why);
    network->is_adding_copies = is_copy;
    network->adding_shared = sharing;
    return status;
}

static pen_status add_parameters(struct pen__latent *self,
                                 struct pen_network *network, uint32_t layer,
                                 struct pen_text *why)
{
    const struct pen_model *model = network->options.model;
    size_t rows = self->shape.rows;
    pen_status status = PEN_OK;
    network->is_adding_copies = network->adding_piece > 0;
    network->adding_shared = network->options.tensor.total;
    if (self->query_low > 0) {
        status = add_narrow(network, layer, PEN_PART_Q_DOWN,
                            PEN_PART_Q_DOWN_BIAS, &self->query_down, why);
        if (status == PEN_OK)
            status = pen__add_norm(network, layer, PEN_PART_Q_LOW_NORM,
                                   PEN_PARTS, rows, &self->query_norm, why);
    }
    if (status == PEN_OK)
        status =
            add_wide(network, layer, PEN_PART_Q,
                     model->num_heads * key_size(self), &self->query_up, why);
    if (status == PEN_OK)
        status = add_narrow(network, layer, PEN_PART_KV_DOWN,
                            PEN_PART_KV_DOWN_BIAS, &self->key_down, why);
    if (status == PEN_OK)
        status = pen__add_norm(network, layer, PEN_PART_KV_LOW_NORM, PEN_PARTS,
                               rows, &self->key_norm, why);
    if (status == PEN_OK)
        status =
            add_wide(network, layer, PEN_PART_KV_UP,
                     model->num_heads * wide_size(self), &self->key_up, why);
    network->is_adding_copies = false;
    network->adding_shared = 0;
    /* Norms of narrow layers have the epsilon of the class, not the file's. */
    self->query_norm.epsilon = PEN_LATENT_NORM_EPS;
    self->key_norm.epsilon = PEN_LATENT_NORM_EPS;
    return status;
}

static void lay_out(struct pen__latent *self)
{
    size_t row = self->shape.rows * self->shape.element;
    size_t keys = row * self->heads * key_size(self);
    size_t wide = row * self->heads * wide_size(self);
    size_t low = row * self->key_low;
    size_t stat = self->shape.rows * self->shape.stat;
    size_t *stash = &self->stash_bytes;
    size_t *hold = &self->hold_bytes;
    self->q = pen__take(stash, keys);
    self->k = pen__take(stash, keys);
    self->v = pen__take(stash, keys);
    self->dq = pen__take(hold, keys);
    self->dk = pen__take(hold, keys);
    self->dv = pen__take(hold, keys);
    self->low_q = pen__take(stash, row * self->query_low);
    self->normed_q = pen__take(stash, row * self->query_low);
    self->q_rstd = pen__take(stash, self->query_low > 0 ? stat : 0);
    self->dlow_q = pen__take(hold, row * self->query_low);
    self->dnormed_q = pen__take(hold, row * self->query_low);
    self->low_k = pen__take(stash, low + row * self->rope);
    self->narrow_k = pen__take(stash, low);
    self->normed_k = pen__take(stash, low);
    self->k_rstd = pen__take(stash, stat);
    self->dlow_k = pen__take(hold, low + row * self->rope);
    self->dnormed_k = pen__take(hold, low);
    self->dwide = pen__take(hold, wide);
    self->wide = pen__take(&self->scratch_bytes, wide > low ? wide : low);
    self->second = pen__take(&self->scratch_bytes, row * self->shape.hidden);
}

static void set_rotary(struct pen__latent *self,
                       const struct pen_network *network)
{
    const struct pen_model *model = network->options.model;
    size_t sequence = network->options.sequence;
    size_t table = sequence * (self->rope / 2) * self->shape.stat;
    struct pen_rotary rotary = {.rows = self->shape.rows,
                                .sequence = sequence,
                                .head_size = self->rope,
                                .has_neighbours = model->has_neighbour_rope,
                                .cosines = network->tables,
                                .sines = pen__at(network->tables, table)};
    self->query_rotary = rotary;
    self->query_rotary.heads = self->heads;
    self->query_rotary.step = key_size(self);
    self->query_rotary.stride = self->heads * key_size(self);
    self->key_rotary = rotary;
    self->key_rotary.heads = 1;
    self->key_rotary.stride = self->key_low + self->rope;
}

pen_status pen__latent_create(struct pen_network *network, uint32_t layer,
                              struct pen__latent **out, struct pen_text *why)
{
    const struct pen_model *model = network->options.model;
    const struct pen_engine *engine = network->options.engine;
    if (engine->ops->copy_columns == NULL) {
        pen_why(why,
                "the engine %s does not compute latent attention; use "
                "--engine onednn or --engine reference",
                engine->ops->name);
        return PEN_INVALID;
    }
    struct pen__latent *self = calloc(1, sizeof *self);
    if (self == NULL)
        return PEN_NOMEM;
    self->shape = pen__shape_of(&network->options);
    self->heads = model->num_heads / network->options.tensor.total;
    self->nope = model->qk_nope_dim;
    self->rope = model->qk_rope_dim;
    self->value = model->v_head_dim;
    self->query_low = model->q_lora_rank;
    self->key_low = model->kv_lora_rank;
    pen_status status = add_parameters(self, network, layer, why);
    if (status != PEN_OK) {
        pen__latent_free(self);
        return status;
    }
    lay_out(self);
    set_rotary(self, network);
    *out = self;
    return PEN_OK;
}

void pen__latent_free(struct pen__latent *self)
{
    free(self);
}

void pen__latent_strides(const struct pen__latent *self,
                         struct pen_attention *attention)
{
    attention->heads = self->heads;
    attention->kv_heads = self->heads;
    attention->q_stride = self->heads * key_size(self);
    attention->kv_stride = attention->q_stride;
}
