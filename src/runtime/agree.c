#include "runtime/agree.h"

#include "base/clock.h"
#include "base/log.h"
#include "watch/watchdog.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_SIZE = 64, REASON_SIZE = 1400, MOST_NAMED = 8 };

/*
 * The message of a rank to rank 0; without an error only its first field is
 * sent. Short enough for any library to send it at once.
 */
struct ballot {
    uint32_t status;
    char host[HOST_SIZE];
    char reason[REASON_SIZE];
};

/* The answer of rank 0. */
struct verdict {
    uint32_t status;
};

struct meeting {
    struct pen_transport *transport;
    const char *doing;
    double deadline_sec; /* as the caller gave it; 0: none */
    int64_t begin_ns;
    int64_t end_ns; /* for this rank; INT64_MAX: never */
    struct ballot own;
};

static const struct pen_tag tag = {PEN_TAG_AGREE, 0};

/* ---- words ---- */

static void fill_ballot(struct ballot *ballot, pen_status status,
                        const char *doing, const struct pen_text *why)
{
    memset(ballot, 0, sizeof *ballot);
    ballot->status = (uint32_t)status;
    if (gethostname(ballot->host, HOST_SIZE - 1) != 0)
        strcpy(ballot->host, "unknown");
    if (status == PEN_OK)
        return;
    if (why != NULL && why->length > 0)
        snprintf(ballot->reason, REASON_SIZE, "%s", pen_text_string(why));
    else
        snprintf(ballot->reason, REASON_SIZE, "%s while %s",
                 pen_status_text(status), doing);
}

/*
 * Whether a reason names a rank already, as that of a checkpoint of all ranks
 * does.
 */
static bool names_rank(const char *reason)
{
    return strstr(reason, "rank ") != NULL;
}

void pen_agree_name(const struct pen_transport *transport, pen_status status,
                    const char *doing, struct pen_text *why)
{
    struct ballot own;
    fill_ballot(&own, status, doing, why);
    pen_text_clear(why);
    if (pen_transport_size(transport) > 1 && !names_rank(own.reason))
        pen_text_add(why,
                     "rank %" PRIu32 " on %s: ", pen_transport_rank(transport),
                     own.host);
    pen_text_add(why, "%s", own.reason);
}

/* ---- leaving ---- */

/* Prints and leaves without allocating: there may be no memory left. */
static _Noreturn void leave_alone(struct pen_transport *transport,
                                  const struct ballot *own)
{
    if (names_rank(own->reason))
        pen_log(PEN_LOG_ERROR, "%s", own->reason);
    else
        pen_log(PEN_LOG_ERROR, "rank %" PRIu32 " on %s: %s",
                pen_transport_rank(transport), own->host, own->reason);
    pen_transport_abort(transport, EXIT_FAILURE);
}

void pen_agree_alone(struct pen_transport *transport, pen_status status,
                     const char *doing, const struct pen_text *why)
{
    struct ballot own;
    fill_ballot(&own, status, doing, why);
    leave_alone(transport, &own);
}

/* Missing ranks may be anywhere in the program: the job cannot continue. */
static _Noreturn void leave_missing(const struct meeting *it,
                                    const char *missing)
{
    pen_log(PEN_LOG_ERROR,
            "%s: not done with %s after %.0f s, while others wait for it; the "
            "job ends. Look at that process, or give a longer --hang-timeout",
            missing, it->doing, it->deadline_sec);
    pen_transport_abort(it->transport, PEN_EXIT_HANG);
}

/* ---- waiting ---- */

/* PEN_OK, PEN_LOST, or PEN_BUSY when the time is over. */
static pen_status await_until(const struct meeting *it,
                              struct pen_request *request, int64_t end_ns)
{
    pen_status status = pen_transport_test(it->transport, request);
    while (status == PEN_BUSY) {
        int64_t now = pen_clock_ns();
        if (now >= end_ns)
            break;
        pen_transport_pause(it->transport, now - it->begin_ns);
        status = pen_transport_test(it->transport, request);
    }
    return status;
}

static int64_t ns_of(double sec)
{
    return (int64_t)(1e9 * sec);
}

static void set_end(struct meeting *it)
{
    double sec = it->deadline_sec;
    uint32_t rank = pen_transport_rank(it->transport);
    it->end_ns = INT64_MAX;
    if (it->own.status != PEN_OK)
        sec = PEN_AGREE_FAILED_SEC;
    else if (sec > 0 && rank > 0)
        sec += rank == 1 ? 2 : 4; /* rank 0 knows more, rank 1 speaks next */
    if (sec > 0)
        it->end_ns = it->begin_ns + ns_of(sec);
}

/* Names this rank and all later ones whose ballot has not arrived. */
static _Noreturn void name_missing(const struct meeting *it, uint32_t rank)
{
    struct pen_text names = PEN_TEXT_EMPTY;
    uint32_t size = pen_transport_size(it->transport), count = 1;
    pen_text_add(&names, "rank %" PRIu32, rank);
    while (++rank < size) {
        struct pen_request request = {.is_active = false};
        struct ballot ballot;
        pen_transport_receive(it->transport, rank, tag, &ballot, sizeof ballot,
                              &request);
        if (await_until(it, &request, pen_clock_ns() + ns_of(1e-3)) == PEN_OK)
            continue;
        if (count++ < MOST_NAMED)
            pen_text_add(&names, ", rank %" PRIu32, rank);
        else
            break;
    }
    if (rank < size)
        pen_text_add(&names, " and more");
    leave_missing(it, pen_text_string(&names));
}

/* ---- the meeting ---- */

static pen_status send_verdicts(const struct meeting *it, pen_status status)
{
    struct verdict verdict = {(uint32_t)status};
    pen_status sent = PEN_OK;
    for (uint32_t i = 1;
         i < pen_transport_size(it->transport) && sent == PEN_OK; i++) {
        struct pen_request request = {.is_active = false};
        pen_transport_send(it->transport, i, tag, &verdict, sizeof verdict,
                           &request);
        sent = await_until(it, &request, it->end_ns);
        if (sent == PEN_BUSY)
            name_missing(it, i);
    }
    return sent;
}

/* Rank 0 takes ballots in the order of ranks; early ones wait inside MPI. */
static pen_status lead(const struct meeting *it, struct pen_text *why)
{
    uint32_t size = pen_transport_size(it->transport);
    bool has_failed = it->own.status != PEN_OK;
    uint32_t first = 0, num_failed = has_failed ? 1 : 0;
    struct ballot kept = it->own;
    for (uint32_t i = 1; i < size; i++) {
        struct pen_request request = {.is_active = false};
        struct ballot ballot;
        pen_transport_receive(it->transport, i, tag, &ballot, sizeof ballot,
                              &request);
        pen_status come = await_until(it, &request, it->end_ns);
        if (come == PEN_LOST)
            return come;
        if (come == PEN_BUSY && has_failed)
            leave_alone(it->transport, &it->own);
        if (come == PEN_BUSY)
            name_missing(it, i);
        if (ballot.status != PEN_OK && num_failed++ == 0) {
            first = i;
            kept = ballot;
        }
    }
    if (send_verdicts(it, (pen_status)kept.status) == PEN_LOST)
        return PEN_LOST;
    if (why != NULL)
        pen_text_clear(why);
    bool is_common = num_failed == size || names_rank(kept.reason);
    if (num_failed > 0 && !is_common)
        pen_why(why, "rank %" PRIu32 " on %s: ", first, kept.host);
    pen_why(why, "%s", kept.reason);
    return (pen_status)kept.status;
}

static pen_status follow(const struct meeting *it, struct pen_text *why)
{
    struct pen_request in = {.is_active = false}, out = {.is_active = false};
    struct verdict verdict;
    size_t length = it->own.status == PEN_OK ? offsetof(struct ballot, host)
                                             : sizeof it->own;
    pen_transport_receive(it->transport, 0, tag, &verdict, sizeof verdict, &in);
    pen_transport_send(it->transport, 0, tag, &it->own, length, &out);
    pen_status come = await_until(it, &in, it->end_ns);
    if (come == PEN_OK)
        come = await_until(it, &out, it->end_ns);
    if (come == PEN_LOST)
        return come;
    if (come == PEN_BUSY && it->own.status != PEN_OK)
        leave_alone(it->transport, &it->own);
    if (come == PEN_BUSY)
        leave_missing(it, "rank 0");
    if (why != NULL)
        pen_text_clear(why);
    return it->own.status != PEN_OK ? (pen_status)it->own.status
                                    : (pen_status)verdict.status;
}

pen_status pen_agree(struct pen_transport *transport, pen_status status,
                     const char *doing, double deadline_sec,
                     struct pen_text *why)
{
    struct meeting it = {.transport = transport,
                         .doing = doing,
                         .deadline_sec = deadline_sec,
                         .begin_ns = pen_clock_ns()};
    fill_ballot(&it.own, status, doing, why);
    if (pen_transport_size(transport) == 1) {
        if (status != PEN_OK && why != NULL && why->length == 0)
            pen_text_add(why, "%s", it.own.reason);
        return status;
    }
    if (pen_transport_has_lost(transport))
        return PEN_LOST;
    set_end(&it);
    return pen_transport_rank(transport) == 0 ? lead(&it, why)
                                              : follow(&it, why);
}
