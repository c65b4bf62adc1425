# Marks: what really happened, in the order of the disk's own log. They lie in a partition beside the file system that has
# the daemon's state, and are written past the page cache, without a flush: a flush would bring the daemon's writes to disk
# as well. Of each job there are eight: up to six times that it began, that its user was told of it, and how it ended as
# somebody heard.
# shellcheck shell=sh
TOLD=6 HEARD=7

# mark JOB PLACE TEXT
mark() {
  printf '%-512s' "$3" | dd of=/marks bs=512 seek=$(($1 * 8 + $2)) oflag=direct conv=notrunc 2>/dev/null
}

# The mark of a job at a place; nothing, if there is none.
marked() {
  dd if=/marks bs=512 skip=$(($1 * 8 + $2)) count=1 iflag=direct 2>/dev/null | tr -d '\0' | sed 's/ *$//'
}

# All marks, each in a line.
marks() {
  dd if=/marks bs=64k iflag=direct 2>/dev/null | tr '\0' ' ' | tr -s ' ' | sed 's/\([a-z]*:\)/\n\1/g' | sed 's/ *$//' | grep ':'
}
