#include "base/real.h"

#include <math.h>

/* ln 2 as a sum: the first has zeros enough for exact products with whole
 * numbers below 2^20. */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define LN2 0x1.62e42fefa39efp-1
#define ROOT_OF_HALF 0x1.6a09e667f3bcdp-1

/* Beyond these, the result is 0 or infinite whatever the digits. */
#define EXP_LEAST (-746.0)
#define EXP_MOST 710.0

/* Computes two to a whole power, times a short series. */
double pen_real_exp(double x)
{
    enum { TERMS = 14 };
    if (!(x > EXP_LEAST && x < EXP_MOST))
        return x >= EXP_MOST ? (double)INFINITY : isnan(x) ? x : 0;
    double power = floor(x / LN2 + 0.5);
    double rest = (x - power * LN2_HIGH) - power * LN2_LOW;
    double sum = 1;
    for (int n = TERMS; n > 0; n--)
        sum = 1 + rest * sum / n;
    return ldexp(sum, (int)power);
}

/* Computes ln m = 2 artanh s with s = (m - 1) / (m + 1), for m near 1. */
static double log_near_one(double m)
{
    enum { LAST = 23 };
    double s = (m - 1) / (m + 1);
    double sum = 0;
    for (int n = LAST; n > 0; n -= 2)
        sum = sum * s * s + 1.0 / n;
    return 2 * s * sum;
}

static double split(double x, int *power)
{
    double m = frexp(x, power);
    if (m < ROOT_OF_HALF) {
        m *= 2;
        --*power;
    }
    return m;
}

double pen_real_log(double x)
{
    int power;
    if (!(x > 0))
        return -(double)INFINITY;
    double near = log_near_one(split(x, &power));
    return power * LN2_HIGH + (near + power * LN2_LOW);
}

double pen_real_log2(double x)
{
    int power;
    if (!(x > 0))
        return -(double)INFINITY;
    double near = log_near_one(split(x, &power));
    return power + near / LN2;
}

double pen_real_power(double x, double exponent)
{
    return pen_real_exp(exponent * pen_real_log(x));
}

double pen_real_decimal(double most)
{
    double power = 1;
    while (power * 10 <= most)
        power *= 10;
    while (power > most)
        power /= 10;
    return power;
}
