#!/usr/bin/env bash
# penstock reproduce refuses wrong command lines and data; tests/mpi/run_reproduce
# runs an experiment.
. "$(dirname "$0")/support.bash"

run 2 reproduce
err_has "name an experiment: parle"
run 2 reproduce magic --data "$work"
err_has "there is no experiment 'magic'; there is parle"
run 2 reproduce parle
err_has "--data is required"
run 1 reproduce parle --data "$work/none" -o "$work/run"
err_has "$work/none"

make_images() { "$(dirname "$0")/../support/make_images.py" "$work/images" "$1" "$2"; }
make_images 600 384
run 1 reproduce parle --short --data "$work/images" -o "$work/run"
err_has "has 600 training images, and the experiment needs 896"

finish
