/*
 * What tests/interop/run_training asks of routers.
 *
 *   router_files SEED
 *
 * Prints routings of drawn logits, as lines "NAME NUMBERS...": what a router is
 * asked for, its logits, gates after tokens were dropped, the slopes of gates,
 * and the slopes of logits.
 */
#include "network/experts.h"

#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 24, EXPERTS = 8, CHOSEN = 4, GROUPS = 4, CHOSEN_GROUPS = 2 };
enum { SLOTS = ROWS * CHOSEN, LOGITS = ROWS * EXPERTS };

struct setting {
    bool is_normal, is_sigmoid;
    double aux, z, capacity;
};

static const struct setting settings[] = {{true, false, 0.3, 0.2, 1},
                                          {false, false, 0.1, 0.4, 0.8},
                                          {true, false, 0, 0, 0},
                                          {true, true, 0, 0, 1.1}};

struct routing {
    double x[LOGITS], logits[LOGITS], dlogits[LOGITS], dx[LOGITS];
    double gates[SLOTS], dgates[SLOTS];
    int32_t choice[SLOTS], order[SLOTS], tokens[EXPERTS];
};

static void print(const char *name, const double *numbers, size_t count)
{
    printf("%s", name);
    for (size_t i = 0; i < count; i++)
        printf(" %.17g", numbers[i]);
    printf("\n");
}

/* Slots by expert. */
static void sort_slots(struct routing *it)
{
    size_t end = 0;
    for (int32_t e = 0; e < EXPERTS; e++) {
        size_t first = end;
        for (int32_t slot = 0; slot < SLOTS; slot++)
            if (it->choice[slot] == e)
                it->order[end++] = slot;
        it->tokens[e] = (int32_t)(end - first);
    }
}

static void drop(const struct setting *setting, struct routing *it)
{
    struct pen__experts experts = {.num_experts = EXPERTS,
                                   .shape = {.stat = sizeof(double)}};
    experts.capacity = pen__experts_room(SLOTS, EXPERTS, setting->capacity);
    if (setting->capacity > 0)
        (void)pen__experts_drop(&experts, it->order, it->tokens, it->gates);
    for (size_t slot = 0; slot < SLOTS; slot++)
        it->dgates[slot] = it->gates[slot] > 0 ? it->dgates[slot] : 0;
}

/* Logits are x, the weight is the identity. */
static struct pen_parameter *make(struct pen_engine *engine, size_t rows,
                                  size_t columns, const double *values)
{
    const struct pen_parameter_shape shape = {
        .use = PEN_PARAMETER_VECTORS, .rows = rows, .columns = columns};
    struct pen_parameter *parameter = NULL;
    if (engine->ops->parameter_create(engine, &shape, NULL, &parameter) !=
        PEN_OK) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    engine->ops->parameter_import(engine, parameter, PEN_PART_VALUE,
                                  PEN_ORDER_ROWS, values);
    return parameter;
}

static void draw(struct pen_random *random, double *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = 4 * pen_random_unit(random) - 2;
}

static void route(struct pen_engine *engine, const struct setting *setting,
                  struct pen_random *random)
{
    static struct routing it;
    double identity[EXPERTS * EXPERTS] = {0}, offset[EXPERTS];
    for (size_t e = 0; e < EXPERTS; e++)
        identity[e * EXPERTS + e] = 1;
    memset(&it, 0, sizeof it);
    draw(random, it.x, LOGITS);
    draw(random, it.dgates, SLOTS);
    draw(random, offset, EXPERTS);
    bool is_sigmoid = setting->is_sigmoid;
    struct pen_router router = {.rows = ROWS,
                                .chosen = CHOSEN,
                                .is_normal = setting->is_normal,
                                .is_sigmoid = is_sigmoid,
                                .groups = is_sigmoid ? GROUPS : 0,
                                .chosen_groups = CHOSEN_GROUPS,
                                .scale = is_sigmoid ? 2.5 : 0,
                                .aux = setting->aux,
                                .z = setting->z};
    struct pen_parameter *bias = make(engine, 1, EXPERTS, offset);
    router.weight = make(engine, EXPERTS, EXPERTS, identity);
    router.offset = is_sigmoid ? bias : NULL;
    engine->ops->route_forward(engine, &router, it.x, it.logits, it.gates,
                               it.choice);
    sort_slots(&it);
    drop(setting, &it);
    const struct pen_route about = {it.logits, it.gates, it.choice, it.tokens};
    engine->ops->route_backward_input(engine, &router, &about, it.dgates,
                                      it.dlogits, it.dx);
    const double sizes[] = {
        ROWS,         EXPERTS,    CHOSEN,           setting->is_normal,
        is_sigmoid,   GROUPS,     CHOSEN_GROUPS,    router.scale,
        setting->aux, setting->z, setting->capacity};
    double choice[SLOTS];
    for (size_t slot = 0; slot < SLOTS; slot++)
        choice[slot] = it.choice[slot];
    print("setting", sizes, sizeof sizes / sizeof *sizes);
    print("logits", it.logits, LOGITS);
    print("offset", offset, EXPERTS);
    print("choice", choice, SLOTS);
    print("gates", it.gates, SLOTS);
    print("dgates", it.dgates, SLOTS);
    print("dlogits", it.dlogits, LOGITS);
    engine->ops->parameter_free(engine, router.weight);
    engine->ops->parameter_free(engine, bias);
}

int main(int argc, char **argv)
{
    struct pen_engine *engine = NULL;
    struct pen_random random = {.state =
                                    argc > 1 ? strtoull(argv[1], NULL, 10) : 1};
    if (pen_engine_reference_create(PEN_PRECISION_F64, NULL, &engine) != PEN_OK)
        return 1;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        route(engine, &settings[i], &random);
    pen_engine_free(engine);
    return 0;
}
