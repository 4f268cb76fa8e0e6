# The ring on real sockets, which needs OpenSSL 3. Apart because only the
# programs `penstock` and `penstock-train` have it.
if(PEN_HAS_OPENSSL)
    pkg_check_modules(SSL libssl>=3.0)
endif()
set(PEN_HAS_RING OFF)
file(GLOB PEN_RING_SOURCES CONFIGURE_DEPENDS src/ring/net/*.c)
if(PEN_HAS_OPENSSL AND SSL_FOUND)
    set(PEN_HAS_RING ON)
else()
    message(STATUS "OpenSSL 3 is not there: penstock ring coordinate will say so")
    list(FILTER PEN_RING_SOURCES INCLUDE REGEX "/(wire|keys|kept)\\.c$")
    list(APPEND PEN_RING_SOURCES src/ring/net/without_openssl/commands.c)
endif()
# The headers of libssl alone: tls.c loads it when it is wanted.
add_library(penstock_ring STATIC ${PEN_RING_SOURCES})
target_link_libraries(penstock_ring PUBLIC penstock_stores
                      PRIVATE ${CMAKE_DL_LIBS})
