/* Queries, keys and values; see projection.h. */
#include "network/projection.h"

static pen_status add_one_product(struct pen__projection *self,
                                  struct pen_network *network, uint32_t layer,
                                  struct pen_text *why)
{
    static const enum pen_part side_by_side[] = {PEN_PART_QKV};
    static const enum pen_part side_biases[] = {PEN_PART_QKV_BIAS};
    static const enum pen_part weights[] = {PEN_PART_Q, PEN_PART_K, PEN_PART_V};
    static const enum pen_part biases[] = {PEN_PART_Q_BIAS, PEN_PART_K_BIAS,
                                           PEN_PART_V_BIAS};
    const struct pen_model *model = network->options.model;
    if (pen_model_find_part(model, layer, PEN_PART_QKV) < model->num_tensors)
        return pen__add_linear(network, layer, side_by_side, side_biases, 1,
                               &self->all, why);
    return pen__add_linear(network, layer, weights, biases, 3, &self->all, why);
}

static pen_status add_three_products(struct pen__projection *self,
                                     struct pen_network *network,
                                     uint32_t layer, struct pen_text *why)
{
    static const enum pen_part weights[] = {PEN_PART_Q, PEN_PART_K, PEN_PART_V};
    static const enum pen_part biases[] = {PEN_PART_Q_BIAS, PEN_PART_K_BIAS,
                                           PEN_PART_V_BIAS};
    struct pen_linear *linears[] = {&self->all, &self->keys, &self->values};
    const struct pen_model *model = network->options.model;
    for (int i = 0; i < 3; i++) {
        pen_status status = pen__add_linear(network, layer, &weights[i],
                                            &biases[i], 1, linears[i], why);
        if (status != PEN_OK)
            return status;
    }
    size_t rows = self->shape.rows;
    pen_status status =
        pen__add_norm(network, layer, PEN_PART_Q_NORM, PEN_PARTS,
                      rows * model->num_heads, &self->query_norm, why);
    if (status != PEN_OK)
        return status;
    return pen__add_norm(network, layer, PEN_PART_K_NORM, PEN_PARTS,
                         rows * model->num_kv_heads, &self->key_norm, why);
}

static void lay_out_one(struct pen__projection *self)
{
    size_t element = self->shape.element;
    size_t width = self->query_width + 2 * self->key_width;
    size_t bytes = self->shape.rows * width * element;
    self->q = pen__take(&self->stash_bytes, bytes);
    self->k = self->q + self->query_width * element;
    self->v = self->k + self->key_width * element;
    self->dq = pen__take(&self->hold_bytes, bytes);
    self->dk = self->dq + self->query_width * element;
    self->dv = self->dk + self->key_width * element;
}

static void lay_out_three(struct pen__projection *self)
{
    size_t element = self->shape.element;
    size_t queries = self->shape.rows * self->query_width * element;
    size_t keys = self->shape.rows * self->key_width * element;
    self->q = pen__take(&self->stash_bytes, queries);
    self->k = pen__take(&self->stash_bytes, keys);
    self->v = pen__take(&self->stash_bytes, keys);
    self->raw_q = pen__take(&self->stash_bytes, queries);
    self->raw_k = pen__take(&self->stash_bytes, keys);
    self->q_rstd =
        pen__take(&self->stash_bytes, self->query_norm.rows * self->shape.stat);
    self->k_rstd =
        pen__take(&self->stash_bytes, self->key_norm.rows * self->shape.stat);
    self->dq = pen__take(&self->hold_bytes, queries);
    self->dk = pen__take(&self->hold_bytes, keys);
    self->dv = pen__take(&self->hold_bytes, keys);
    self->raw_dq = pen__take(&self->hold_bytes, queries);
    self->raw_dk = pen__take(&self->hold_bytes, keys);
    self->scratch_bytes =
        pen__align(self->shape.rows * self->shape.hidden * element);
}

static void set_rotary(struct pen__projection *self,
                       const struct pen_network *network)
{
    const struct pen_model *model = network->options.model;
    self->has_rotary = model->rope.kind != PEN_ROPE_NONE;
    if (!self->has_rotary)
        return;
    size_t table =
        network->options.sequence * (model->head_dim / 2) * self->shape.stat;
    struct pen_rotary rotary = {.rows = self->shape.rows,
                                .sequence = network->options.sequence,
                                .head_size = model->head_dim,
                                .cosines = network->tables,
                                .sines = pen__at(network->tables, table)};
    self->query_rotary = rotary;
    self->key_rotary = rotary;
    self->key_rotary.heads = model->num_kv_heads;
    self->key_rotary.stride = self->key_width;
    self->query_rotary.heads = model->num_heads;
    self->query_rotary.stride = self->query_width;
    if (!self->has_norms) {
        self->query_rotary.heads += model->num_kv_heads;
        self->query_rotary.stride += 2 * self->key_width;
    }
}

pen_status pen__projection_init(struct pen__projection *self,
                                struct pen_network *network, uint32_t layer,
                                struct pen_text *why)
{
    const struct pen_model *model = network->options.model;
    self->shape = pen__shape_of(&network->options);
    self->has_norms = model->has_qk_norm;
    self->query_width = (size_t)model->num_heads * model->head_dim;
    self->key_width = (size_t)model->num_kv_heads * model->head_dim;
    pen_status status = self->has_norms
                            ? add_three_products(self, network, layer, why)
                            : add_one_product(self, network, layer, why);
    if (status != PEN_OK)
        return status;
    if (self->has_norms)
        lay_out_three(self);
    else
        lay_out_one(self);
    set_rotary(self, network);
    return PEN_OK;
}

void pen__projection_strides(const struct pen__projection *self,
                             struct pen_attention *attention)
{
    size_t width = self->query_width + 2 * self->key_width;
    attention->q_stride = self->has_norms ? self->query_width : width;
    attention->kv_stride = self->has_norms ? self->key_width : width;
}

void pen__projection_forward(const struct pen__projection *self,
                             struct pen_engine *engine, const void *a,
                             void *stash)
{
    const struct pen_engine_ops *ops = engine->ops;
    void *q = pen__at(stash, self->q);
    void *k = pen__at(stash, self->k);
    if (self->has_norms) {
        void *raw_q = pen__at(stash, self->raw_q);
        void *raw_k = pen__at(stash, self->raw_k);
        ops->linear_forward(engine, &self->all, a, NULL, raw_q);
        ops->linear_forward(engine, &self->keys, a, NULL, raw_k);
        ops->linear_forward(engine, &self->values, a, NULL,
                            pen__at(stash, self->v));
        ops->norm_forward(engine, &self->query_norm, raw_q, q, NULL,
                          pen__at(stash, self->q_rstd));
        ops->norm_forward(engine, &self->key_norm, raw_k, k, NULL,
                          pen__at(stash, self->k_rstd));
    } else {
        ops->linear_forward(engine, &self->all, a, NULL, q);
    }
    if (!self->has_rotary)
        return;
    ops->rotary_forward(engine, &self->query_rotary, q);
    if (self->has_norms)
        ops->rotary_forward(engine, &self->key_rotary, k);
}

static void backward_norms(const struct pen__projection *self,
                           struct pen_engine *engine, void *stash, void *hold)
{
    engine->ops->norm_backward_input(
        engine, &self->query_norm, pen__at(stash, self->raw_q), NULL,
        pen__at(stash, self->q_rstd), pen__at(hold, self->dq), NULL,
        pen__at(hold, self->raw_dq));
    engine->ops->norm_backward_input(
        engine, &self->key_norm, pen__at(stash, self->raw_k), NULL,
        pen__at(stash, self->k_rstd), pen__at(hold, self->dk), NULL,
        pen__at(hold, self->raw_dk));
}

void pen__projection_backward_input(const struct pen__projection *self,
                                    struct pen_engine *engine, void *stash,
                                    void *hold, void *scratch, void *da)
{
    const struct pen_engine_ops *ops = engine->ops;
    void *dq = pen__at(hold, self->dq);
    if (self->has_rotary) {
        ops->rotary_backward(engine, &self->query_rotary, dq);
        if (self->has_norms)
            ops->rotary_backward(engine, &self->key_rotary,
                                 pen__at(hold, self->dk));
    }
    if (!self->has_norms) {
        ops->linear_backward_input(engine, &self->all, dq, da);
        return;
    }
    backward_norms(self, engine, stash, hold);
    size_t count = self->shape.rows * self->shape.hidden;
    ops->linear_backward_input(engine, &self->all, pen__at(hold, self->raw_dq),
                               da);
    ops->linear_backward_input(engine, &self->keys, pen__at(hold, self->raw_dk),
                               scratch);
    ops->add(engine, count, da, scratch, da);
    ops->linear_backward_input(engine, &self->values, pen__at(hold, self->dv),
                               scratch);
    ops->add(engine, count, da, scratch, da);
}

void pen__projection_backward_weight(const struct pen__projection *self,
                                     struct pen_engine *engine, const void *a,
                                     void *stash, void *hold)
{
    const struct pen_engine_ops *ops = engine->ops;
    if (!self->has_norms) {
        ops->linear_backward_weight(engine, &self->all, a,
                                    pen__at(hold, self->dq));
        return;
    }
    ops->linear_backward_weight(engine, &self->all, a,
                                pen__at(hold, self->raw_dq));
    ops->linear_backward_weight(engine, &self->keys, a,
                                pen__at(hold, self->raw_dk));
    ops->linear_backward_weight(engine, &self->values, a,
                                pen__at(hold, self->dv));
    ops->norm_backward_weight(
        engine, &self->query_norm, pen__at(stash, self->raw_q), NULL,
        pen__at(stash, self->q_rstd), pen__at(hold, self->dq));
    ops->norm_backward_weight(
        engine, &self->key_norm, pen__at(stash, self->raw_k), NULL,
        pen__at(stash, self->k_rstd), pen__at(hold, self->dk));
}
