#include "group/subgroup.h"

#include "base/bug.h"

static struct pen_subgroup *of(struct pen_group *group)
{
    return (struct pen_subgroup *)group;
}

static uint32_t in_all(const struct pen_subgroup *it, uint32_t member)
{
    return it->first + member * it->stride;
}

/*
 * Passes on the loss of a member of the whole, which may not be in this group.
 */
static pen_status pass_on(struct pen_subgroup *it, pen_status status)
{
    if (status != PEN_LOST)
        return status;
    for (uint32_t k = 0; k < it->group.size; k++)
        if (in_all(it, k) == it->all->lost)
            return pen_group_lose(&it->group, k);
    return pen_group_lose(&it->group, PEN_GROUP_NOBODY);
}

static void send_to(struct pen_group *group, uint32_t to, uint32_t channel,
                    const void *bytes, size_t length,
                    struct pen_group_request *request)
{
    struct pen_subgroup *it = of(group);
    pen_group_send(it->all, in_all(it, to), channel, bytes, length, request);
}

static void receive_from(struct pen_group *group, uint32_t from,
                         uint32_t channel, void *bytes, size_t length,
                         struct pen_group_request *request)
{
    struct pen_subgroup *it = of(group);
    pen_group_receive(it->all, in_all(it, from), channel, bytes, length,
                      request);
}

static pen_status test(struct pen_group *group,
                       struct pen_group_request *request)
{
    return pass_on(of(group), pen_group_test(of(group)->all, request));
}

static pen_status wait_until(struct pen_group *group,
                             bool (*is_done)(void *context), void *context,
                             int64_t end_ns)
{
    return pass_on(of(group), pen_group_wait_until(of(group)->all, is_done,
                                                   context, end_ns));
}

static const struct pen_group_ops ops = {
    .send = send_to, .receive = receive_from, .test = test, .wait = wait_until};

void pen_subgroup_init(struct pen_subgroup *subgroup, struct pen_group *all,
                       uint32_t first, uint32_t stride, uint32_t count)
{
    uint32_t self = (all->self - first) / stride;
    *subgroup = (struct pen_subgroup){.group = {.ops = &ops,
                                                .size = count,
                                                .self = self,
                                                .epoch = all->epoch},
                                      .all = all,
                                      .first = first,
                                      .stride = stride};
    PEN_BUG_UNLESS(self < count && in_all(subgroup, self) == all->self);
}
