# SHA-256 by OpenSSL, which is faster, where it is there; otherwise our own.
if(PEN_OPENSSL)
    pkg_check_modules(CRYPTO IMPORTED_TARGET libcrypto)
endif()
set(PEN_HAS_OPENSSL OFF)
if(PEN_OPENSSL AND CRYPTO_FOUND)
    set(PEN_HAS_OPENSSL ON)
    set(PEN_CRYPTO_MODULE libcrypto)    # in penstock.pc
    set(PEN_CRYPTO_PACKAGE libssl-dev,) # of Debian
    target_sources(penstock_library PRIVATE src/base/digest.c)
    target_link_libraries(penstock_library PUBLIC PkgConfig::CRYPTO)
else()
    message(STATUS "OpenSSL is not there: SHA-256 is computed in plain C")
    target_sources(penstock_library PRIVATE src/base/without_openssl/digest.c)
endif()
