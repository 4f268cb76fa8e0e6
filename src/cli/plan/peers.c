#include "cli/plan/peers.h"

#include "base/units.h"
#include "cli/plan/figures.h"

#include <math.h>
#include <stdlib.h>

#define STEPS 10u
#define DRAWS 10u
#define DETECT_SEC 1.0
#define USUAL_LINK 25e6 /* 200 Mbit/s */
#define MOST_PASSES 4000000u
#define MOST_SPREAD 1000.0

static const char *const policy_names[PEN__PEERS_POLICIES] = {
    "routed", "by_speed", "equal"};
static const char *const policy_words[PEN__PEERS_POLICIES] = {
    "routed (SWARM)", "shares by speed", "equal shares"};

/* ---- what is asked for ---- */

/* "400" or "400:3". */
static pen_status read_peers(const char *text, struct pen__peers *out,
                             struct pen_text *why)
{
    char *end = NULL;
    unsigned long count = strtoul(text, &end, 10);
    bool is_right = end != text && text[0] != '-';
    out->spread = 1;
    if (is_right && *end == ':') {
        const char *from = end + 1;
        out->spread = strtod(from, &end);
        is_right = end != from;
    }
    if (is_right && *end == '\0' && count > 0 && count <= PEN_SWARM_MAX_PEERS &&
        out->spread >= 1 && out->spread <= MOST_SPREAD) {
        out->num_peers = (uint32_t)count;
        return PEN_OK;
    }
    pen_why(why,
            "--peers %s: expected up to %u peers and by what factor their "
            "speeds differ, up to %.0f, as 6:3",
            text, PEN_SWARM_MAX_PEERS, MOST_SPREAD);
    return PEN_INVALID;
}

static pen_status read_args(const struct pen__plan_args *args,
                            struct pen__peers *out, struct pen_text *why)
{
    pen_status status = read_peers(args->peers, out, why);
    out->link = USUAL_LINK;
    out->num_lost = (uint32_t)args->lost_peers;
    if (status == PEN_OK && args->peer_link != NULL &&
        !(pen_unit_parse(PEN_UNIT_BYTES_PER_SEC, args->peer_link, &out->link) &&
          out->link > 0)) {
        pen_why(why, "--peer-link %s: expected a rate, as 200Mbit/s",
                args->peer_link);
        return PEN_INVALID;
    }
    return status;
}

static pen_status check(const struct pen__peers *peers, struct pen_text *why)
{
    uint64_t passes = (uint64_t)peers->num_microbatches * peers->num_stages;
    if (peers->num_stages > PEN_SWARM_MAX_STAGES || passes > MOST_PASSES ||
        peers->num_microbatches > PEN_SWARM_MAX_MICROBATCHES) {
        pen_why(why,
                "--peers: %u micro-batches on %u stages are too many to "
                "simulate; give a smaller --global-batch-size",
                peers->num_microbatches, peers->num_stages);
        return PEN_INVALID;
    }
    if (peers->num_peers - (peers->num_lost < peers->num_peers
                                ? peers->num_lost
                                : peers->num_peers) >=
        peers->num_stages)
        return PEN_OK;
    pen_why(why,
            "--peers: %u peers of which %u are lost leave fewer than one for "
            "each of %u stages; give more peers, or a smaller --pp",
            peers->num_peers, peers->num_lost, peers->num_stages);
    return PEN_INVALID;
}

/* ---- the answer ---- */

static double held_bytes(const struct pen_prediction *prediction)
{
    const uint64_t *bytes = prediction->memory[prediction->fullest].bytes;
    return (double)bytes[PEN_MEMORY_WEIGHTS] +
           (double)bytes[PEN_MEMORY_OPTIMIZER];
}

static void describe(const struct pen_plan *plan,
                     const struct pen_prediction *prediction,
                     const struct pen_model *model, struct pen__peers *out)
{
    const double *spent = prediction->spent;
    double pass = spent[PEN_SPENDING_FORWARD] + spent[PEN_SPENDING_BACKWARD] +
                  spent[PEN_SPENDING_RECOMPUTE] + spent[PEN_SPENDING_TENSOR] +
                  spent[PEN_SPENDING_CONTEXT] + spent[PEN_SPENDING_EXPERT];
    out->num_stages = plan->degrees[PEN_DEGREE_PP];
    out->num_microbatches =
        plan->num_microbatches * plan->degrees[PEN_DEGREE_DP];
    out->pass_sec = pass / plan->num_microbatches;
    out->message_bytes =
        (double)plan->micro_batch * plan->sequence * model->hidden;
    out->message_sec = out->message_bytes / out->link;
    out->state_sec = held_bytes(prediction) / out->link;
}

static struct pen_swarm_job make_job(const struct pen_prediction *prediction,
                                     const struct pen__peers *peers,
                                     const double *speeds)
{
    const double *spent = prediction->spent;
    double forward =
        spent[PEN_SPENDING_FORWARD] /
        (spent[PEN_SPENDING_FORWARD] + spent[PEN_SPENDING_BACKWARD] +
         spent[PEN_SPENDING_RECOMPUTE]);
    return (struct pen_swarm_job){.num_stages = peers->num_stages,
                                  .num_microbatches = peers->num_microbatches,
                                  .num_steps = STEPS,
                                  .forward_sec = forward * peers->pass_sec,
                                  .backward_sec =
                                      (1 - forward) * peers->pass_sec,
                                  .message_sec = peers->message_sec,
                                  .state_sec = peers->state_sec,
                                  .detect_sec = DETECT_SEC,
                                  .speeds = speeds,
                                  .num_peers = peers->num_peers,
                                  .num_lost = peers->num_lost};
}

static pen_status simulate(struct pen_swarm_job *job, double samples,
                           struct pen__peers *peers, struct pen_text *why)
{
    peers->num_draws = peers->num_lost > 0 ? DRAWS : 1;
    for (uint32_t draw = 0; draw < peers->num_draws; draw++)
        for (uint32_t i = 0; i < PEN__PEERS_POLICIES; i++) {
            struct pen__peers_way *way = &peers->ways[i];
            struct pen_swarm found;
            job->policy = (enum pen_swarm_policy)i;
            pen_status status = pen_swarm_simulate(job, draw + 1, &found);
            if (status != PEN_OK) {
                pen_why(why, "no memory for %u peers", peers->num_peers);
                return status;
            }
            double share = 1.0 / peers->num_draws;
            way->completed += found.seconds > 0;
            if (found.seconds > 0)
                way->samples_per_sec += share * samples / found.seconds;
            way->moves += share * (double)found.num_moves;
            way->again += share * (double)found.num_again;
            if (i == PEN_SWARM_ROUTED)
                peers->bound_per_sec += share * samples / found.bound_seconds;
        }
    return PEN_OK;
}

pen_status pen__peers_find(const struct pen__plan_args *args,
                           const struct pen__planning *planning,
                           const struct pen_plan *plan,
                           const struct pen_prediction *prediction,
                           struct pen__peers *out, struct pen_text *why)
{
    double speeds[PEN_SWARM_MAX_PEERS];
    *out = (struct pen__peers){.num_peers = 0};
    if (planning->model->images != NULL) {
        pen_why(why, "--peers: images are not supported, since the sizes of "
                     "messages between their stages differ; give a text model");
        return PEN_INVALID;
    }
    pen_status status = read_args(args, out, why);
    if (status != PEN_OK)
        return status;
    describe(plan, prediction, planning->model, out);
    status = check(out, why);
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < out->num_peers; i++)
        speeds[i] = out->num_peers == 1
                        ? 1
                        : pow(out->spread, i / (double)(out->num_peers - 1));
    struct pen_swarm_job job = make_job(prediction, out, speeds);
    double samples = (double)STEPS * out->num_microbatches * plan->micro_batch;
    return simulate(&job, samples, out, why);
}

/* ---- for people, and as JSON ---- */

#define NUMBER(title)                                                          \
    {                                                                          \
        title, true, false                                                     \
    }

void pen__peers_print(const struct pen__peers *peers, struct pen_text *out)
{
    static const struct pen_column columns[] = {
        {"micro-batches", false, false}, NUMBER("samples/s"),
        NUMBER("of all speeds"),         NUMBER("moves"),
        NUMBER("passes again"),          NUMBER("completed")};
    struct pen_table table;
    pen_text_add(out,
                 "\n%u peers with speeds of 1 to %g, %u of them lost within "
                 "%u steps, mean of %u draws; %u stages, %.3g s for a "
                 "micro-batch on a stage at speed 1; links of %.4g Mbit/s: "
                 "%.3g s for a message of 8 bits per value, %.3g s for the "
                 "state of a peer that moves. Sums of gradients are not "
                 "counted.\n\n",
                 peers->num_peers, peers->spread, peers->num_lost, STEPS,
                 peers->num_draws, peers->num_stages, peers->pass_sec,
                 peers->link * 8 / 1e6, peers->message_sec, peers->state_sec);
    pen_table_init(&table, columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < PEN__PEERS_POLICIES; i++) {
        const struct pen__peers_way *way = &peers->ways[i];
        pen_table_add(&table, "%s", policy_words[i]);
        pen__add_figure_cell(&table, way->samples_per_sec);
        pen_table_add(&table, "%.1f %%",
                      100 * way->samples_per_sec / peers->bound_per_sec);
        pen_table_add(&table, "%.1f", way->moves);
        pen_table_add(&table, "%.1f", way->again);
        pen_table_add(&table, "%u of %u", way->completed, peers->num_draws);
    }
    pen_table_print(&table, pen__page_width(), out);
    pen_table_release(&table);
}

json_t *pen__peers_json(const struct pen__peers *peers)
{
    json_t *object = json_pack(
        "{s:i, s:f, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "peers",
        (int)peers->num_peers, "spread", peers->spread, "lost",
        (int)peers->num_lost, "stages", (int)peers->num_stages, "draws",
        (int)peers->num_draws, "link_bytes_per_sec", peers->link, "pass_sec",
        peers->pass_sec, "message_sec", peers->message_sec, "state_sec",
        peers->state_sec, "bound_samples_per_sec", peers->bound_per_sec);
    for (uint32_t i = 0; object != NULL && i < PEN__PEERS_POLICIES; i++) {
        const struct pen__peers_way *way = &peers->ways[i];
        json_object_set_new(object, policy_names[i],
                            json_pack("{s:f, s:f, s:f, s:i}", "samples_per_sec",
                                      way->samples_per_sec, "moves", way->moves,
                                      "passes_again", way->again, "completed",
                                      (int)way->completed));
    }
    return object;
}
