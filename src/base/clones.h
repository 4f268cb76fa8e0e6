#ifndef PEN_BASE_CLONES_H
#define PEN_BASE_CLONES_H

/*
 * Before a function of plain loops: it is compiled once per level of the
 * instruction set, and the program chooses when it is loaded. Its results have
 * the same bits on every level if its file is compiled without contraction of
 * products and sums. Defined where the build finds that it works.
 */
#ifdef PEN_HAS_CLONES
#define PEN_CLONES                                                             \
    __attribute__((                                                            \
        target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PEN_CLONES
#endif

#endif
