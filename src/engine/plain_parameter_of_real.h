/*
 * Parameters as plain arrays, for the reference engine and for devices. An
 * includer has REAL, struct pen_parameter, and array_of() and drop_array() for
 * its memory. No guard, on purpose.
 */

static void parameter_free(struct pen_engine *engine,
                           struct pen_parameter *parameter)
{
    if (parameter == NULL)
        return;
    if (parameter->is_gradient_placed)
        parameter->parts[PEN_PART_GRADIENT] = NULL;
    if (parameter->is_value_placed)
        parameter->parts[PEN_PART_VALUE] = NULL;
    for (int part = 0; part <= PEN_PART_MOMENT2; part++)
        drop_array(engine, parameter, parameter->parts[part]);
    for (int i = 0; i < parameter->num_copies; i++)
        drop_array(engine, parameter, parameter->copies[i]);
    drop_array(engine, parameter, parameter->second);
    free(parameter);
}

/* Parts first to end - 1. */
static pen_status add_parts(struct pen_engine *engine,
                            struct pen_parameter *parameter, int first, int end)
{
    for (int part = first; part < end; part++) {
        if ((part == PEN_PART_GRADIENT && parameter->shape.has_no_room) ||
            (part == PEN_PART_VALUE && parameter->shape.has_no_value))
            continue;
        parameter->parts[part] = array_of(engine, parameter);
        if (parameter->parts[part] == NULL)
            return PEN_NOMEM;
    }
    return PEN_OK;
}

static pen_status parameter_add_moments(struct pen_engine *engine,
                                        struct pen_parameter *parameter,
                                        int moments, struct pen_text *why)
{
    (void)why;
    PEN_BUG_UNLESS(parameter->shape.moments == 0);
    parameter->shape.moments = moments;
    return add_parts(engine, parameter, PEN_PART_MOMENT1,
                     PEN_PART_MOMENT1 + moments);
}

static pen_status parameter_add_copy(struct pen_engine *engine,
                                     struct pen_parameter *parameter,
                                     struct pen_text *why)
{
    const int most = sizeof parameter->copies / sizeof *parameter->copies;
    if (parameter->num_copies == most) {
        pen_why(why, "the %s engine keeps at most %d copies of a weight",
                engine->ops->name, most);
        return PEN_INVALID;
    }
    REAL *copy = array_of(engine, parameter);
    if (copy == NULL)
        return PEN_NOMEM;
    parameter->copies[parameter->num_copies++] = copy;
    return PEN_OK;
}

static void parameter_swap(struct pen_engine *engine,
                           struct pen_parameter *parameter, int copy)
{
    (void)engine;
    PEN_BUG_UNLESS(copy < parameter->num_copies);
    REAL *value = parameter->parts[PEN_PART_VALUE];
    parameter->parts[PEN_PART_VALUE] = parameter->copies[copy];
    parameter->copies[copy] = value;
}

static void parameter_shape(const struct pen_parameter *parameter,
                            struct pen_parameter_shape *out)
{
    *out = parameter->shape;
}

/* At a place of the caller's, or in memory of its own. */
static pen_status place(struct pen_engine *engine,
                        struct pen_parameter *parameter, int part, void *at)
{
    parameter->parts[part] = at != NULL ? at : array_of(engine, parameter);
    return parameter->parts[part] == NULL ? PEN_NOMEM : PEN_OK;
}

static pen_status gradient_place(struct pen_engine *engine,
                                 struct pen_parameter *parameter, void *at,
                                 struct pen_text *why)
{
    (void)why;
    PEN_BUG_UNLESS(
        parameter->parts[PEN_PART_GRADIENT] == NULL ||
        (engine->ops->is_host && parameter->is_gradient_placed && at != NULL));
    parameter->is_gradient_placed = at != NULL;
    return place(engine, parameter, PEN_PART_GRADIENT, at);
}

static size_t value_bytes(const struct pen_engine *engine,
                          const struct pen_parameter *parameter)
{
    (void)engine;
    return parameter->count * sizeof(REAL);
}

static pen_status value_place(struct pen_engine *engine,
                              struct pen_parameter *parameter, void *at,
                              struct pen_text *why)
{
    (void)why;
    PEN_BUG_UNLESS(parameter->parts[PEN_PART_VALUE] == NULL);
    parameter->is_value_placed = at != NULL;
    return place(engine, parameter, PEN_PART_VALUE, at);
}

static pen_status gradient_add_second(struct pen_engine *engine,
                                      struct pen_parameter *parameter,
                                      struct pen_text *why)
{
    (void)why;
    PEN_BUG_UNLESS(parameter->second == NULL &&
                   !parameter->shape.is_value_only);
    parameter->second = array_of(engine, parameter);
    return parameter->second == NULL ? PEN_NOMEM : PEN_OK;
}

static void gradient_swap(struct pen_engine *engine,
                          struct pen_parameter *parameter)
{
    (void)engine;
    PEN_BUG_UNLESS(parameter->second != NULL);
    REAL *first = parameter->parts[PEN_PART_GRADIENT];
    parameter->parts[PEN_PART_GRADIENT] = parameter->second;
    parameter->second = first;
}

/* Makes a parameter of plain arrays. */
static pen_status create_plain(struct pen_engine *engine,
                               const struct pen_parameter_shape *shape,
                               struct pen_parameter **out)
{
    struct pen_parameter *parameter = calloc(1, sizeof *parameter);
    if (parameter == NULL)
        return PEN_NOMEM;
    parameter->shape = *shape;
    parameter->count = shape->rows * shape->columns;
    pen_status status = add_parts(
        engine, parameter, 0, shape->is_value_only ? 1 : 2 + shape->moments);
    if (status == PEN_OK)
        *out = parameter;
    else
        parameter_free(engine, parameter);
    return status;
}
