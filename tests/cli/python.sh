#!/usr/bin/env bash
# The functions of the Python module are the commands and options of the
# programs: whoever adds an option is told to make them again. Needs all programs.
. "$(dirname "$0")/support.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
list_commands
module=$root/python/penstock/_commands.py
about "tools/python-commands $PENSTOCK > python/penstock/_commands.py makes it again"
"$root/tools/python-commands" "$PENSTOCK" >"$work/out" 2>"$work/err" || fail "it cannot be made"
diff "$module" "$work/out" >"$work/err" || fail "it is not what the programs say"
python3 -c 'import ast, sys; ast.parse(sys.stdin.read())' <"$module" 2>"$work/err" || fail "it is not Python"
finish
