#include "ring/net/member_parts.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_QUEUED ((size_t)512 << 10)

static void step(struct pen_ring_member *member, struct pen_ring_event *event);

/* ---- actions */

/* Returns whether the wanted bytes are on their way already. */
static bool is_coming(const struct pen_ring_member *member, uint32_t node)
{
    return member->incoming[node].bytes.bytes != NULL &&
           member->incoming[node].at >
               pen_clock_ns() - member->setting.limits.beat;
}

static void send_to(struct pen_ring_member *member,
                    const struct pen_ring_action *action)
{
    struct pen__frame frame = {.kind = PEN__FRAME_MESSAGE};
    enum pen_ring_kind kind = action->message.kind;
    uint64_t to = action->to;
    frame.as.message = action->message;
    /*
     * An island that is sending a state already is the one to ask for more of
     * it.
     */
    int source =
        kind == PEN_RING_PULL ? pen__member_source(member, pen_clock_ns()) : -1;
    if (source >= 0) {
        to = pen_ring_bit((uint32_t)source);
        frame.as.message.set = 1;
    }
    for (uint32_t i = 0; i < PEN_RING_NODES; i++) {
        if (!pen_ring_has(to, i) ||
            (kind == PEN_RING_FETCH && is_coming(member, i)))
            continue;
        if (kind != PEN_RING_STATE)
            pen__net_send(member->net, i, &frame);
        else if (i < PEN_RING_ISLANDS && pen__net_is_open(member->net, i))
            pen__member_asked(member, i, member->is_followed);
    }
}

static void give(struct pen_ring_member *member,
                 const struct pen_ring_action *action)
{
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++)
        if (pen_ring_has(action->to, i) && pen__net_is_open(member->net, i)) {
            member->outgoing[i].fragments |= action->set;
            pen__member_pump(member, i);
        }
}

static void keep(struct pen_ring_member *member)
{
    struct pen_text why = PEN_TEXT_EMPTY;
    pen_status status = pen__member_keep(member, &why);
    if (status != PEN_OK && !member->is_unkept)
        pen_log(PEN_LOG_WARN,
                "what this island must keep is not kept, and it acknowledges "
                "nothing: %s",
                pen_text_string(&why));
    member->is_unkept = status != PEN_OK;
    pen_text_release(&why);
}

static void train(struct pen_ring_member *member,
                  const struct pen_ring_action *action)
{
    if (member->training.is_on && member->training.round == action->round &&
        member->training.first == action->first)
        return;
    member->training.is_on = true;
    member->training.round = action->round;
    member->training.first = action->first;
    member->options.train(member->options.context, action->round,
                          action->first);
}

/* Returns whether `next` is the sum of these already. */
static bool is_summed(const struct pen_ring_member *member,
                      const struct pen_ring_action *action)
{
    const struct pen_ring_kept *kept = &member->island.kept;
    if (member->next_round != action->round || member->next_set != action->set)
        return false;
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++)
        if (pen_ring_has(action->set, i) &&
            !pen_ring_same_offer(&member->next_offers[i],
                                 &kept->parts[i].offer))
            return false;
    return true;
}

static pen_status add_up(struct pen_ring_member *member,
                         const struct pen_ring_action *action)
{
    const struct pen_ring_kept *kept = &member->island.kept;
    struct pen_ring_contribution list[PEN_RING_ISLANDS];
    size_t count = 0;
    if (!pen_ring_same_hash(&kept->hash, &member->state_hash))
        return PEN_DAMAGED;
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        const struct pen__held *held = &member->held[i];
        member->next_offers[i] = kept->parts[i].offer;
        if (!pen_ring_has(action->set, i))
            continue;
        if (!pen_ring_same_hash(&held->hash, &kept->parts[i].offer.hash))
            return PEN_DAMAGED;
        list[count++] = (struct pen_ring_contribution){
            i, kept->parts[i].offer.tokens, held->all.bytes, held->all.length};
    }
    pen__bytes_free(&member->next);
    member->next_round = 0;
    const struct pen_ring_contributions given = {action->round, list, count};
    pen_status status = member->options.sum(
        member->options.context, &member->state, &given, &member->next);
    if (status == PEN_OK)
        status = pen__bytes_hash(member->next.bytes, member->next.length,
                                 &member->next_hash);
    if (status == PEN_OK) {
        member->next_round = action->round;
        member->next_set = action->set;
    }
    return status;
}

/*
 * Reports an island whose sum of equal contributions differs from the record.
 */
static void tell_other_sum(const struct pen_ring_member *member,
                           const struct pen_ring_action *action)
{
    const struct pen_ring_record *record = &member->island.kept.record;
    if (action->round == record->round && action->set == record->contributors &&
        !pen_ring_same_hash(&member->next_hash, &record->hash))
        pen_log(PEN_LOG_WARN,
                "this island has another sum of round %llu than most islands: "
                "its memory, its processor or its program is wrong; it takes "
                "the state of the others",
                (unsigned long long)action->round);
}

static void sum(struct pen_ring_member *member,
                const struct pen_ring_action *action)
{
    pen_status status =
        is_summed(member, action) ? PEN_OK : add_up(member, action);
    if (status != PEN_OK) {
        pen_log(PEN_LOG_WARN, "round %llu cannot be summed: %s",
                (unsigned long long)action->round, pen_status_text(status));
        return;
    }
    tell_other_sum(member, action);
    step(member, &(struct pen_ring_event){.kind = PEN_RING_SUMMED,
                                          .round = action->round,
                                          .set = action->set,
                                          .hash = member->next_hash});
}

/*
 * Carries out the actions. A message goes out only after the state that it
 * depends on is on disk.
 */
static void carry_out(struct pen_ring_member *member,
                      const struct pen_ring_action *action)
{
    switch (action->kind) {
    case PEN_RING_SEND:
        if (!member->is_unkept)
            send_to(member, action);
        break;
    case PEN_RING_GIVE:
        if (!member->is_unkept)
            give(member, action);
        break;
    case PEN_RING_KEEP:
        keep(member);
        break;
    case PEN_RING_TRAIN:
        train(member, action);
        break;
    case PEN_RING_SUM:
        sum(member, action);
        break;
    case PEN_RING_END:
        member->has_ended = true;
        break;
    default: /* actions of coordinators */
        break;
    }
}

/*
 * Hands over a fragment that the island took; false: its contribution is wrong.
 */
static bool receive(struct pen_ring_member *member,
                    const struct pen_ring_message *message, uint64_t before)
{
    struct pen_ring_part *part = &member->island.kept.parts[message->from];
    if (part->epoch != message->epoch || part->round != message->round ||
        !pen_ring_same_offer(&part->offer, &message->offer) ||
        part->fragments == before)
        return true;
    if (pen__member_hold(member, message->from))
        return true;
    *part = (struct pen_ring_part){.epoch = 0};
    pen_log(PEN_LOG_WARN, "island %u: its contribution has another hash",
            message->from);
    return false;
}

static void step(struct pen_ring_member *member, struct pen_ring_event *event)
{
    struct pen_ring_actions actions;
    const struct pen_ring_message *message =
        event->kind == PEN_RING_MESSAGE ? event->message : NULL;
    bool is_fragment = message != NULL && message->kind == PEN_RING_FRAGMENT;
    uint64_t before = 0;
    if (is_fragment) {
        const struct pen_ring_part *part =
            &member->island.kept.parts[message->from];
        before = part->epoch == message->epoch && part->round == message->round
                     ? part->fragments
                     : 0;
    }
    event->now = pen_clock_ns();
    pen_ring_island_step(&member->island, event, &actions);
    if (is_fragment && !receive(member, message, before))
        return;
    for (uint32_t i = 0; i < actions.count; i++)
        carry_out(member, &actions.list[i]);
}

/* ---- connections */

static pen_status judge(void *context, uint32_t node,
                        const struct pen__hello *hello, struct pen_text *why)
{
    const struct pen_ring_member *member = context;
    if (node >= PEN_RING_NODES)
        pen_why(why, "ask a coordinator; this is an island");
    else if (node < PEN_RING_ISLANDS &&
             memcmp(hello->config, member->config, PEN__WIRE_CONFIG) != 0)
        pen_why(why, "this island has another configuration than the ring: "
                     "model, data or settings differ");
    else if (pen_ring_has(member->island.kept.record.revoked, node))
        pen_why(why, "this island was evicted");
    else
        return PEN_OK;
    return PEN_INVALID;
}

/* Reports a loss unless the words are the same as the last ones. */
static void lost(void *context, uint32_t node, const char *words)
{
    struct pen_ring_member *member = context;
    if (node >= PEN_RING_NODES)
        return;
    if (node < PEN_RING_ISLANDS)
        pen__member_forget(member, node);
    size_t most = sizeof member->words[node] - 1;
    if (strncmp(member->words[node], words, most) == 0)
        return;
    strncpy(member->words[node], words, most);
    struct pen_text text = PEN_TEXT_EMPTY;
    pen__ring_add_node(node, &text);
    pen_log(PEN_LOG_WARN, "%s: %s", pen_text_string(&text), words);
    pen_text_release(&text);
}

/* Takes the state of the record, which has come. */
static void take_state(struct pen_ring_member *member, uint32_t from)
{
    const struct pen_ring_record *record = &member->island.kept.record;
    const struct pen_ring_message message = {.kind = PEN_RING_STATE,
                                             .from = from,
                                             .round = record->round,
                                             .hash = record->hash};
    step(member, &(struct pen_ring_event){.kind = PEN_RING_MESSAGE,
                                          .message = &message});
}

static void take(void *context, uint32_t node, const struct pen__frame *frame)
{
    struct pen_ring_member *member = context;
    struct pen_ring_message message;
    if (frame->kind == PEN__FRAME_MESSAGE) {
        message = frame->as.message;
        message.from = node;
        bool is_of_coordinator =
            message.kind == PEN_RING_RECORD || message.kind == PEN_RING_PROPOSE;
        if (is_of_coordinator != (node >= PEN_RING_ISLANDS))
            return;
        member->is_followed = message.kind == PEN_RING_PULL && message.set != 0;
    } else {
        if (node >= PEN_RING_ISLANDS ||
            !pen__member_take_piece(member, node, &frame->as.piece))
            return;
        message = member->incoming[node].message;
        if (message.kind == PEN_RING_STATE) {
            if (pen__member_take_state(member, node))
                take_state(member, node);
            return;
        }
    }
    step(member, &(struct pen_ring_event){.kind = PEN_RING_MESSAGE,
                                          .message = &message});
}

static void has_room(void *context, uint32_t node)
{
    if (node < PEN_RING_ISLANDS)
        pen__member_pump(context, node);
}

/*
 * Connects to nodes with higher numbers: of two islands the one with the lower
 * number connects.
 */
static void dial(struct pen_ring_member *member, int64_t now)
{
    uint32_t self = member->island.number;
    for (uint32_t i = self + 1; i < PEN_RING_NODES; i++) {
        const struct pen__ring_peer *peer = &member->keys.peers[i];
        bool is_wanted = i < PEN_RING_ISLANDS ||
                         i == PEN_RING_ISLANDS + member->island.coordinator;
        if (!peer->is_there || peer->address[0] == '\0' || !is_wanted ||
            pen_ring_has(member->island.kept.record.revoked, i) ||
            pen__net_is_open(member->net, i) || now < member->dial_at[i])
            continue;
        struct pen_text why = PEN_TEXT_EMPTY;
        member->dial_at[i] = now + member->setting.limits.beat;
        if (pen__net_dial(member->net, i, peer->address, &why) != PEN_OK)
            lost(member, i, pen_text_string(&why));
        pen_text_release(&why);
    }
}

/* ---- for the program */

/* Sets the address of the one coordinator, in place of the one in its file. */
static pen_status set_address(struct pen_ring_member *member,
                              struct pen_text *why)
{
    const char *address = member->options.address;
    struct pen__ring_peer *peers = member->keys.peers + PEN_RING_ISLANDS;
    uint32_t count = 0;
    char host[PEN__ADDRESS_SIZE];
    char port[6];
    for (uint32_t i = 0; i < PEN_RING_COORDINATORS; i++) {
        count += peers[i].is_there;
        if (peers[i].is_there && strcmp(peers[i].address, address) == 0)
            return PEN_OK;
    }
    if (strlen(address) >= PEN__ADDRESS_SIZE ||
        !pen__ring_split_address(address, host, port))
        pen_why(why, "%s is not a HOST:PORT of a coordinator", address);
    else if (count != 1 || !peers[0].is_there)
        pen_why(why, "no coordinator of %s listens at %s", member->options.keys,
                address);
    else
        memcpy(peers[0].address, address, strlen(address) + 1);
    return strcmp(peers[0].address, address) == 0 ? PEN_OK : PEN_INVALID;
}

static pen_status prepare(struct pen_ring_member *member, struct pen_text *why)
{
    const struct pen_ring_member_options *options = &member->options;
    pen_status status = pen__ring_keys_read(options->keys, &member->keys, why);
    if (status == PEN_OK && options->address != NULL)
        status = set_address(member, why);
    if (status == PEN_OK)
        status = pen__tls_create(options->key, &member->tls, why);
    if (status == PEN_OK)
        status = pen_file_make_folder(options->folder, 0700, why);
    if (status != PEN_OK)
        return status;
    int node = pen__ring_keys_find(&member->keys, pen__tls_key(member->tls));
    if (node < 0 || node >= (int)PEN_RING_ISLANDS ||
        member->keys.peers[node].address[0] == '\0') {
        pen_why(why,
                "%s is not the key of an island of %s with an address where "
                "it listens",
                options->key, options->keys);
        return PEN_INVALID;
    }
    uint32_t coordinators = PEN_RING_COORDINATORS;
    while (coordinators > 1 &&
           !member->keys.peers[PEN_RING_ISLANDS + coordinators - 1].is_there)
        coordinators--;
    pen_ring_limits_init(&member->setting.limits, options->patience);
    member->setting.num_islands = pen__ring_keys_islands(&member->keys);
    member->setting.num_coordinators = coordinators;
    member->setting.quorum = 1;
    member->island.number = (uint32_t)node;
    return PEN_OK;
}

/*
 * Makes the hash of the configuration. It contains the patience, so islands of
 * another patience do not match.
 */
static pen_status make_config(struct pen_ring_member *member)
{
    uint8_t bytes[PEN__WIRE_CONFIG + sizeof member->options.patience];
    struct pen_ring_hash hash;
    memcpy(bytes, member->options.config, PEN__WIRE_CONFIG);
    memcpy(bytes + PEN__WIRE_CONFIG, &member->options.patience,
           sizeof member->options.patience);
    pen_status status = pen__bytes_hash(bytes, sizeof bytes, &hash);
    memcpy(member->config, hash.words, PEN__WIRE_CONFIG);
    return status;
}

/* Starts with a new incarnation, which grows even where the folder was lost. */
static void start(struct pen_ring_member *member)
{
    struct pen_ring_kept kept;
    struct timespec now;
    bool is_kept = pen__member_recall(member, &kept);
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t incarnation =
        (uint64_t)now.tv_sec * 1000 + (uint64_t)(now.tv_nsec / 1000000);
    if (is_kept && kept.incarnation >= incarnation)
        incarnation = kept.incarnation + 1;
    pen_ring_island_init(&member->island, &member->setting,
                         member->island.number, incarnation,
                         is_kept ? &kept : NULL);
    member->island.heard_at = pen_clock_ns();
    if (is_kept && kept.round > 0)
        member->options.commit(member->options.context, kept.round,
                               &member->state);
}

pen_status pen_ring_member_create(const struct pen_ring_member_options *options,
                                  struct pen_ring_member **out,
                                  struct pen_text *why)
{
    struct pen_ring_member *member = calloc(1, sizeof *member);
    if (member == NULL)
        return PEN_NOMEM;
    member->options = *options;
    pen_status status = prepare(member, why);
    if (status == PEN_OK)
        status = make_config(member);
    if (status == PEN_OK) {
        struct pen__net_options net = {
            .tls = member->tls,
            .keys = &member->keys,
            .limits = &member->setting.limits,
            .listen = member->keys.peers[member->island.number].address,
            .kinds = pen__frame_bit(PEN__FRAME_MESSAGE) |
                     pen__frame_bit(PEN__FRAME_PIECE),
            .most_queued = MOST_QUEUED,
            .context = member,
            .judge = judge,
            .take = take,
            .has_room = has_room,
            .lost = lost};
        memcpy(net.config, member->config, PEN__WIRE_CONFIG);
        status = pen__net_create(&net, &member->net, why);
    }
    if (status != PEN_OK) {
        pen_ring_member_free(member);
        return status;
    }
    start(member);
    *out = member;
    return PEN_OK;
}

void pen_ring_member_free(struct pen_ring_member *member)
{
    if (member == NULL)
        return;
    pen__net_free(member->net);
    pen__tls_free(member->tls);
    for (uint32_t i = 0; i < PEN_RING_ISLANDS; i++) {
        pen__member_forget(member, i);
        pen__bytes_free(&member->held[i].all);
        for (uint32_t j = 0; j < PEN_RING_FRAGMENTS; j++)
            pen__bytes_free(&member->held[i].fragments[j]);
    }
    pen__bytes_free(&member->state);
    pen__bytes_free(&member->next);
    pen__member_free_states(member);
    free(member);
}

pen_status pen_ring_member_offer(struct pen_ring_member *member, uint64_t round,
                                 const struct pen_ring_offer *offer,
                                 const void *bytes, size_t length)
{
    struct pen__held *held = &member->held[member->island.number];
    const struct pen_ring_kept *kept = &member->island.kept;
    struct pen_ring_offer own = *offer;
    member->training.is_on = false;
    if (member->island.phase != PEN_RING_TRAINING || round != kept->round + 1 ||
        own.first != kept->record.cursors[member->island.number])
        return PEN_OK;
    if (length == 0 || length > member->options.most_bytes ||
        own.num_fragments == 0 || own.num_fragments > PEN_RING_FRAGMENTS ||
        length < own.num_fragments)
        return PEN_INVALID;
    struct pen_ring_bytes copy = {malloc(length), length};
    if (copy.bytes == NULL)
        return PEN_NOMEM;
    memcpy(copy.bytes, bytes, length);
    pen_status status = pen__bytes_hash(bytes, length, &own.hash);
    if (status != PEN_OK) {
        pen__bytes_free(&copy);
        return status;
    }
    pen__bytes_free(&held->all);
    held->all = copy;
    held->hash = own.hash;
    pen__member_drop_fragments(member);
    step(member, &(struct pen_ring_event){
                     .kind = PEN_RING_TRAINED, .round = round, .offer = own});
    return PEN_OK;
}

pen_status pen_ring_member_turn(struct pen_ring_member *member, int64_t until,
                                struct pen_text *why)
{
    int64_t now = pen_clock_ns();
    if (now >= member->tick_at) {
        member->tick_at = now + member->setting.limits.beat / 4;
        dial(member, now);
        pen__member_trim(member, now);
        if (pen__member_use_early(member))
            take_state(member, member->early.from);
        if (member->is_unkept)
            keep(member);
        step(member, &(struct pen_ring_event){.kind = PEN_RING_TICK});
    }
    return pen__net_turn(
        member->net, until < member->tick_at ? until : member->tick_at, why);
}

void pen_ring_member_leave(struct pen_ring_member *member)
{
    step(member, &(struct pen_ring_event){.kind = PEN_RING_TOLD_TO_LEAVE});
}

bool pen_ring_member_has_ended(const struct pen_ring_member *member)
{
    return member->has_ended;
}

const struct pen_ring_record *
pen_ring_member_record(const struct pen_ring_member *member)
{
    return &member->island.kept.record;
}

bool pen_ring_member_is_last(const struct pen_ring_member *member)
{
    return pen__island_is_current(&member->island) &&
           member->island.kept.record.members ==
               pen_ring_bit(member->island.number);
}
