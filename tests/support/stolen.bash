# For tests about time: whether other machines had the cores of this one, which
# the host of a virtual machine tells. Sourced.
#
#   watch_cores; ...; if cores_were_taken; then ...

# Hundredths of a second, of all cores.
stolen() { awk '/^cpu / { print $9 }' /proc/stat; }

watch_cores() {
    watched_stolen=$(stolen)
    watched_since=$(date +%s%N)
}

# For more than a twentieth of the time of a core; less is noise.
cores_were_taken() {
    (($(stolen) - watched_stolen > ($(date +%s%N) - watched_since) / 200000000))
}
