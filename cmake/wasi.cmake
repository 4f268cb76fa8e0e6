# Tools for a page in a browser: Debian's clang, lld and wasi-libc.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang)
find_program(CMAKE_AR NAMES llvm-ar llvm-ar-14)
find_program(CMAKE_RANLIB NAMES llvm-ranlib llvm-ranlib-14)
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_SYSROOT /usr)
# Headers of wasi-libc only: the sysroot has the machine's own, too. Signals,
# clocks of processes and the like are pretended by the library.
set(emulated -D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_MMAN
    -D_WASI_EMULATED_PROCESS_CLOCKS -D_WASI_EMULATED_GETPID)
string(JOIN " " CMAKE_C_FLAGS_INIT -Qunused-arguments -nostdlibinc
       "-isystem /usr/include/wasm32-wasi" ${emulated})
string(JOIN " " CMAKE_EXE_LINKER_FLAGS_INIT -lwasi-emulated-signal
       -lwasi-emulated-mman -lwasi-emulated-process-clocks
       -lwasi-emulated-getpid)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
