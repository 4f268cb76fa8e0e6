/*
 * Loaded before oneDNN (LD_PRELOAD): the first number of the result of one
 * product becomes BAD_VALUE, once. BAD_RANK is the rank, BAD_CALL which of its
 * products, from 1. Without BAD_CALL a rank prints how many it had.
 */
#include <dlfcn.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

typedef dnnl_status_t execute(const_dnnl_primitive_t primitive,
                              dnnl_stream_t stream, int count,
                              const dnnl_exec_arg_t *args);

static long num_seen; /* products are started by one thread */

static long number_of(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? 0 : atol(text);
}

static void spoil(int count, const dnnl_exec_arg_t *args)
{
    const char *value = getenv("BAD_VALUE");
    void *numbers = NULL;
    dnnl_status_t (*handle_of)(const_dnnl_memory_t, void **);
    *(void **)&handle_of = dlsym(RTLD_NEXT, "dnnl_memory_get_data_handle");
    for (int i = 0; i < count; i++)
        if (args[i].arg == DNNL_ARG_DST &&
            handle_of(args[i].memory, &numbers) == dnnl_success)
            *(float *)numbers = value == NULL ? NAN : strtof(value, NULL);
}

static void print_count(void)
{
    printf("products of rank %ld: %ld\n", number_of("OMPI_COMM_WORLD_RANK"),
           num_seen);
    fflush(stdout);
}

dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive,
                                     dnnl_stream_t stream, int count,
                                     const dnnl_exec_arg_t *args)
{
    static execute *real;
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "dnnl_primitive_execute");
        if (number_of("BAD_CALL") == 0)
            atexit(print_count);
    }
    dnnl_status_t status = real(primitive, stream, count, args);
    if (++num_seen == number_of("BAD_CALL") &&
        number_of("OMPI_COMM_WORLD_RANK") == number_of("BAD_RANK"))
        spoil(count, args);
    return status;
}
