# What the suites of the lab's machines have in common; read by them. A check says `ok: WHAT: VALUE` or
# `FAILED: WHAT: wanted 'VALUE', found 'VALUE'`, which is also how its result is read from what they say.
# shellcheck shell=sh
failed=0

# check WHAT WANTED FOUND
check() {
  if [ "$2" = "$3" ]; then
    echo "ok: $1: $3"
  else
    echo "FAILED: $1: wanted '$2', found '$3'"
    failed=1
  fi
}

# until_is WHAT WANTED COMMAND...: asks again for three minutes and more, as the machine may be slow beyond its own measure. It
# says meanwhile that it waits: a machine that says nothing for long is taken for one that hangs.
until_is() {
  what=$1 wanted=$2 tries=0
  shift 2
  while found=$("$@" 2>/dev/null); [ "$found" != "$wanted" ] && [ $tries -lt 900 ]; do
    tries=$((tries + 1))
    [ $((tries % 20)) != 0 ] || echo "still '$found': $what"
    sleep 0.2
  done
  check "$what" "$wanted" "$found"
}

# Whether something becomes true within a while. It says meanwhile that it waits, too.
happens() {
  tries=0
  until "$@" 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || return 1
    [ $((tries % 20)) != 0 ] || echo "not yet: $*"
    sleep 0.2
  done
}

# The value of a key in what status says of a job.
said() { pinfold status --json "$1" | tr ',{}' '\n\n\n' | sed -n "s/^\"$2\": *\"\{0,1\}\([^\"]*\)\"\{0,1\}$/\1/p" | tail -n 1; }
