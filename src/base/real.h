#ifndef PEN_BASE_REAL_H
#define PEN_BASE_REAL_H

/*
 * Functions of real numbers that are bit-identical everywhere. The C library's
 * own differ in the last bit between libraries and between processors (with and
 * without fused products), and a plan must be the same wherever it is made: on
 * a laptop, in a browser, on the cluster. These use +, -, *, / and exact
 * scaling only; they are off by a few units in the last place at most.
 */

double pen_real_exp(double x);

/* Return logarithms of x; minus infinity unless x is positive. */
double pen_real_log(double x);
double pen_real_log2(double x);
double pen_real_power(double x, double exponent);

/*
 * Returns the largest power of ten that is at most `most`, which is positive.
 */
double pen_real_decimal(double most);

#endif
