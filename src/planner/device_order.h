#ifndef PEN_PLANNER_DEVICE_ORDER_H
#define PEN_PLANNER_DEVICE_ORDER_H

#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

#define PEN_DEVICE_ORDER_MAX 1024u

/*
 * In which order devices with uneven links stand along a pipeline, so that the
 * fast links are inside groups of neighbours and the slow ones between groups:
 * halves with the least bandwidth between them, halved again (SPP, Luo et al.,
 * 2022). Halves of up to 12 devices are the best of all; larger ones are
 * improved by exchanges of two devices as long as one helps.
 *
 * bytes_per_sec is (num_devices, num_devices), symmetric, finite and not
 * negative. Fills order[0] to order[num_devices - 1].
 */
pen_status pen_device_order(const double *bytes_per_sec, uint32_t num_devices,
                            uint32_t *order, struct pen_text *why);

#endif
