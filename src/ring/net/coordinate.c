/*
 * A coordinator with sockets, a clock and a store: the driver of
 * ring/coordinator.h. It holds no weights, and takes none.
 *
 *   events    messages of islands, ticks, answers of the store, orders
 *   actions   messages to islands that are connected; the others are lost, as
 *             the agreement allows; calls of the store, answered at once
 */
#include "ring/net/commands.h"
#include "ring/net/net.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "ring/coordinator.h"
#include "ring/stores/stores.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define MOST_QUEUED ((size_t)64 << 10)
#define TOLD_WORDS 128u

struct run {
    const struct pen_ring_coordinate_options *options;
    struct pen_ring_setting setting;
    struct pen__ring_keys keys;
    struct pen__tls *tls;
    struct pen__net *net;
    struct pen_ring_store store;
    struct pen_ring_coordinator coordinator;
    bool has_config; /* the first island's configuration holds for all */
    uint8_t config[PEN__WIRE_CONFIG];
    /* Reported last. */
    bool was_serving;
    bool is_store_silent;
    uint64_t told_revision;
    struct pen_ring_record told;
    char words[PEN_RING_ISLANDS][TOLD_WORDS]; /* of the last lost connection */
    /* The last sum of each island. */
    struct {
        uint64_t epoch, round, set;
        struct pen_ring_hash hash;
    } sums[PEN_RING_ISLANDS];
};

static volatile sig_atomic_t is_stopped;

static void stop(int signal_number)
{
    (void)signal_number;
    is_stopped = 1;
}

/* ---- reports */

static void tell_set(const char *words, uint64_t number, uint64_t set)
{
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_ring_add_set(set, &text);
    pen_log(PEN_LOG_INFO, "%s %" PRIu64 ": islands %s", words, number,
            pen_text_string(&text));
    pen_text_release(&text);
}

/*
 * Reports an island whose sum of equal contributions differs: a fault of that
 * island.
 */
static void tell_other_sum(struct run *run, uint32_t island)
{
    const struct pen_ring_record *record = &run->coordinator.record;
    if (run->sums[island].round != record->round || record->round == 0 ||
        run->sums[island].epoch != record->round_epoch ||
        run->sums[island].set != record->contributors ||
        pen_ring_same_hash(&run->sums[island].hash, &record->hash))
        return;
    run->sums[island].round = 0;
    pen_log(PEN_LOG_WARN,
            "island %" PRIu32 " has another sum of round %" PRIu64
            " than most islands: its memory, its processor or its program is "
            "wrong; it takes the state of the others",
            island, record->round);
}

static void tell_record(struct run *run)
{
    const struct pen_ring_coordinator *now = &run->coordinator;
    if (now->is_serving != run->was_serving)
        pen_log(PEN_LOG_INFO, "%s",
                now->is_serving ? "this coordinator serves"
                                : "this coordinator waits for the lease");
    run->was_serving = now->is_serving;
    if (now->revision == 0 || now->revision == run->told_revision)
        return;
    if (run->told_revision == 0 || now->record.epoch != run->told.epoch)
        tell_set("epoch", now->record.epoch, now->record.members);
    if (run->setting.past.count > 0 && run->told_revision > 0 &&
        now->record.round == run->setting.past.count &&
        now->record.round != run->told.round)
        pen_log(PEN_LOG_INFO,
                "replayed %" PRIu64 " rounds of %s: all states are the same",
                now->record.round, run->options->replay);
    if (run->told_revision > 0 && now->record.round != run->told.round) {
        tell_set("committed round", now->record.round,
                 now->record.contributors);
        for (uint32_t i = 0; i < run->setting.num_islands; i++)
            tell_other_sum(run, i);
    }
    run->told_revision = now->revision;
    run->told = now->record;
}

static void tell_replay(const struct run *run)
{
    const struct pen_ring_past *past = &run->setting.past;
    if (past->count > 0)
        pen_log(PEN_LOG_INFO,
                "replays the %" PRIu64 " rounds of %s: the same contributors, "
                "contributions and states",
                past->count, run->options->replay);
}

static void add_time(struct pen_text *out, const char *words, int64_t time)
{
    pen_text_add_string(out, words);
    pen_unit_print(PEN_UNIT_SECONDS, (double)time / 1e9, out);
}

static void tell_start(const struct run *run)
{
    const struct pen_ring_limits *limits = &run->setting.limits;
    struct pen_text text = PEN_TEXT_EMPTY;
    pen_log(PEN_LOG_INFO,
            "coordinator %" PRIu32 " listens on %s; %" PRIu32
            " islands have keys, a round needs %" PRIu32,
            run->coordinator.number, pen__net_address(run->net),
            run->setting.num_islands, run->setting.quorum);
    add_time(&text, "patience ", limits->patience);
    add_time(&text, ": sign of life ", limits->beat);
    add_time(&text, ", grace ", limits->grace_least);
    add_time(&text, " to ", limits->grace_most);
    add_time(&text, ", a proposal is void after ", limits->proposal);
    add_time(&text, ", lease ", limits->lease);
    add_time(&text, ", a connection must be known within ",
             limits->patience / 4);
    pen_log(PEN_LOG_INFO, "%s", pen_text_string(&text));
    pen_text_release(&text);
}

static void tell_turned_away(struct run *run)
{
    const char *words;
    uint64_t count = pen__net_turned_away(run->net, &words);
    if (count > 0)
        pen_log(PEN_LOG_WARN,
                "%" PRIu64 " connections were turned away; the last one, %s",
                count, words);
}

/* ---- steps */

static void step(struct run *run, struct pen_ring_event *event);

/* Passes the answer of the store, if there was one, as the next event. */
static void answer(struct run *run, pen_status status,
                   struct pen_ring_event *event, struct pen_text *why)
{
    if (status != PEN_OK && !run->is_store_silent)
        pen_log(PEN_LOG_WARN, "%s: %s", run->options->store,
                pen_text_string(why));
    else if (status == PEN_OK && run->is_store_silent)
        pen_log(PEN_LOG_INFO, "%s answers again", run->options->store);
    run->is_store_silent = status != PEN_OK;
    pen_text_release(why);
    if (status == PEN_OK)
        step(run, event);
}

static void ask_store(struct run *run, const struct pen_ring_action *action)
{
    struct pen_ring_store *store = &run->store;
    struct pen_text why = PEN_TEXT_EMPTY;
    struct pen_ring_event event = {.kind = PEN_RING_LEASED};
    if (action->kind == PEN_RING_LEASE) {
        pen_status status =
            store->lease(store->target, run->coordinator.number,
                         run->setting.limits.lease, &event.is_granted, &why);
        answer(run, status, &event, &why);
        return;
    }
    struct pen_ring_record record;
    bool is_done = true;
    pen_status status = PEN_OK;
    event.kind = PEN_RING_STORED;
    event.record = &record;
    if (action->kind == PEN_RING_SWAP)
        status = store->swap(store->target, action->revision, &action->record,
                             &is_done, &why);
    event.is_refused = !is_done;
    if (status == PEN_OK)
        status = store->read(store->target, &record, &event.revision, &why);
    answer(run, status, &event, &why);
}

static void send_to(struct run *run, const struct pen_ring_action *action)
{
    struct pen__frame frame = {.kind = PEN__FRAME_MESSAGE};
    frame.as.message = action->message;
    for (uint32_t i = 0; i < run->setting.num_islands; i++)
        if (pen_ring_has(action->to, i))
            pen__net_send(run->net, i, &frame);
}

/* Refuses evicted islands, after the record that says so has been sent. */
static void refuse_revoked(struct run *run)
{
    for (uint32_t i = 0; i < run->setting.num_islands; i++)
        if (pen_ring_has(run->coordinator.record.revoked, i) &&
            pen__net_is_open(run->net, i))
            pen__net_refuse(run->net, i, "this island was evicted");
}

static void step(struct run *run, struct pen_ring_event *event)
{
    struct pen_ring_actions actions;
    event->now = pen_clock_ns();
    pen_ring_coordinator_step(&run->coordinator, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++)
        if (actions.list[i].kind == PEN_RING_SEND)
            send_to(run, &actions.list[i]);
        else
            ask_store(run, &actions.list[i]);
    tell_record(run);
    if (run->coordinator.record.revoked != 0)
        refuse_revoked(run);
}

/* ---- connections */

static pen_status judge(void *context, uint32_t node,
                        const struct pen__hello *hello, struct pen_text *why)
{
    static const uint8_t none[PEN__WIRE_CONFIG];
    struct run *run = context;
    if (node >= PEN_RING_NODES)
        return PEN_OK;
    if (node >= PEN_RING_ISLANDS)
        pen_why(why, "coordinators do not talk to each other");
    else if (pen_ring_has(run->coordinator.record.revoked, node))
        pen_why(why, "this island was evicted");
    else if (memcmp(hello->config, none, sizeof none) == 0)
        pen_why(why, "an island without a configuration");
    else if (run->has_config &&
             memcmp(hello->config, run->config, sizeof run->config) != 0)
        pen_why(why, "this island has another configuration than the ring: "
                     "model, data or settings differ");
    else {
        run->has_config = true;
        memcpy(run->config, hello->config, sizeof run->config);
        run->words[node][0] = '\0';
        pen_log(PEN_LOG_INFO, "island %" PRIu32 " is connected", node);
        return PEN_OK;
    }
    return PEN_INVALID;
}

/* Reports a loss unless it is the same as the last one. */
static void lost(void *context, uint32_t node, const char *words)
{
    struct run *run = context;
    if (node >= run->setting.num_islands ||
        strncmp(run->words[node], words, TOLD_WORDS - 1) == 0)
        return;
    strncpy(run->words[node], words, TOLD_WORDS - 1);
    pen_log(PEN_LOG_WARN, "island %" PRIu32 ": %s", node, words);
}

static void fill_status(const struct run *run, struct pen__ring_status *out)
{
    const struct pen_ring_coordinator *now = &run->coordinator;
    *out = (struct pen__ring_status){.is_serving = now->is_serving,
                                     .num_islands = run->setting.num_islands,
                                     .quorum = run->setting.quorum,
                                     .patience =
                                         (uint64_t)run->setting.limits.patience,
                                     .revision = now->revision,
                                     .record = now->record};
    for (uint32_t i = 0; i < run->setting.num_islands; i++) {
        const struct pen_ring_seen *seen = &now->seen[i];
        out->islands[i].is_connected = pen__net_is_open(run->net, i);
        out->islands[i].is_heard = seen->is_there;
        out->islands[i].round = seen->round;
        if (seen->is_there)
            out->islands[i].silent = (uint64_t)(pen_clock_ns() - seen->at);
    }
}

static void take_order(struct run *run, uint32_t node,
                       const struct pen__ask *ask)
{
    struct pen__frame frame = {.kind = PEN__FRAME_STATUS};
    if (ask->order == PEN__ORDER_EVICT) {
        if (!run->coordinator.is_serving ||
            ask->island >= run->setting.num_islands) {
            pen__net_refuse(run->net, node,
                            run->coordinator.is_serving
                                ? "there is no such island"
                                : "another coordinator serves; ask that one");
            return;
        }
        pen_log(PEN_LOG_WARN, "an operator evicts island %" PRIu32,
                ask->island);
        step(run, &(struct pen_ring_event){.kind = PEN_RING_TOLD_TO_EVICT,
                                           .island = ask->island});
        step(run, &(struct pen_ring_event){.kind = PEN_RING_TICK});
    }
    fill_status(run, &frame.as.status);
    pen__net_send(run->net, node, &frame);
}

static void take(void *context, uint32_t node, const struct pen__frame *frame)
{
    struct run *run = context;
    if (frame->kind == PEN__FRAME_ASK) {
        take_order(run, node, &frame->as.ask);
        return;
    }
    struct pen_ring_message message = frame->as.message;
    message.from = node;
    if (message.kind == PEN_RING_ACK && node < PEN_RING_ISLANDS) {
        run->sums[node].epoch = message.epoch;
        run->sums[node].round = message.round;
        run->sums[node].set = message.set;
        run->sums[node].hash = message.hash;
        tell_other_sum(run, node);
    }
    step(run, &(struct pen_ring_event){.kind = PEN_RING_MESSAGE,
                                       .message = &message});
}

/* ---- beginning and end */

/* Reads a past run. Its islands must be those of this run. */
static pen_status read_past(struct run *run, struct pen_text *why)
{
    struct pen_ring_past *past = &run->setting.past;
    if (run->options->replay == NULL)
        return PEN_OK;
    pen_status status = pen_ring_journal_past(run->options->replay, past, why);
    for (uint64_t i = 0; i < past->count && status == PEN_OK; i++)
        if (past->rounds[i].contributors >> run->setting.num_islands != 0) {
            pen_why(why,
                    "round %" PRIu64 " of %s has more islands than the %" PRIu32
                    " that have keys in %s",
                    i + 1, run->options->replay, run->setting.num_islands,
                    run->options->keys);
            status = PEN_INVALID;
        }
    return status;
}

static pen_status prepare(struct run *run, struct pen_text *why)
{
    const struct pen_ring_coordinate_options *options = run->options;
    pen_status status = pen__ring_keys_read(options->keys, &run->keys, why);
    if (status == PEN_OK)
        status = pen__tls_create(options->key, &run->tls, why);
    if (status != PEN_OK)
        return status;
    int node = pen__ring_keys_find(&run->keys, pen__tls_key(run->tls));
    if (node < (int)PEN_RING_ISLANDS || node >= (int)PEN_RING_NODES) {
        pen_why(why,
                "%s is not the key of a coordinator: put its public part into "
                "%s as coordinator-0.pub",
                options->key, options->keys);
        return PEN_INVALID;
    }
    run->setting.num_islands = pen__ring_keys_islands(&run->keys);
    run->setting.num_coordinators = PEN_RING_COORDINATORS;
    run->setting.quorum = options->quorum;
    if (options->quorum > run->setting.num_islands) {
        pen_why(why, "--quorum %u is more than the %u islands of %s",
                options->quorum, run->setting.num_islands, options->keys);
        return PEN_INVALID;
    }
    pen_ring_limits_init(&run->setting.limits, options->patience);
    pen_ring_coordinator_init(&run->coordinator, &run->setting,
                              (uint32_t)node - PEN_RING_ISLANDS);
    return read_past(run, why);
}

static pen_status open_net(struct run *run, struct pen_text *why)
{
    struct pen__net_options options = {.tls = run->tls,
                                       .keys = &run->keys,
                                       .limits = &run->setting.limits,
                                       .listen = run->options->listen,
                                       .kinds =
                                           pen__frame_bit(PEN__FRAME_MESSAGE) |
                                           pen__frame_bit(PEN__FRAME_ASK),
                                       .most_queued = MOST_QUEUED,
                                       .has_signs = true,
                                       .context = run,
                                       .judge = judge,
                                       .take = take,
                                       .lost = lost};
    return pen__net_create(&options, &run->net, why);
}

/* Ends a replay at a round that differs from the past: it is not committed. */
static pen_status check_replay(const struct run *run, struct pen_text *why)
{
    const struct pen_ring_coordinator *now = &run->coordinator;
    const struct pen_ring_record *past = pen_ring_coordinator_past(now);
    struct pen_text islands = PEN_TEXT_EMPTY;
    if (past == NULL || (now->others == 0 && !now->is_other_state))
        return PEN_OK;
    pen_ring_add_set(now->others, &islands);
    if (now->is_other_state)
        pen_why(why,
                "round %" PRIu64 " has another state than in %s, of the same "
                "contributions: give all islands the program and the options "
                "of that run",
                past->round, run->options->replay);
    else
        pen_why(why,
                "islands %s give another contribution to round %" PRIu64
                " than in %s: give all islands the program and the options of "
                "that run, and folders that are empty; rounds of --late fold "
                "cannot be replayed",
                pen_text_string(&islands), past->round, run->options->replay);
    pen_text_release(&islands);
    return PEN_INVALID;
}

static pen_status serve(struct run *run, struct pen_text *why)
{
    int64_t beat = run->setting.limits.beat;
    int64_t tick_at = 0;
    int64_t tell_at = 0;
    pen_status status = PEN_OK;
    while (!is_stopped && status == PEN_OK) {
        int64_t now = pen_clock_ns();
        if (now >= tick_at) {
            tick_at = now + beat / 4;
            step(run, &(struct pen_ring_event){.kind = PEN_RING_TICK});
        }
        if (now >= tell_at) {
            tell_at = now + beat;
            tell_turned_away(run);
        }
        status = check_replay(run, why);
        if (status == PEN_OK)
            status = pen__net_turn(run->net, tick_at, why);
    }
    if (is_stopped)
        pen_log(PEN_LOG_INFO, "stopped by a signal; the record is in %s",
                run->options->store);
    return status;
}

pen_status
pen_ring_coordinate(const struct pen_ring_coordinate_options *options,
                    struct pen_text *why)
{
    struct sigaction action = {.sa_handler = stop};
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL)
        return PEN_NOMEM;
    run->options = options;
    pen_status status = prepare(run, why);
    bool is_stored = false;
    if (status == PEN_OK) {
        status = pen_ring_store_open(options->store, false, &run->store, why);
        is_stored = status == PEN_OK;
    }
    if (status == PEN_OK)
        status = open_net(run, why);
    if (status == PEN_OK) {
        sigaction(SIGTERM, &action, NULL);
        sigaction(SIGINT, &action, NULL);
        tell_start(run);
        tell_replay(run);
        status = serve(run, why);
    }
    pen__net_free(run->net);
    if (is_stored)
        run->store.close(run->store.target);
    pen__tls_free(run->tls);
    free(run->setting.past.rounds);
    free(run);
    return status;
}
