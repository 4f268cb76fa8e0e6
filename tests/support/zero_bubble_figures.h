#ifndef PEN_TESTS_ZERO_BUBBLE_FIGURES_H
#define PEN_TESTS_ZERO_BUBBLE_FIGURES_H

/*
 * Bubble rates printed in Qi et al., "Zero Bubble Pipeline Parallelism", ICLR
 * 2024, arXiv 2401.10241, with the milliseconds they were computed from. The
 * first and last stage have one layer less, so p v = layers + 2 when every
 * layer is a chunk (1F1B-I).
 */
struct published {
    unsigned stages;
    unsigned microbatches;
    unsigned layers;
    double forward_ms; /* T_F */
    double input_ms;   /* T_B */
    double weight_ms;  /* T_W */
    double hop_ms;     /* T_comm */
    double one_f_one_b;
    double interleaved;
    double zb_h1;
    double zb_h2;
    double zb_1p;
    double zb_2p;
};

/* clang-format off */
static const struct published published[] = {
    {8, 24, 22, 18.522, 18.086, 9.337, 0.601,
     0.2431, 0.1055, 0.1585, 0.1083, 0.1585, 0.0433},
    {8, 32, 22, 18.513, 18.086, 9.331, 0.626,
     0.1985, 0.0818, 0.1242, 0.0837, 0.1242, 0.0039},
    {8, 64, 22, 18.546, 18.097, 9.321, 0.762,
     0.1240, 0.0443, 0.0674, 0.0444, 0.0674, 0.0026},
    {8, 24, 30, 29.718, 29.444, 19.927, 0.527,
     0.2347, 0.0808, 0.1323, 0.0698, 0.1323, 0.0029},
    {8, 32, 30, 29.802, 29.428, 19.530, 0.577,
     0.1898, 0.0628, 0.1045, 0.0559, 0.1045, 0.0022},
    {8, 64, 30, 29.935, 29.621, 19.388, 0.535,
     0.1091, 0.0320, 0.0554, 0.0294, 0.0554, 0.0010},
    {16, 48, 46, 11.347, 11.248, 8.132, 0.377,
     0.2552, 0.1104, 0.1397, 0.0672, 0.1397, 0.0066},
    {16, 64, 46, 11.307, 11.254, 8.101, 0.379,
     0.2082, 0.0852, 0.1088, 0.0516, 0.1088, 0.0054},
    {16, 128, 46, 11.325, 11.308, 8.109, 0.378,
     0.1251, 0.0445, 0.0576, 0.0266, 0.0576, 0.0028},
    {32, 96, 62, 10.419, 10.207, 7.715, 0.408,
     0.2646, 0.1493, 0.1421, 0.0641, 0.1421, 0.0038},
    {32, 128, 62, 10.408, 10.204, 7.703, 0.408,
     0.2168, 0.1164, 0.1106, 0.0490, 0.1106, 0.0029},
    {32, 256, 62, 10.402, 10.248, 7.698, 0.460,
     0.1352, 0.0624, 0.0594, 0.0257, 0.0594, 0.0018},
};
/* clang-format on */

#define NUM_PUBLISHED (sizeof published / sizeof *published)

#endif
