# Losses of 20 steps on two engines, compared. Needs support.bash.
# The rate of the judge's references: a higher one magnifies rounding.
same_steps=("${same_steps[@]/1e-2/1e-3}" --global-batch-size 2)

# The largest difference of the losses of two logs, relative.
apart() { # LOG LOG STEPS
    paste <(sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$1") <(sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$2") |
        awk '{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > most) most = d; n++ }
            END { if (n != '"$3"') print "too few losses"; else printf "%.9f\n", most }'
}
near() { # LOG LOG [STEPS]
    local distance
    distance=$(apart "$1" "$2" "${3:-20}")
    awk -v d="$distance" 'BEGIN { exit !(d != "too few losses" && d <= 1e-5) }' || fail "losses differ by $distance"
    echo "losses differ by $distance"
}
