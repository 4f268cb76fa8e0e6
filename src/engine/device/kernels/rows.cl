/* Element by element, and row by row: a group has a row. */

KERNEL(add, flat)
{
    IN(element, a, 0);
    IN(element, b, 1);
    OUT(element, sum, 2);
    EACH_LANE
    EACH_OF(i, n.count)
        sum[i] = PUT(GET(a[i]) + GET(b[i]));
    DONE
}

KERNEL(relu_forward, flat)
{
    IN(element, x, 0);
    OUT(element, y, 1);
    EACH_LANE
    EACH_OF(i, n.count)
        y[i] = GET(x[i]) <= 0 ? PUT(0.0f) : x[i];
    DONE
}

KERNEL(relu_backward, flat)
{
    IN(element, y, 0);
    IN(element, dy, 1);
    OUT(element, dx, 2);
    EACH_LANE
    EACH_OF(i, n.count)
        dx[i] = GET(y[i]) > 0 ? dy[i] : PUT(0.0f);
    DONE
}

/* The tanh form: x s with s = sigmoid(2 u), u = sqrt(2/pi) (x + 0.044715 x^3). */
INLINE float gelu_gate(float x)
{
    return sigmoid(2.0f * 0.79788456080286535588f *
                   (x + 0.044715f * x * x * x));
}

KERNEL(gelu_forward, flat)
{
    IN(element, x, 0);
    OUT(element, y, 1);
    EACH_LANE
    EACH_OF(i, n.count)
    {
        float in = GET(x[i]);
        y[i] = PUT(in * gelu_gate(in));
    }
    DONE
}

KERNEL(gelu_backward, flat)
{
    IN(element, x, 0);
    IN(element, dy, 1);
    OUT(element, dx, 2);
    EACH_LANE
    EACH_OF(i, n.count)
    {
        float in = GET(x[i]);
        float s = gelu_gate(in);
        float inner =
            2.0f * 0.79788456080286535588f * (1 + 3 * 0.044715f * in * in);
        dx[i] = PUT(GET(dy[i]) * (s + in * s * (1 - s) * inner));
    }
    DONE
}

KERNEL(swiglu_forward, swiglu)
{
    IN(element, gate, 0);
    IN(element, up, 1);
    OUT(element, y, 2);
    EACH_LANE
    EACH_OF(i, n.rows * n.width)
    {
        long at = i / n.width * n.stride + i % n.width;
        float g = GET(gate[at]);
        y[i] = PUT(g * sigmoid(g) * GET(up[at]));
    }
    DONE
}

KERNEL(swiglu_backward, swiglu)
{
    IN(element, gate, 0);
    IN(element, up, 1);
    IN(element, dy, 2);
    OUT(element, dgate, 3);
    OUT(element, dup, 4);
    EACH_LANE
    EACH_OF(i, n.rows * n.width)
    {
        long at = i / n.width * n.stride + i % n.width;
        float g = GET(gate[at]);
        float u = GET(up[at]);
        float s = sigmoid(g);
        float slope = GET(dy[i]);
        dgate[at] = PUT(slope * u * s * (1 + g * (1 - s)));
        dup[at] = PUT(slope * g * s);
    }
    DONE
}

KERNEL(rotary, rotary)
{
    IN(float, cosines, 0);
    IN(float, sines, 1);
    OUT(element, x, 2);
    EACH_LANE
    EACH_OF(i, n.rows * n.heads * n.half_size)
    {
        long row = i / (n.heads * n.half_size);
        long head = i / n.half_size % n.heads;
        long turn = i % n.half_size;
        long low = row * n.stride + head * n.step +
                   (n.has_neighbours ? 2 * turn : turn);
        long high = low + (n.has_neighbours ? 1 : n.half_size);
        long angle = row % n.sequence * n.half_size + turn;
        float cosine = cosines[angle];
        float sine = n.direction * sines[angle];
        float a = GET(x[low]);
        float b = GET(x[high]);
        x[low] = PUT(a * cosine - b * sine);
        x[high] = PUT(b * cosine + a * sine);
    }
    DONE
}

KERNEL(norm_forward, norm)
{
    IN(element, x, 0);
    IN(float, gain, 1);
    IN(float, bias, 2);
    OUT(element, y, 3);
    OUT(float, mean, 4);
    OUT(float, rstd, 5);
    LOCAL(float, sums, PEN__LANES);
    LOCAL(float, squares, PEN__LANES);
    const long row = GROUP * n.width;
    EACH_LANE
    float sum = 0;
    if (n.is_layer)
        for (long i = lane; i < n.width; i += PEN__LANES)
            sum += GET(x[row + i]);
    sums[lane] = sum;
    MEET
    SUM_OF_LANES(sums)
    EACH_LANE
    float middle = sums[0] / (float)n.width;
    float square = 0;
    for (long i = lane; i < n.width; i += PEN__LANES) {
        float off = GET(x[row + i]) - middle;
        square = FMA(off, off, square);
    }
    squares[lane] = square;
    MEET
    SUM_OF_LANES(squares)
    EACH_LANE
    float middle = sums[0] / (float)n.width;
    float factor = 1.0f / ROOT(squares[0] / (float)n.width + n.epsilon);
    for (long i = lane; i < n.width; i += PEN__LANES) {
        float out = (GET(x[row + i]) - middle) * factor * gain[i];
        y[row + i] = PUT(n.has_bias ? out + bias[i] : out);
    }
    if (lane == 0) {
        if (n.is_layer)
            mean[GROUP] = middle;
        rstd[GROUP] = factor;
    }
    DONE
}

/*
 * With normal = (x - mean) * rstd and g = dy * gain:
 *   dx = rstd * (g - average(g) - normal * average(g * normal)) + add;
 * RMS norm has neither the mean nor average(g).
 */
KERNEL(norm_backward_input, norm)
{
    IN(element, x, 0);
    IN(float, gain, 1);
    IN(float, mean, 2);
    IN(float, rstd, 3);
    IN(element, dy, 4);
    IN(element, past, 5);
    OUT(element, dx, 6);
    LOCAL(float, slopes, PEN__LANES);
    LOCAL(float, along, PEN__LANES);
    const long row = GROUP * n.width;
    const float middle = n.is_layer ? mean[GROUP] : 0.0f;
    const float factor = rstd[GROUP];
    EACH_LANE
    float slope = 0;
    float normals = 0;
    for (long i = lane; i < n.width; i += PEN__LANES) {
        float g = GET(dy[row + i]) * gain[i];
        slope += g;
        normals = FMA(g, (GET(x[row + i]) - middle) * factor, normals);
    }
    slopes[lane] = n.is_layer ? slope : 0.0f;
    along[lane] = normals;
    MEET
    SUM_OF_LANES(slopes)
    SUM_OF_LANES(along)
    EACH_LANE
    float average = slopes[0] / (float)n.width;
    float share = along[0] / (float)n.width;
    for (long i = lane; i < n.width; i += PEN__LANES) {
        float normal = (GET(x[row + i]) - middle) * factor;
        float g = GET(dy[row + i]) * gain[i];
        float out = factor * (g - average - normal * share);
        dx[row + i] = PUT(n.has_add ? out + GET(past[row + i]) : out);
    }
    DONE
}

/* A lane has a column, and adds its rows in their order. */
KERNEL(norm_backward_weight, norm)
{
    IN(element, x, 0);
    IN(float, mean, 1);
    IN(float, rstd, 2);
    IN(element, dy, 3);
    OUT(float, dgain, 4);
    OUT(float, dbias, 5);
    EACH_LANE
    long i = GROUP * PEN__LANES + lane;
    if (i < n.width) {
        float gains = dgain[i];
        float biases = n.has_bias ? dbias[i] : 0.0f;
        for (long row = 0; row < n.rows; row++) {
            float middle = n.is_layer ? mean[row] : 0.0f;
            float slope = GET(dy[row * n.width + i]);
            gains = FMA(slope,
                        (GET(x[row * n.width + i]) - middle) * rstd[row],
                        gains);
            biases += slope;
        }
        dgain[i] = gains;
        if (n.has_bias)
            dbias[i] = biases;
    }
    DONE
}

KERNEL(column_sums, columns)
{
    IN(char, x, 0);
    OUT(float, sums, 1);
    EACH_LANE
    long i = GROUP * PEN__LANES + lane;
    if (i < n.columns) {
        float sum = sums[i];
        for (long row = 0; row < n.rows; row++)
            sum += get_of(x, n.is_master, row * n.columns + i);
        sums[i] = sum;
    }
    DONE
}

/* Where all groups go to one place, their sum does. */
KERNEL(copy_columns, groups)
{
    IN(element, x, 0);
    OUT(element, y, 1);
    const long width = n.width + n.zeros;
    const long places = n.to_step == 0 ? 1 : n.groups;
    const long terms = n.groups / places;
    EACH_LANE
    EACH_OF(i, n.rows * places * width)
    {
        long row = i / (places * width);
        long place = i / width % places;
        long column = i % width;
        long from = row * n.from_stride + place * n.from_step + column;
        float sum = 0;
        for (long term = 0; term < terms && column < n.width; term++)
            sum += GET(x[from + term * n.from_step]);
        y[row * n.to_stride + place * n.to_step + column] = PUT(sum);
    }
    DONE
}
