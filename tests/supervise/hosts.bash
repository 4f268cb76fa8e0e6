# Hosts of a supervised training on one machine. The supervisor is on host 0,
# the others run commands for it (node_agent), and end as a machine does that
# loses power: with all of their processes.
# Needs `build` and support.bash; skips without root.
hosts=$here/../net/hosts
agent=$here/../supervise/node_agent
[ "$(id -u)" = 0 ] && command -v ip >/dev/null || {
    echo "hosts need root and iproute2; skipped"
    exit 77
}

start_host() { # HOST
    rm -f "$work/host$1.socket"
    ip netns exec "$set-$1" unshare --uts --mount --pid --fork --kill-child --mount-proc sh -c \
        'hostname "$0" && mount -t tmpfs none /dev/shm && exec "$1" serve "$2"' \
        "$set-$1" "$agent" "$work/host$1.socket" </dev/null >/dev/null 2>&1 &
    host_pids[$1]=$!
    disown
}
kill_host() { # HOST
    kill -KILL "${host_pids[$1]}"
    while kill -0 "${host_pids[$1]}" 2>/dev/null; do sleep 0.01; done
    rm -f "$work/host$1.socket"
}
on_host() { # HOST COMMAND...
    "$agent" run "$work/host$1.socket" "${@:2}"
}
start_hosts() { # COUNT
    set=$("$hosts" up "$1") || {
        echo "no network namespaces; skipped"
        exit 77
    }
    local host
    for ((host = 1; host < $1; host++)); do
        start_host "$host"
    done
}
stop_hosts() {
    [ -z "${set:-}" ] || "$hosts" down "$set"
}
cat >"$work/agent" <<A
#!/bin/sh
# For mpirun: ADDRESS COMMAND...
host=\$((\${1##*.} - 1))
shift
exec "$agent" run "$work/host\$host.socket" "\$@"
A
chmod +x "$work/agent"
on_hosts=("${mpirun[@]}" --mca plm_rsh_agent "$work/agent" --mca pml ob1 --mca btl tcp,self
    --mca btl_tcp_if_include 10.213.0.0/24 --mca oob_tcp_if_include 10.214.0.0/24
    --mca mpi_yield_when_idle 1)
address_of() { echo "10.214.0.$(($1 + 1))"; } # HOST
first_host=(ip netns exec "SET-0" unshare --uts sh -c 'hostname "$0" && exec "$@"' SET-0)
# The words of a command, as host 0 runs it.
at_first() { # COMMAND...; sets `words`
    words=("${first_host[@]//SET/$set}" "$@")
}
