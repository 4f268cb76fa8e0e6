#ifndef PEN_RING_PLANT_H
#define PEN_RING_PLANT_H

/*
 * Bugs that tests plant on purpose, to prove that the simulator finds them: the
 * simulator and the agreement are compiled with PEN_PLANT set to one of these.
 * Installed programs never set it.
 */
#define PEN__PLANT_DOUBLE_COMMIT 1
#define PEN__PLANT_STALE_EPOCH 2
#define PEN__PLANT_LOST_FRAGMENT 3
#define PEN__PLANT_QUORUM 4
#define PEN__PLANT_EVICTED_KEY 5

#ifndef PEN_PLANT
#define PEN_PLANT 0
#endif
#define PEN__IS_PLANTED(bug) (PEN_PLANT == (bug))

#endif
