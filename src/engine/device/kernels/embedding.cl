/*
 * Rows of tables. The sums of a gradient have one order: a lane has a column
 * and adds the rows that picked a word in the order in which they come.
 */

KERNEL(embedding_forward, embedding)
{
    IN(float, tokens, 0);
    IN(float, positions, 1);
    IN(int, ids, 2);
    OUT(element, y, 3);
    EACH_LANE
    EACH_OF(i, n.rows * n.width)
    {
        long row = i / n.width;
        long column = i % n.width;
        long id = ids[row] - n.first;
        float sum =
            id >= 0 && id < n.words ? tokens[id * n.width + column] : 0.0f;
        if (n.has_positions)
            sum += positions[row % n.sequence * n.width + column];
        y[i] = PUT(sum);
    }
    DONE
}

KERNEL(embedding_backward, embedding)
{
    IN(int, ids, 0);
    IN(char, dy, 1);
    OUT(float, dtokens, 2);
    EACH_LANE
    long column = GROUP * PEN__LANES + lane;
    if (column < n.width)
        for (long row = 0; row < n.rows; row++) {
            long id = ids[row] - n.first;
            if (id >= 0 && id < n.words)
                dtokens[id * n.width + column] +=
                    get_of(dy, n.is_master, row * n.width + column);
        }
    DONE
}

/* A lane has a column of a position. */
KERNEL(embedding_positions, embedding)
{
    IN(element, dy, 0);
    OUT(float, dpositions, 1);
    EACH_LANE
    EACH_OF(i, n.sequence * n.width)
    {
        float sum = dpositions[i];
        for (long row = i / n.width; row < n.rows; row += n.sequence)
            sum += GET(dy[row * n.width + i % n.width]);
        dpositions[i] = sum;
    }
    DONE
}
