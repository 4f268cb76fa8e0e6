/*
 * The cost of a layer that is cut into parts c = (c_1, ..., c_d), whose product
 * is at most the number of devices:
 *
 *   t(v, c)  =  3 f_v / (F prod c_i)                computing; three passes
 *            +  R(c of dims not in the output, output)      forward
 *            +  R(c of dims not in an input, input)    each input's backward
 *            +  R(c of dims not in the weight, weight)      its gradient
 *   R(g, n)  =  2 (g - 1) / g n / B                 n bytes of one device
 *
 *   t(u, v)  =  most over devices of  |need(v) - have(u)| / B       forward
 *            +  most over devices of  |have(u) - need(v)| / B       backward
 *
 * have(u) is the box of its output that a device computes, need(v) the box that
 * its part of v reads. Where no gradient of the input is summed, a device also
 * sends |need(v) - have(u)| backward. Parts are numbered with the last
 * dimension fastest; part k is on device k, others are idle. Sizes that do not
 * divide are cut at floor(i size / c); the largest part decides.
 *
 * With two parts (Pc of the first dimension, Pr of the last) in a chain of
 * dense layers, these are the terms of the 1.5-D grid: an all-gather of the
 * output over Pr, an all-reduce of the input's gradient over Pr and one of the
 * weights' gradient over Pc.
 */
#include "planner/pase_cost.h"

#include <math.h>

struct box {
    int64_t from[PEN_SPLIT_MAX_DIMS];
    int64_t to[PEN_SPLIT_MAX_DIMS];
};

/* ---- within a layer ---- */

static double largest_part(const struct pen_split_dim *dim, uint32_t parts)
{
    return ceil((double)dim->size / parts);
}

/* Elements of a device's largest piece of a tensor with these dimensions. */
static double piece(const struct pen_split_node *node,
                    const struct pen_pase_split *split, const uint32_t *dims,
                    uint32_t count)
{
    double elements = 1;
    for (uint32_t i = 0; i < count; i++)
        elements *= largest_part(&node->dims[dims[i]], split->parts[dims[i]]);
    return elements;
}

static double product(const struct pen_split_node *node,
                      const struct pen_pase_split *split)
{
    double all = 1;
    for (uint32_t i = 0; i < node->num_dims; i++)
        all *= split->parts[i];
    return all;
}

/* Devices that have the same piece of a tensor, or a part of its sum. */
static double sharers(const struct pen_split_node *node,
                      const struct pen_pase_split *split, const uint32_t *dims,
                      uint32_t count)
{
    double others = product(node, split);
    for (uint32_t i = 0; i < count; i++)
        others /= split->parts[dims[i]];
    return others;
}

static double reduce_sec(const struct pen_split_graph *graph, double devices,
                         double bytes)
{
    return 2 * (devices - 1) / devices * bytes / graph->bytes_per_sec;
}

/* The part of all work that the most loaded device has. */
static double largest_share(const struct pen_split_node *node,
                            const struct pen_pase_split *split)
{
    double share = 1;
    for (uint32_t i = 0; i < node->num_dims; i++)
        share *=
            largest_part(&node->dims[i], split->parts[i]) / node->dims[i].size;
    return share;
}

/* Bytes of what a device reads of an input: with windows, of their extent. */
static double input_bytes(const struct pen_split_graph *graph,
                          const struct pen_split_node *node,
                          const struct pen_split_input *input,
                          const struct pen_pase_split *split)
{
    const struct pen_split_node *from = &graph->nodes[input->from];
    double elements = input->copies;
    for (uint32_t i = 0; i < from->num_output; i++) {
        uint32_t dim = input->dims[i];
        const struct pen_split_window *window = &input->windows[i];
        double size = from->dims[from->output[i]].size;
        double reach = (largest_part(&node->dims[dim], split->parts[dim]) - 1) *
                           window->stride +
                       window->kernel;
        elements *= fmin(size, reach);
    }
    return elements * graph->element_bytes;
}

double pen__pase_inner_sec(const struct pen_split_graph *graph, uint32_t number,
                           const struct pen_pase_split *split)
{
    const struct pen_split_node *node = &graph->nodes[number];
    double weight = node->weight_bytes;
    double sec =
        3 * node->flops * largest_share(node, split) / graph->flops_per_sec;
    sec +=
        reduce_sec(graph, sharers(node, split, node->output, node->num_output),
                   piece(node, split, node->output, node->num_output) *
                       graph->element_bytes);
    for (uint32_t i = 0; i < node->num_weight; i++) {
        const struct pen_split_dim *dim = &node->dims[node->weight[i]];
        weight *= largest_part(dim, split->parts[node->weight[i]]) / dim->size;
    }
    sec += reduce_sec(
        graph, sharers(node, split, node->weight, node->num_weight), weight);
    for (uint32_t i = 0; i < node->num_inputs; i++) {
        const struct pen_split_input *input = &node->inputs[i];
        uint32_t count = graph->nodes[input->from].num_output;
        sec += reduce_sec(graph, sharers(node, split, input->dims, count),
                          input_bytes(graph, node, input, split));
        if (input->from == number)
            sec += pen__pase_transfer_sec(graph, number, input, split, split);
    }
    return sec;
}

/* ---- between layers ---- */

/* Which part of each dimension a device has; false where it is idle. */
static bool find_parts(const struct pen_split_node *node,
                       const struct pen_pase_split *split, uint32_t device,
                       uint32_t *out)
{
    for (uint32_t i = node->num_dims; i-- > 0;) {
        out[i] = device % split->parts[i];
        device /= split->parts[i];
    }
    return device == 0;
}

static int64_t edge_of(const struct pen_split_dim *dim, uint32_t part,
                       uint32_t parts)
{
    return (int64_t)dim->size * part / parts;
}

/* The box of the output that a device computes. */
static bool have(const struct pen_split_node *node,
                 const struct pen_pase_split *split, uint32_t device,
                 struct box *out)
{
    uint32_t at[PEN_SPLIT_MAX_DIMS];
    bool is_busy = find_parts(node, split, device, at);
    for (uint32_t i = 0; i < node->num_output && is_busy; i++) {
        uint32_t dim = node->output[i];
        out->from[i] = edge_of(&node->dims[dim], at[dim], split->parts[dim]);
        out->to[i] = edge_of(&node->dims[dim], at[dim] + 1, split->parts[dim]);
    }
    return is_busy;
}

/* The box of an input that a device reads. */
static bool need(const struct pen_split_node *node,
                 const struct pen_split_input *input,
                 const struct pen_split_node *from,
                 const struct pen_pase_split *split, uint32_t device,
                 struct box *out)
{
    uint32_t at[PEN_SPLIT_MAX_DIMS];
    bool is_busy = find_parts(node, split, device, at);
    for (uint32_t i = 0; i < from->num_output && is_busy; i++) {
        uint32_t dim = input->dims[i];
        const struct pen_split_window *window = &input->windows[i];
        int64_t size = from->dims[from->output[i]].size;
        int64_t first = edge_of(&node->dims[dim], at[dim], split->parts[dim]);
        int64_t last =
            edge_of(&node->dims[dim], at[dim] + 1, split->parts[dim]) - 1;
        int64_t begin = first * window->stride - window->shift;
        int64_t end = last * window->stride + window->kernel - window->shift;
        out->from[i] = begin < 0 ? 0 : begin > size ? size : begin;
        out->to[i] = end > size ? size : end < 0 ? 0 : end;
    }
    return is_busy;
}

static double volume(const struct box *a, const struct box *b, uint32_t count)
{
    double elements = 1;
    for (uint32_t i = 0; i < count; i++) {
        int64_t from = a->from[i] > b->from[i] ? a->from[i] : b->from[i];
        int64_t to = a->to[i] < b->to[i] ? a->to[i] : b->to[i];
        elements *= to > from ? (double)(to - from) : 0;
    }
    return elements;
}

double pen__pase_transfer_sec(const struct pen_split_graph *graph,
                              uint32_t number,
                              const struct pen_split_input *input,
                              const struct pen_pase_split *from_split,
                              const struct pen_pase_split *split)
{
    const struct pen_split_node *node = &graph->nodes[number];
    const struct pen_split_node *from = &graph->nodes[input->from];
    uint32_t count = from->num_output;
    bool is_summed = sharers(node, split, input->dims, count) > 1;
    double forward = 0;
    double backward = 0;
    for (uint32_t device = 0; device < graph->num_devices; device++) {
        struct box had = {{0}, {0}};
        struct box needed = {{0}, {0}};
        bool has = have(from, from_split, device, &had);
        bool needs = need(node, input, from, split, device, &needed);
        if (!has && !needs)
            break; /* idle, as all devices after it */
        double both = has && needs ? volume(&had, &needed, count) : 0;
        double lacks = needs ? volume(&needed, &needed, count) - both : 0;
        double left = has ? volume(&had, &had, count) - both : 0;
        forward = fmax(forward, lacks);
        backward = fmax(backward, is_summed ? left : fmax(left, lacks));
    }
    return (forward + backward) * input->copies * graph->element_bytes /
           graph->bytes_per_sec;
}

/* ---- sums ---- */

double pen_pase_node_sec(const struct pen_split_graph *graph,
                         const struct pen_pase_split *splits, uint32_t number)
{
    const struct pen_split_node *node = &graph->nodes[number];
    double sec = pen__pase_inner_sec(graph, number, &splits[number]);
    for (uint32_t i = 0; i < node->num_inputs; i++) {
        const struct pen_split_input *input = &node->inputs[i];
        if (input->from != number)
            sec += pen__pase_transfer_sec(
                graph, number, input, &splits[input->from], &splits[number]);
    }
    return sec;
}

double pen_pase_step_sec(const struct pen_split_graph *graph,
                         const struct pen_pase_split *splits)
{
    double sec = 0;
    for (uint32_t i = 0; i < graph->num_nodes; i++)
        sec += pen_pase_node_sec(graph, splits, i);
    return sec;
}
