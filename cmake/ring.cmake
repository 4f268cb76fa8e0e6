# The ring on real sockets. Apart because the program `penstock` alone has it.
file(GLOB PEN_RING_SOURCES CONFIGURE_DEPENDS src/ring/net/*.c)
add_library(penstock_ring STATIC ${PEN_RING_SOURCES})
target_link_libraries(penstock_ring PUBLIC penstock_stores)
