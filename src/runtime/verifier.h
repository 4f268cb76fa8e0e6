#ifndef PEN_RUNTIME_VERIFIER_H
#define PEN_RUNTIME_VERIFIER_H

#include "runtime/trainer.h"

/*
 * Compares the numbers that must be bit-identical in all replicas: the weights,
 * and the moments where every replica keeps all of them (no ZeRO-1). Each rank
 * makes a CRC32C of each of its tensors, so that a flipped bit is found
 * whatever it does to the loss. Its limits are in docs/running.md, "Damaged
 * numbers".
 *
 *   every K steps   one check per stage and replica, summed over all ranks
 *   they differ     one check per tensor and replica: names tensor and ranks
 */
struct pen_verifier;

/*
 * INVALID when there is one replica alone, or when the replicas keep together
 * by a method that lets them differ. On failure *out is untouched. The trainer
 * is borrowed until the verifier is freed.
 */
pen_status pen_verifier_create(struct pen_trainer *trainer,
                               struct pen_verifier **out, struct pen_text *why);
void pen_verifier_free(struct pen_verifier *verifier);

/*
 * Between two steps, by all ranks of the trainer, after step `step`. DAMAGED on
 * all of them when replicas differ; why names the tensor and the ranks.
 */
pen_status pen_verifier_check(struct pen_verifier *verifier, uint64_t step,
                              struct pen_text *why);

#endif
