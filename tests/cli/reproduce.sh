#!/usr/bin/env bash
# penstock reproduce refuses wrong command lines and data; tests/mpi/run_reproduce
# runs an experiment.
. "$(dirname "$0")/support.bash"

run 2 reproduce
err_has "name an experiment: parle, 2bw, wap"
run 2 reproduce magic --data "$work"
err_has "there is no experiment 'magic'; there are parle, 2bw, wap"
run 2 reproduce parle
err_has "--data is required"
run 1 reproduce parle --data "$work/none" -o "$work/run"
err_has "$work/none"

make_images() { "$(dirname "$0")/../support/make_images.py" "$work/images" "$1" "$2"; }
make_images 600 384
run 1 reproduce parle --short --data "$work/images" -o "$work/run"
err_has "has 600 training images, and the experiment needs 896"

run 2 reproduce 2bw
err_has "--data is required: a folder with a text as input.txt"
run 1 reproduce 2bw --data "$work/none" -o "$work/run"
err_has "$work/none/input.txt"
mkdir "$work/text"
echo "To be" >"$work/text/input.txt"
run 1 reproduce 2bw --short --data "$work/text" -o "$work/run"
err_has "input.txt has 6 bytes, and the experiment needs 20000"

finish
