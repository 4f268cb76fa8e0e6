/* Queries, keys and values; see projection.h. */
#include "network/projection.h"

enum { QUERIES, KEYS, VALUES, KINDS };

/* Finds the shares of queries, keys and values that a piece has. */
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

/* Arrays of the slices lie one after the other. */
static void lay_out_one(struct pen__projection *self, size_t *values,
                        size_t *slopes)
{
    size_t element = self->shape.element;
    size_t width = self->query_width + 2 * self->key_width;
    size_t bytes = self->shape.rows * width * element;
    self->query_bytes = self->key_bytes = bytes;
    self->q = pen__take(values, self->num_slices * bytes);
    self->k = self->q + self->query_width * element;
    self->v = self->k + self->key_width * element;
    self->dq = pen__take(slopes, self->num_slices * bytes);
    self->dk = self->dq + self->query_width * element;
    self->dv = self->dk + self->key_width * element;
}

static void lay_out_three(struct pen__projection *self, size_t *values,
                          size_t *slopes)
{
    size_t element = self->shape.element;
    size_t queries = self->shape.rows * self->query_width * element;
    size_t keys = self->shape.rows * self->key_width * element;
    self->query_bytes = queries;
    self->key_bytes = keys;
    self->q = pen__take(values, self->num_slices * queries);
    self->k = pen__take(values, self->num_slices * keys);
    self->v = pen__take(values, self->num_slices * keys);
    self->dq = pen__take(slopes, self->num_slices * queries);
    self->dk = pen__take(slopes, self->num_slices * keys);
    self->dv = pen__take(slopes, self->num_slices * keys);
    self->scratch_bytes =
        pen__align(self->shape.rows * self->shape.hidden * element);
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

static void lay_out(struct pen__projection *self)
{
    bool is_shared = self->num_slices > 1;
    size_t slopes_bytes = 0;
    size_t *values = is_shared ? &self->context_bytes : &self->stash_bytes;
    size_t *slopes = is_shared ? &slopes_bytes : &self->hold_bytes;
    if (self->is_apart)
        lay_out_three(self, values, slopes);
    else
        lay_out_one(self, values, slopes);
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
    struct pen_rotary rotary = {.rows = pen__chunk_rows(&network->options),
                                .sequence =
                                    pen__chunk_tokens(&network->options),
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
    self->query_width = latent->heads * model->head_dim;
    self->value_width = latent->heads * model->v_head_dim;
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
    self->num_slices = network->options.num_slices;
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
    lay_out(self);
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

/* ---- passes ---- */

static struct pen__heads heads_at(const struct pen__projection *self,
                                  const struct pen__room *room, size_t q,
                                  size_t k, size_t v)
{
    void *base = self->num_slices > 1 ? room->shared : room->own;
    size_t keys = room->slice * self->key_bytes;
    return (struct pen__heads){
        .q = pen__at(base, q + room->slice * self->query_bytes),
        .k = pen__at(base, k + keys),
        .v = pen__at(base, v + keys),
        .first_k = pen__at(base, k),
        .first_v = pen__at(base, v)};
}

struct pen__heads pen__projection_values(const struct pen__projection *self,
                                         const struct pen__room *values)
{
    return heads_at(self, values, self->q, self->k, self->v);
}

struct pen__heads pen__projection_slopes(const struct pen__projection *self,
                                         const struct pen__room *slopes)
{
    return heads_at(self, slopes, self->dq, self->dk, self->dv);
}

/* Queries and keys before their norms, or the gradients of these. */
struct raw {
    void *q, *k;
};

static struct raw raw_values(const struct pen__projection *self,
                             const struct pen__heads *heads,
                             const struct pen__room *room)
{
    return self->has_norms ? (struct raw){pen__at(room->own, self->raw_q),
                                          pen__at(room->own, self->raw_k)}
                           : (struct raw){heads->q, heads->k};
}

static struct raw raw_slopes(const struct pen__projection *self,
                             const struct pen__heads *heads,
                             const struct pen__room *room)
{
    return self->has_norms ? (struct raw){pen__at(room->own, self->raw_dq),
                                          pen__at(room->own, self->raw_dk)}
                           : (struct raw){heads->q, heads->k};
}

/* The angles of the positions of a chunk. */
static struct pen_rotary rotary_at(const struct pen__projection *self,
                                   const struct pen_rotary *rotary,
                                   uint32_t chunk)
{
    struct pen_rotary at = *rotary;
    size_t angles = chunk * at.sequence * (at.head_size / 2);
    at.cosines = (const char *)at.cosines + angles * self->shape.stat;
    at.sines = (const char *)at.sines + angles * self->shape.stat;
    return at;
}

typedef void turning(struct pen_engine *engine, const struct pen_rotary *rotary,
                     void *x);

/* Every chunk of the rows that begin at x. */
static void turn_rows(const struct pen__projection *self,
                      struct pen_engine *engine, turning *turn,
                      const struct pen_rotary *rotary,
                      const struct pen__chunks *chunks, void *x)
{
    size_t bytes = rotary->rows * rotary->stride * self->shape.element;
    for (uint32_t n = 0; n < chunks->count; n++) {
        struct pen_rotary at = rotary_at(self, rotary, chunks->numbers[n]);
        turn(engine, &at, pen__at(x, n * bytes));
    }
}

static void turn_heads(const struct pen__projection *self,
                       struct pen_engine *engine, turning *turn,
                       const struct pen__heads *heads,
                       const struct pen__chunks *chunks)
{
    turn_rows(self, engine, turn, &self->query_rotary, chunks, heads->q);
    if (self->is_apart)
        turn_rows(self, engine, turn, &self->key_rotary, chunks, heads->k);
}

static void forward_norms(const struct pen__projection *self,
                          struct pen_engine *engine, const struct raw *raw,
                          const struct pen__heads *heads, void *stash)
{
    engine->ops->norm_forward(engine, &self->query_norm, raw->q, heads->q, NULL,
                              pen__at(stash, self->q_rstd));
    engine->ops->norm_forward(engine, &self->key_norm, raw->k, heads->k, NULL,
                              pen__at(stash, self->k_rstd));
}

void pen__projection_forward(const struct pen__projection *self,
                             struct pen_engine *engine, const void *a,
                             const struct pen__room *values, void *scratch)
{
    const struct pen_engine_ops *ops = engine->ops;
    if (self->latent != NULL) {
        pen__latent_forward(self->latent, engine, a, values->own, scratch);
        return;
    }
    struct pen__heads heads = pen__projection_values(self, values);
    struct raw raw = raw_values(self, &heads, values);
    if (self->is_apart) {
        ops->linear_forward(engine, &self->all, a, NULL, raw.q);
        ops->linear_forward(engine, &self->keys, a, NULL, raw.k);
        ops->linear_forward(engine, &self->values, a, NULL, heads.v);
        if (self->has_norms)
            forward_norms(self, engine, &raw, &heads, values->own);
    } else {
        ops->linear_forward(engine, &self->all, a, NULL, heads.q);
    }
    if (self->has_rotary)
        turn_heads(self, engine, ops->rotary_forward, &heads, &values->chunks);
}

static void backward_norms(const struct pen__projection *self,
                           struct pen_engine *engine, const struct raw *raw,
                           const struct pen__heads *slopes,
                           const struct raw *to, void *stash)
{
    engine->ops->norm_backward_input(engine, &self->query_norm, raw->q, NULL,
                                     pen__at(stash, self->q_rstd), slopes->q,
                                     NULL, to->q);
    engine->ops->norm_backward_input(engine, &self->key_norm, raw->k, NULL,
                                     pen__at(stash, self->k_rstd), slopes->k,
                                     NULL, to->k);
}

void pen__projection_backward_input(const struct pen__projection *self,
                                    struct pen_engine *engine,
                                    const struct pen__room *values,
                                    const struct pen__room *slopes,
                                    void *scratch, void *da)
{
    const struct pen_engine_ops *ops = engine->ops;
    if (self->latent != NULL) {
        pen__latent_backward_input(self->latent, engine, values->own,
                                   slopes->own, scratch, da);
        return;
    }
    struct pen__heads heads = pen__projection_values(self, values);
    struct pen__heads gradients = pen__projection_slopes(self, slopes);
    if (self->has_rotary)
        turn_heads(self, engine, ops->rotary_backward, &gradients,
                   &values->chunks);
    if (!self->is_apart) {
        ops->linear_backward_input(engine, &self->all, gradients.q, da);
        return;
    }
    struct raw raw = raw_values(self, &heads, values);
    struct raw raw_gradients = raw_slopes(self, &gradients, slopes);
    if (self->has_norms)
        backward_norms(self, engine, &raw, &gradients, &raw_gradients,
                       values->own);
    size_t count = self->shape.rows * self->shape.hidden;
    ops->linear_backward_input(engine, &self->all, raw_gradients.q, da);
    ops->linear_backward_input(engine, &self->keys, raw_gradients.k, scratch);
    ops->add(engine, count, da, scratch, da);
    ops->linear_backward_input(engine, &self->values, gradients.v, scratch);
    ops->add(engine, count, da, scratch, da);
}

void pen__projection_backward_weight(const struct pen__projection *self,
                                     struct pen_engine *engine, const void *a,
                                     const struct pen__room *values,
                                     const struct pen__room *slopes)
{
    const struct pen_engine_ops *ops = engine->ops;
    if (self->latent != NULL) {
        pen__latent_backward_weight(self->latent, engine, a, values->own,
                                    slopes->own);
        return;
    }
    struct pen__heads heads = pen__projection_values(self, values);
    struct pen__heads gradients = pen__projection_slopes(self, slopes);
    if (!self->is_apart) {
        ops->linear_backward_weight(engine, &self->all, a, gradients.q);
        return;
    }
    struct raw raw = raw_values(self, &heads, values);
    struct raw raw_gradients = raw_slopes(self, &gradients, slopes);
    ops->linear_backward_weight(engine, &self->all, a, raw_gradients.q);
    ops->linear_backward_weight(engine, &self->keys, a, raw_gradients.k);
    ops->linear_backward_weight(engine, &self->values, a, gradients.v);
    if (!self->has_norms)
        return;
    ops->norm_backward_weight(engine, &self->query_norm, raw.q, NULL,
                              pen__at(values->own, self->q_rstd), gradients.q);
    ops->norm_backward_weight(engine, &self->key_norm, raw.k, NULL,
                              pen__at(values->own, self->k_rstd), gradients.k);
}
