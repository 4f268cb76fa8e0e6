#include "sync/neighbours.h"

uint32_t pen_neighbours_count(uint32_t num_members)
{
    return num_members > 2 ? 2 : num_members - 1;
}

uint32_t pen_neighbours_at(const struct pen_group *peers, uint32_t side)
{
    uint32_t away = side == 0 ? peers->size - 1 : 1;
    return (peers->self + away) % peers->size;
}

uint32_t pen_neighbours_side_there(const struct pen_group *peers, uint32_t side)
{
    return pen_neighbours_count(peers->size) == 2 ? 1 - side : 0;
}

/* Divides instead of multiplying, so that equal weights stay unchanged. */
static void mix(float *x, const float *before, const float *behind,
                size_t count)
{
    if (behind == NULL) {
        for (size_t i = 0; i < count; i++)
            x[i] = (before[i] + x[i]) / 2;
        return;
    }
    for (size_t i = 0; i < count; i++)
        x[i] = (before[i] + behind[i] + x[i]) / 3;
}

void pen_neighbours_mix(const struct pen_sync_setting *setting,
                        float *const copies[2])
{
    uint32_t degree = pen_neighbours_count(setting->peers->size);
    for (size_t i = 0; i < setting->num_tensors && degree > 0; i++) {
        const struct pen_sync_tensor *it = &setting->tensors[i];
        mix(it->value, copies[0] + it->first,
            degree == 2 ? copies[1] + it->first : NULL, it->count);
    }
}
