# What shows a training to Prometheus, where libmicrohttpd is there; otherwise
# it says that it is not. Apart because it needs nothing of the runtime, so that
# it is checked with every sanitizer and fuzzed.
pkg_check_modules(MICROHTTPD IMPORTED_TARGET libmicrohttpd>=0.9.71)
list(FILTER PEN_RUNTIME_SOURCES EXCLUDE REGEX "/metrics[a-z_]*\\.c$")
add_library(penstock_metrics STATIC src/runtime/metrics.c)
target_link_libraries(penstock_metrics PUBLIC penstock_library)
if(MICROHTTPD_FOUND)
    target_sources(penstock_metrics PRIVATE src/runtime/metrics_server.c)
    target_link_libraries(penstock_metrics PRIVATE PkgConfig::MICROHTTPD)
else()
    message(STATUS "libmicrohttpd is not there: --metrics-port will say so")
    target_sources(penstock_metrics PRIVATE
                   src/runtime/without_metrics/metrics_server.c)
endif()
