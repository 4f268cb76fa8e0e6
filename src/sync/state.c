#include "sync/state.h"

#include "base/bug.h"

void pen_sync_states_add(struct pen_sync_states *states,
                         const struct pen_sync_state *state)
{
    PEN_BUG_UNLESS(states->count < PEN_SYNC_MAX_STATES);
    states->items[states->count++] = *state;
}

void pen_sync_states_add_vector(struct pen_sync_states *states,
                                const char *name, bool is_common, float *floats,
                                size_t count)
{
    struct pen_sync_state state = {.name = name,
                                   .kind = PEN_STATE_LIKE_WEIGHTS,
                                   .is_common = is_common,
                                   .count = count};
    state.floats = floats;
    pen_sync_states_add(states, &state);
}

void pen_sync_states_add_numbers(struct pen_sync_states *states,
                                 const char *name, bool is_common,
                                 double *numbers, size_t count)
{
    struct pen_sync_state state = {.name = name,
                                   .kind = PEN_STATE_NUMBERS,
                                   .is_common = is_common,
                                   .count = count};
    state.numbers = numbers;
    pen_sync_states_add(states, &state);
}
