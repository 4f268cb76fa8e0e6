/* Joint steps: see exchange.h and trainer_joint.c. */
#include "base/bug.h"
#include "runtime/exchange_internal.h"

/* Makes second gradients for the parameters that this member trains. */
pen_status pen__exchange_add_seconds(struct pen_network *network)
{
    struct pen_engine *engine = pen_network_engine(network);
    pen_status status = PEN_OK;
    for (size_t i = 0;
         i < pen_network_num_parameters(network) && status == PEN_OK; i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        if (!it->is_value_only)
            status =
                engine->ops->gradient_add_second(engine, it->parameter, NULL);
    }
    return status;
}

static void swap_gradients(struct pen_exchange *exchange, uint32_t index)
{
    struct pen_network *network =
        pen_executor_stage(exchange->options.executor, index)->network;
    struct pen_engine *engine = pen_network_engine(network);
    for (size_t i = 0; i < pen_network_num_parameters(network); i++) {
        const struct pen_network_parameter *it =
            pen_network_parameter(network, i);
        if (!it->is_value_only)
            engine->ops->gradient_swap(engine, it->parameter);
    }
}

/* The embedding's part of a tied gradient joins that of its head's step. */
void pen__exchange_poll_tied(struct pen_exchange *exchange, uint32_t index)
{
    struct pen__sums *sums = &exchange->sums[index];
    const struct pen_network *network =
        pen_executor_stage(exchange->options.executor, index)->network;
    if (!sums->is_synced || sums->is_whole)
        return;
    for (uint32_t i = 0; i < exchange->num_tied; i++) {
        if (!pen_tied_is_head(exchange->tied[i], network) ||
            !pen_tied_has_come(exchange->tied[i]))
            continue;
        if (exchange->options.has_second)
            swap_gradients(exchange, index);
        if (pen_tied_join(exchange->tied[i]) != PEN_OK)
            return;
        if (exchange->options.has_second)
            swap_gradients(exchange, index);
        sums->is_whole = true;
        if (sums->reduction != NULL)
            pen_reduction_start_tied(sums->reduction);
    }
}

/* The SYNC of a stage: backwards of its next step begin with zero. */
void pen__exchange_set_aside(struct pen_exchange *exchange, uint32_t index)
{
    struct pen__sums *sums = &exchange->sums[index];
    PEN_BUG_UNLESS(!sums->is_synced);
    sums->is_synced = true;
    sums->is_whole = !sums->is_tied_head;
    if (!exchange->options.has_second)
        return;
    swap_gradients(exchange, index);
    pen_gradients_begin(sums->gradients);
}

bool pen_exchange_is_summed(const struct pen_exchange *exchange,
                            const struct pen_stage *stage)
{
    const struct pen__sums *sums =
        &exchange->sums[pen__exchange_index(exchange, stage)];
    return sums->is_synced && sums->is_whole &&
           (sums->reduction == NULL || pen_reduction_is_done(sums->reduction));
}

void pen_exchange_lend(struct pen_exchange *exchange,
                       const struct pen_stage *stage)
{
    if (exchange->options.has_second)
        swap_gradients(exchange, pen__exchange_index(exchange, stage));
}

void pen_exchange_give_back(struct pen_exchange *exchange,
                            const struct pen_stage *stage)
{
    pen_exchange_lend(exchange, stage);
}

pen_status pen_exchange_before_step(struct pen_exchange *exchange,
                                    const struct pen_stage *stage)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < exchange->num_tied && status == PEN_OK; i++)
        if (pen_tied_is_head(exchange->tied[i], stage->network))
            status = pen_tied_await_sent(exchange->tied[i]);
    if (status == PEN_OK)
        pen_exchange_lend(exchange, stage);
    return status;
}

pen_status pen_exchange_after_step(struct pen_exchange *exchange,
                                   const struct pen_stage *stage)
{
    pen_status status = PEN_OK;
    struct pen__sums *sums =
        &exchange->sums[pen__exchange_index(exchange, stage)];
    pen_exchange_give_back(exchange, stage);
    sums->is_synced = false;
    if (!exchange->options.has_second)
        pen__exchange_begin_sums(sums);
    else if (sums->reduction != NULL)
        pen_reduction_begin(sums->reduction);
    for (uint32_t i = 0; i < exchange->num_tied && status == PEN_OK; i++) {
        if (pen_tied_is_head(exchange->tied[i], stage->network))
            pen_tied_send_value(exchange->tied[i]);
        else if (pen_tied_is_embedding(exchange->tied[i], stage->network))
            status = pen_tied_take_value(exchange->tied[i]);
    }
    return status;
}

pen_status pen_exchange_end(struct pen_exchange *exchange)
{
    pen_status status = PEN_OK;
    for (uint32_t i = 0; i < exchange->num_tied && status == PEN_OK; i++)
        status = pen_tied_await_sent(exchange->tied[i]);
    return status;
}
