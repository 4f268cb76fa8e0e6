/*
 * Products (sizes.h): a group has a tile of 64 x 64 results, a lane 8 x 8 of
 * them; 16 columns of both factors are in local memory at a time. Each result
 * adds its terms in the order of the depth, whatever the tile.
 */
#define STEP 16
#define PATCH 8

KERNEL(product, product)
{
    IN(char, a, 0);
    IN(char, b, 1);
    IN(float, bias, 2);
    IN(char, add, 3);
    OUT(char, c, 4);
    LOCAL(float, rows_of_a, STEP *PEN__TILE);
    LOCAL(float, rows_of_b, STEP *PEN__TILE);
    OWN_ARRAY(float, sums, PATCH *PATCH);
    const long across = (n.columns + PEN__TILE - 1) / PEN__TILE;
    const long down = (n.rows + PEN__TILE - 1) / PEN__TILE;
    const long matrix = GROUP / (across * down);
    const long tile = GROUP % (across * down);
    const long first_row = tile / across * PEN__TILE;
    const long first_column = tile % across * PEN__TILE;
    const long batch = matrix / n.heads;
    const long head = matrix % n.heads;
    const long a_at = batch * n.a_batch + head / n.a_share * n.a_head;
    const long b_at = batch * n.b_batch + head / n.b_share * n.b_head;
    const long c_at = batch * n.c_batch + head * n.c_head;

    EACH_LANE
    UNROLL
    for (int i = 0; i < PATCH * PATCH; i++)
        MY(sums)[i] = 0;
    DONE
    for (long first = 0; first < n.depth; first += STEP) {
        EACH_LANE
        for (int i = lane; i < STEP * PEN__TILE; i += PEN__LANES) {
            int row = n.a_depth == 1 ? i / STEP : i % PEN__TILE;
            int d = n.a_depth == 1 ? i % STEP : i / PEN__TILE;
            int is_in = first_row + row < n.rows && first + d < n.depth;
            rows_of_a[d * PEN__TILE + row] =
                is_in ? get_of(a, n.a_is_master,
                               a_at + (first_row + row) * n.a_row +
                                   (first + d) * n.a_depth)
                      : 0.0f;
        }
        for (int i = lane; i < STEP * PEN__TILE; i += PEN__LANES) {
            int row = n.b_depth == 1 ? i / STEP : i % PEN__TILE;
            int d = n.b_depth == 1 ? i % STEP : i / PEN__TILE;
            int is_in = first_column + row < n.columns && first + d < n.depth;
            rows_of_b[d * PEN__TILE + row] =
                is_in ? get_of(b, n.b_is_master,
                               b_at + (first_column + row) * n.b_row +
                                   (first + d) * n.b_depth)
                      : 0.0f;
        }
        MEET
        EACH_LANE
        const int down_at = lane / PATCH * PATCH;
        const int across_at = lane % PATCH * PATCH;
        for (int d = 0; d < STEP; d++)
            UNROLL
            for (int i = 0; i < PATCH; i++) {
                float left = rows_of_a[d * PEN__TILE + down_at + i];
                UNROLL
                for (int j = 0; j < PATCH; j++)
                    MY(sums)
                    [i * PATCH + j] =
                        FMA(left, rows_of_b[d * PEN__TILE + across_at + j],
                            MY(sums)[i * PATCH + j]);
            }
        MEET
    }
    EACH_LANE
    UNROLL
    for (int i = 0; i < PATCH; i++)
        UNROLL
        for (int j = 0; j < PATCH; j++) {
            long row = first_row + lane / PATCH * PATCH + i;
            long column = first_column + lane % PATCH * PATCH + j;
            if (row < n.rows && column < n.columns) {
                long at = c_at + row * n.c_row + column;
                float sum = n.scale * MY(sums)[i * PATCH + j];
                if (n.has_bias)
                    sum += bias[column];
                if (n.has_add)
                    sum += n.add_scale * get_of(add, n.c_is_master, at);
                if (n.is_added)
                    sum += get_of(c, n.c_is_master, at);
                if (n.c_is_master)
                    ((MEMORY float *)c)[at] = sum;
                else
                    ((MEMORY element *)c)[at] = PUT(sum);
            }
        }
    DONE
}
