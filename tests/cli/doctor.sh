#!/usr/bin/env bash
# doctor tells what nproc, lscpu and the kernel's files tell, measures speeds
# that are not zero, and advises on what was set wrong on purpose.
. "$(dirname "$0")/support.bash"
if [ ! -x "$(dirname "$PENSTOCK")/penstock-train" ]; then
    echo "penstock-train was not built; skipped"
    exit 77
fi
unset OMP_NUM_THREADS OMP_PROC_BIND OMP_PLACES OMP_WAIT_POLICY \
    GOMP_CPU_AFFINITY GLIBC_TUNABLES ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA

run 0 doctor --json
err_empty
cores=$(json 'd["machine"]["usable"]["cores"]')
same "hardware threads that may be used" \
    "$(json 'd["machine"]["usable"]["hardware_threads"]')" "$(nproc)"
same "hardware threads" "$(json 'd["machine"]["all"]["hardware_threads"]')" \
    "$(getconf _NPROCESSORS_ONLN)"
same memory "$(json 'd["machine"]["memory_bytes"] // 1024')" \
    "$(awk '/^MemTotal/ { print $2 }' /proc/meminfo)"
for flag in avx2 avx512_bf16 amx_bf16; do
    same "$flag" "$(json "d['machine']['$flag']")" \
        "$(grep -qw "$flag" /proc/cpuinfo && echo True || echo False)"
done
if command -v lscpu >/dev/null; then
    same cores "$(json 'd["machine"]["all"]["cores"]')" \
        "$(lscpu -p=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)"
    same "NUMA nodes" "$(json 'd["machine"]["all"]["numa_nodes"]')" \
        "$(lscpu -p=NODE | grep -v '^#' | sort -u | wc -l)"
    same "name" "$(json 'd["machine"]["cpu"]')" \
        "$(lscpu | sed -n 's/^Model name: *//p')"
    same "cache" "$(json '[c["bytes"] for c in d["machine"]["caches"]][-1]')" \
        "$(lscpu -B -C=NAME,ONE-SIZE | awk 'END { print $2 }')"
fi
same "a thread per core" "$(json 'd["threads"]["count"]')" "$cores"
same "two measurements" "$(json '[m["threads"] for m in d["measured"]]')" \
    "[1, $cores]"
same "speeds" "$(json 'all(m["f32_flops_per_sec"] > 1e9 and
    m["memory_bytes_per_sec"] > 1e8 for m in d["measured"])')" True
same "usable" "$(json 'd["usable"]')" True

# What was set wrong is found, with the command that sets it right.
commands() { json '[a["command"] for a in d["advice"]]'; }
export OMP_NUM_THREADS=$((2 * cores)) OMP_WAIT_POLICY=passive \
    OMP_PROC_BIND=false GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
    ONEDNN_MAX_CPU_ISA=AVX2
run 0 doctor --json
for command in "export OMP_NUM_THREADS=$cores" "unset OMP_WAIT_POLICY" \
    "unset OMP_PROC_BIND" "unset ONEDNN_MAX_CPU_ISA"; do
    [[ $(commands) == *"'$command'"* ]] || fail "no advice '$command'"
done
[[ $(commands) != *GLIBC_TUNABLES* ]] || fail "advice on what is set already"
same "threads as asked for" "$(json 'd["threads"]')" \
    "{'count': $((2 * cores)), 'binding': 'user'}"
unset OMP_NUM_THREADS OMP_WAIT_POLICY OMP_PROC_BIND ONEDNN_MAX_CPU_ISA

# On one core of several, for people; programs are found as a shell does.
case $(cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null) in
*"[madvise]"*) pages="export GLIBC_TUNABLES=glibc.malloc.hugetlb=1" ;;
*"[never]"*) pages="| sudo tee /sys/kernel/mm/transparent_hugepage/enabled" ;;
*) pages= ;;
esac
unset GLIBC_TUNABLES
printf '#!/bin/sh\n' >"$work/mpirun.some"
chmod +x "$work/mpirun.some"
ln -s mpirun.some "$work/mpirun"
whole=$PENSTOCK
if command -v taskset >/dev/null; then
    first=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
    printf '#!/bin/sh\nexec taskset -c %d %s "$@"\n' "$first" "$whole" \
        >"$work/one"
    chmod +x "$work/one"
    PENSTOCK=$work/one
fi
PATH=$work:$PATH run 0 doctor
PENSTOCK=$whole
out_has "machine    $(sed -n 's/^model name\t*: //p;T;q' /proc/cpuinfo)"
out_has "installed  oneDNN"
out_has "MPI: $(realpath "$work/mpirun")"
out_has "f32, Gflop/s"
out_has "$pages"
out_lacks "OMP_"
if [ -x "$work/one" ] && [ "$cores" -gt 1 ]; then
    out_has "may use    1 core, 1 hardware thread, 1 NUMA node"
    out_has "threads    1, not bound within the affinity mask of this process"
    out_has "    taskset -a -p -c 0-"
fi
[ "$(wc -l <"$work/out")" -le 40 ] || fail "more than a screen"

# A oneDNN that does not start is told, and the answer is no.
if command -v cc >/dev/null; then
    echo 'int dnnl_engine_create(void **e, int k, unsigned long i);
        int dnnl_engine_create(void **e, int k, unsigned long i)
        { (void)e; (void)k; (void)i; return 1; }' |
        cc -shared -fPIC -xc - -o "$work/broken.so"
    export LD_PRELOAD=$work/broken.so ASAN_OPTIONS=verify_asan_link_order=0
    run 1 doctor
    err_has "failed for its start"
    run 1 doctor --json
    same "usable" "$(unset LD_PRELOAD && json 'd["usable"]')" False
    unset LD_PRELOAD
fi

run 2 doctor extra
err_has "unexpected argument 'extra'"
finish
