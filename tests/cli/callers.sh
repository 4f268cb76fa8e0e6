#!/usr/bin/env bash
# tools/check-callers holds for the sources, and finds a public function without
# a caller, one that only the like of it calls, and a line that is out of date.
. "$(dirname "$0")/support.bash"

root=$(cd "$(dirname "$0")/../.." && pwd)
check() { # CODE WORDS
    local code=0
    "$work/tools/check-callers" >"$work/said" 2>&1 || code=$?
    same "exit code" "$code" "$1"
    grep -qF -- "$2" "$work/said" || fail "expected '$2', not: $(cat "$work/said")"
}

mkdir "$work/tools"
cp -r "$root/src" "$work/src"
cp "$root/tools/check-callers" "$root/tools/offered.txt" "$work/tools"
check 0 "all others called"

cat >"$work/src/base/lonely.c" <<'END'
/* pen_lonely() calls pen_lonely_too(), and nobody calls pen_lonely(). */
void pen_lonely_too(void)
{
}

void pen_lonely(void)
{
    pen_lonely_too();
}
END
check 1 "src/base/lonely.c: no program calls pen_lonely();"
check 1 "src/base/lonely.c: no program calls pen_lonely_too();"
echo "pen_lonely" >>"$work/tools/offered.txt"
check 1 "pen_lonely needs a reason"
sed -i 's/^pen_lonely$/pen_lonely for somebody/' "$work/tools/offered.txt"
echo "pen_lonely_too for somebody else" >>"$work/tools/offered.txt"
check 0 "all others called"
rm "$work/src/base/lonely.c"
check 1 "pen_lonely has a caller or is gone; delete the line"
finish
