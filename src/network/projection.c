/* Queries, keys and values; see projection.h. */
#include "network/projection.h"

enum { QUERIES, KEYS, VALUES, KINDS };

/* What a piece has of queries, keys and values. */
static void find_parts(const struct pen_network *network, uint32_t layer,
                       uint32_t piece, struct pen__dense parts[KINDS])
{
    static const struct pen__dense plain[KINDS] = {
        {.weight = PEN_PART_Q, .bias = PEN_PART_Q_BIAS},
        {.weight = PEN_PART_K, .bias = PEN_PART_K_BIAS},
        {.weight = PEN_PART_V, .bias = PEN_PART_V_BIAS}};
    const struct pen_model *model = network->options.model;
    uint32_t total = network->options.tensor.total;
    uint32_t kv_pieces =
        total < model->num_kv_heads ? total : model->num_kv_heads;
    size_t first = 0;
    for (int i = 0; i < KINDS; i++) {
        size_t size = (size_t)model->head_dim *
                      (i == QUERIES ? model->num_heads : model->num_kv_heads);
        parts[i] = plain[i];
        parts[i].cut =
            i == QUERIES ? pen__cut_equally(PEN__OUTPUTS, size, piece, total)
                         : pen__cut_equally(
                               PEN__OUTPUTS, size,
                               (uint32_t)((uint64_t)piece * kv_pieces / total),
                               kv_pieces);
        if (pen_model_find_part(model, layer, PEN_PART_QKV) <
            model->num_tensors) {
            parts[i].weight = PEN_PART_QKV;
            parts[i].bias = PEN_PART_QKV_BIAS;
            parts[i].cut.first += first;
        }
        first += size;
    }
}

static pen_status add_one_product(struct pen__projection *self,
                                  struct pen_network *network, uint32_t layer,
                                  const struct pen__dense parts[KINDS],
                                  struct pen_text *why)
{
    /* Side by side in one tensor, they are there without being cut. */
    size_t count = parts[QUERIES].weight == PEN_PART_QKV ? 1 : KINDS;
    return pen__add_linear(network, layer, parts, count, &self->all, why);
}

/* Pieces in a row that have the same keys and values. */
static uint32_t num_sharing(const struct pen_network *network)
{
    uint32_t total = network->options.tensor.total;
    uint32_t heads = network->options.model->num_kv_heads;
    return total > heads ? total / heads : 1;
}

static pen_status add_three_products(struct pen__projection *self,
                                     struct pen_network *network,
                                     uint32_t layer, uint32_t piece,
                                     const struct pen__dense parts[KINDS],
                                     struct pen_text *why)
{
    struct pen_linear *linears[] = {&self->all, &self->keys, &self->values};
    pen_status status = PEN_OK;
    for (int i = 0; i < KINDS && status == PEN_OK; i++) {
        uint32_t sharing = i == QUERIES ? 1 : num_sharing(network);
        network->is_adding_copies = piece % sharing != 0;
        network->adding_shared = sharing;
        network->adding_kind = (uint32_t)i;
        status = pen__add_linear(network, layer, &parts[i], 1, linears[i], why);
    }
    network->adding_kind = 0;
    network->is_adding_copies = piece > 0;
    network->adding_shared = network->options.tensor.total;
    if (status == PEN_OK && self->has_norms)
        status = pen__add_norm(network, layer, PEN_PART_Q_NORM, PEN_PARTS,
                               self->shape.rows * self->heads,
                               &self->query_norm, why);
    if (status == PEN_OK && self->has_norms)
        status = pen__add_norm(network, layer, PEN_PART_K_NORM, PEN_PARTS,
                               self->shape.rows * self->kv_heads,
                               &self->key_norm, why);
    network->is_adding_copies = false;
    network->adding_shared = 0;
    return status;
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
    self->dq = pen__take(&self->hold_bytes, queries);
    self->dk = pen__take(&self->hold_bytes, keys);
    self->dv = pen__take(&self->hold_bytes, keys);
    self->scratch_bytes =
        pen__align(self->shape.rows * self->shape.hidden * element);
    self->raw_q = self->q;
    self->raw_k = self->k;
    self->raw_dq = self->dq;
    self->raw_dk = self->dk;
    if (!self->has_norms)
        return;
    self->raw_q = pen__take(&self->stash_bytes, queries);
    self->raw_k = pen__take(&self->stash_bytes, keys);
    self->q_rstd =
        pen__take(&self->stash_bytes, self->query_norm.rows * self->shape.stat);
    self->k_rstd =
        pen__take(&self->stash_bytes, self->key_norm.rows * self->shape.stat);
    self->raw_dq = pen__take(&self->hold_bytes, queries);
    self->raw_dk = pen__take(&self->hold_bytes, keys);
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
    self->key_rotary.heads = self->kv_heads;
    self->key_rotary.stride = self->key_width;
    self->query_rotary.heads = self->heads;
    self->query_rotary.stride = self->query_width;
    if (!self->is_apart) {
        self->query_rotary.heads += self->kv_heads;
        self->query_rotary.stride += 2 * self->key_width;
    }
}

static pen_status init_latent(struct pen__projection *self,
                              struct pen_network *network, uint32_t layer,
                              struct pen_text *why)
{
    const struct pen_model *model = network->options.model;
    pen_status status = pen__latent_create(network, layer, &self->latent, why);
    if (status != PEN_OK)
        return status;
    const struct pen__latent *latent = self->latent;
    self->query_width = (size_t)model->num_heads * model->head_dim;
    self->value_width = (size_t)model->num_heads * model->v_head_dim;
    self->stash_bytes = latent->stash_bytes;
    self->hold_bytes = latent->hold_bytes;
    self->scratch_bytes = latent->scratch_bytes;
    self->q = latent->q;
    self->k = latent->k;
    self->v = latent->v;
    self->dq = latent->dq;
    self->dk = latent->dk;
    self->dv = latent->dv;
    return PEN_OK;
}

void pen__projection_release(struct pen__projection *self)
{
    pen__latent_free(self->latent);
}

pen_status pen__projection_init(struct pen__projection *self,
                                struct pen_network *network, uint32_t layer,
                                uint32_t piece, struct pen_text *why)
{
    const struct pen_model *model = network->options.model;
    uint32_t total = network->options.tensor.total;
    struct pen__dense parts[KINDS];
    if (model->kv_lora_rank > 0)
        return init_latent(self, network, layer, why);
    find_parts(network, layer, piece, parts);
    self->shape = pen__shape_of(&network->options);
    self->has_norms = model->has_qk_norm;
    self->is_apart = self->has_norms ||
                     (total > 1 && parts[QUERIES].weight == PEN_PART_QKV) ||
                     total > model->num_kv_heads;
    self->query_width = parts[QUERIES].cut.count;
    self->key_width = parts[KEYS].cut.count;
    self->value_width = self->query_width;
    self->heads = self->query_width / model->head_dim;
    self->kv_heads = self->key_width / model->head_dim;
    pen_status status =
        self->is_apart
            ? add_three_products(self, network, layer, piece, parts, why)
            : add_one_product(self, network, layer, parts, why);
    if (status != PEN_OK)
        return status;
    if (self->is_apart)
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
    if (self->latent != NULL) {
        pen__latent_strides(self->latent, attention);
        return;
    }
    attention->heads = self->heads;
    attention->kv_heads = self->kv_heads;
    attention->q_stride = self->is_apart ? self->query_width : width;
    attention->kv_stride = self->is_apart ? self->key_width : width;
}

void pen__projection_forward(const struct pen__projection *self,
                             struct pen_engine *engine, const void *a,
                             void *stash, void *scratch)
{
    const struct pen_engine_ops *ops = engine->ops;
    if (self->latent != NULL) {
        pen__latent_forward(self->latent, engine, a, stash, scratch);
        return;
    }
    void *q = pen__at(stash, self->q);
    void *k = pen__at(stash, self->k);
    if (self->is_apart) {
        void *raw_q = pen__at(stash, self->raw_q);
        void *raw_k = pen__at(stash, self->raw_k);
        ops->linear_forward(engine, &self->all, a, NULL, raw_q);
        ops->linear_forward(engine, &self->keys, a, NULL, raw_k);
        ops->linear_forward(engine, &self->values, a, NULL,
                            pen__at(stash, self->v));
        if (self->has_norms) {
            ops->norm_forward(engine, &self->query_norm, raw_q, q, NULL,
                              pen__at(stash, self->q_rstd));
            ops->norm_forward(engine, &self->key_norm, raw_k, k, NULL,
                              pen__at(stash, self->k_rstd));
        }
    } else {
        ops->linear_forward(engine, &self->all, a, NULL, q);
    }
    if (!self->has_rotary)
        return;
    ops->rotary_forward(engine, &self->query_rotary, q);
    if (self->is_apart)
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
    if (self->latent != NULL) {
        pen__latent_backward_input(self->latent, engine, stash, hold, scratch,
                                   da);
        return;
    }
    void *dq = pen__at(hold, self->dq);
    if (self->has_rotary) {
        ops->rotary_backward(engine, &self->query_rotary, dq);
        if (self->is_apart)
            ops->rotary_backward(engine, &self->key_rotary,
                                 pen__at(hold, self->dk));
    }
    if (!self->is_apart) {
        ops->linear_backward_input(engine, &self->all, dq, da);
        return;
    }
    if (self->has_norms)
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
    if (self->latent != NULL) {
        pen__latent_backward_weight(self->latent, engine, a, stash, hold);
        return;
    }
    if (!self->is_apart) {
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
    if (!self->has_norms)
        return;
    ops->norm_backward_weight(
        engine, &self->query_norm, pen__at(stash, self->raw_q), NULL,
        pen__at(stash, self->q_rstd), pen__at(hold, self->dq));
    ops->norm_backward_weight(
        engine, &self->key_norm, pen__at(stash, self->raw_k), NULL,
        pen__at(stash, self->k_rstd), pen__at(hold, self->dk));
}
