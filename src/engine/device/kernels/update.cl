/* Sums over a parameter, and the optimizers. */

/* One number for each of PEN__SUM_GROUPS groups. */
KERNEL(sum_squares, sum)
{
    IN(float, x, 0);
    OUT(double, sums, 1);
    LOCAL(double, parts, PEN__LANES);
    EACH_LANE
    double sum = 0;
    for (long i = GROUP * PEN__LANES + lane; i < n.count;
         i += PEN__LANES * PEN__SUM_GROUPS)
        sum += (double)x[i] * (double)x[i];
    parts[lane] = sum;
    MEET
    SUM_OF_LANES(parts)
    EACH_LANE
    if (lane == 0)
        sums[GROUP] = parts[0];
    DONE
}

/* One group: total += sum of the numbers, out = total / divisor. */
KERNEL(sum_numbers, sum)
{
    IN(double, numbers, 0);
    OUT(double, total, 1);
    OUT(double, out, 2);
    LOCAL(double, parts, PEN__LANES);
    EACH_LANE
    double sum = 0;
    for (long i = lane; i < n.count; i += PEN__LANES)
        sum += numbers[i];
    parts[lane] = sum;
    MEET
    SUM_OF_LANES(parts)
    EACH_LANE
    if (lane == 0) {
        double all = n.is_first ? parts[0] : total[0] + parts[0];
        total[0] = all;
        out[0] = all / n.divisor;
    }
    DONE
}

/* Loshchilov and Hutter, ICLR 2019, algorithm 2. */
KERNEL(adamw, adamw)
{
    OUT(float, value, 0);
    IN(float, slope, 1);
    OUT(float, first, 2);
    OUT(float, second, 3);
    EACH_LANE
    EACH_OF(i, n.count)
    {
        float g = slope[i] * n.gradient_scale;
        float m = n.beta1 * first[i] + (1 - n.beta1) * g;
        float v = n.beta2 * second[i] + (1 - n.beta2) * g * g;
        first[i] = m;
        second[i] = v;
        value[i] = n.keep * value[i] -
                   n.rate * m / (ROOT(v) * n.correction + n.epsilon);
    }
    DONE
}

KERNEL(sgd, sgd)
{
    OUT(float, value, 0);
    IN(float, slope, 1);
    OUT(float, first, 2);
    EACH_LANE
    EACH_OF(i, n.count)
    {
        float g = slope[i] * n.gradient_scale + n.decay * value[i];
        float move = g;
        if (n.has_moment) {
            float m = n.momentum * first[i] + g;
            first[i] = m;
            move = n.is_nesterov ? g + n.momentum * m : m;
        }
        value[i] -= n.rate * move;
    }
    DONE
}

/* Of rows of a parameter that are one matrix: x is the moment, or ahead of it. */
KERNEL(muon_move, muon)
{
    IN(float, slope, 0);
    OUT(float, moment, 1);
    OUT(float, x, 2);
    EACH_LANE
    EACH_OF(i, n.count)
    {
        float g = slope[i] * n.gradient_scale;
        float now = moment[i] + n.fresh * (g - moment[i]);
        moment[i] = now;
        x[i] = now + n.ahead * (g - now);
    }
    DONE
}

KERNEL(muon_normalize, muon)
{
    IN(double, squares, 0);
    OUT(float, x, 1);
    EACH_LANE
    float norm = ROOT((float)squares[0]);
    norm = norm < n.least ? n.least : norm;
    EACH_OF(i, n.count)
        x[i] = x[i] / norm;
    DONE
}

KERNEL(muon_step, muon)
{
    OUT(float, value, 0);
    IN(float, x, 1);
    EACH_LANE
    EACH_OF(i, n.count)
        value[i] = n.keep * value[i] - n.rate * x[i];
    DONE
}
