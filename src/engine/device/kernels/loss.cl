/*
 * Cross entropy by stats: three per row, the largest logit, the sum of the
 * exponentials of the logits less that, and the logit of the target or 0.
 */

KERNEL(entropy_measure, entropy)
{
    IN(int, targets, 0);
    IN(element, logits, 1);
    OUT(float, stats, 2);
    LOCAL(float, largest, PEN__LANES);
    LOCAL(float, sums, PEN__LANES);
    const long row = GROUP * n.classes;
    EACH_LANE
    float most = GET(logits[row]);
    for (long i = lane; i < n.classes; i += PEN__LANES)
        most = GET(logits[row + i]) > most ? GET(logits[row + i]) : most;
    largest[lane] = most;
    MEET
    LARGEST_OF_LANES(largest)
    EACH_LANE
    float sum = 0;
    for (long i = lane; i < n.classes; i += PEN__LANES)
        sum += exponential(GET(logits[row + i]) - largest[0]);
    sums[lane] = sum;
    MEET
    SUM_OF_LANES(sums)
    EACH_LANE
    if (lane == 0) {
        long target = targets[GROUP] - n.first;
        int is_here =
            targets[GROUP] != n.ignore && target >= 0 && target < n.classes;
        stats[GROUP * 3] = largest[0];
        stats[GROUP * 3 + 1] = sums[0];
        stats[GROUP * 3 + 2] = is_here ? GET(logits[row + target]) : 0.0f;
    }
    DONE
}

KERNEL(entropy_join, entropy)
{
    IN(float, from, 0);
    OUT(float, stats, 1);
    EACH_LANE
    EACH_OF(row, n.rows)
    {
        int is_larger = stats[row * 3] >= from[row * 3];
        float largest = is_larger ? stats[row * 3] : from[row * 3];
        float smaller = is_larger ? from[row * 3] : stats[row * 3];
        float high = is_larger ? stats[row * 3 + 1] : from[row * 3 + 1];
        float low = is_larger ? from[row * 3 + 1] : stats[row * 3 + 1];
        stats[row * 3] = largest;
        stats[row * 3 + 1] = high + low * exponential(smaller - largest);
        stats[row * 3 + 2] += from[row * 3 + 2];
    }
    DONE
}

KERNEL(entropy_finish, entropy)
{
    IN(int, targets, 0);
    IN(float, stats, 1);
    OUT(element, logits, 2);
    OUT(double, losses, 3);
    const long row = GROUP * n.classes;
    const float largest = stats[GROUP * 3];
    const float sum = stats[GROUP * 3 + 1];
    const int is_counted = targets[GROUP] != n.ignore;
    const long target = targets[GROUP] - n.first;
    EACH_LANE
    if (lane == 0 && n.with_loss)
        losses[GROUP] =
            is_counted
                ? (double)(logarithm(sum) + largest - stats[GROUP * 3 + 2])
                : 0.0;
    if (n.with_gradient)
        for (long i = lane; i < n.classes; i += PEN__LANES) {
            float hit = i == target ? 1.0f : 0.0f;
            float slope =
                exponential(GET(logits[row + i]) - largest) / sum - hit;
            logits[row + i] = PUT(is_counted ? slope / n.count : 0.0f);
        }
    DONE
}
