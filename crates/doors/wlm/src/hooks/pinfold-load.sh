#!/bin/sh
# Load sensor for Grid Engine: says how much more the host takes. Without a daemon it says no more than that it is not drained, as
# a queue whose threshold has no value takes no job. The host has the name that Grid Engine knows it by.
host=${HOST:-$(uname -n)}
while read -r line; do
	[ "$line" = quit ] && exit 0
	said=$(@PINFOLD@ wlm capacity --format gridengine 2>/dev/null) || said=$host:pinfold_draining:0
	echo begin
	printf '%s\n' "$said" | sed "s/^[^:]*:/$host:/"
	echo end
done
