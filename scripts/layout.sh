#!/usr/bin/env bash
# Lays out what a package installs: layout.sh PROGRAMS ROOT, the directory with pinfold, pinfoldd and pinfold-slurm, and the
# one that stands for the root of the file system. No rights are needed.
set -euo pipefail
programs=$(realpath "$1") root=$(realpath -m "$2")
cd "$(dirname "$0")/.."

install -D -m 755 -t "$root/usr/bin" "$programs/pinfold" "$programs/pinfoldd" "$programs/pinfold-slurm" "$programs/pinfold-hub-client"
strip --strip-debug "$root"/usr/bin/* 2>/dev/null || echo "the programs keep what debuggers read: strip is not here" >&2
install -D -m 644 -t "$root/lib/systemd/system" packaging/pinfoldd.service packaging/pinfold-jobs.service \
  packaging/pinfold-push.service
# The user of the second one.
install -D -m 644 packaging/pinfold-push.sysusers "$root/usr/lib/sysusers.d/pinfold.conf"
for unit in session-.scope user@.service; do
  install -D -m 644 packaging/session.conf "$root/lib/systemd/system/$unit.d/50-pinfold.conf"
done
install -D -m 644 -t "$root/etc/pinfold" packaging/pinfold.toml
install -D -m 644 packaging/modulefile "$root/usr/share/modules/modulefiles/pinfold"
man=$root/usr/share/man
"$programs/pinfold" man "$man/man1"
"$programs/pinfoldd" --manual "$man/man8"
install -d "$man/man5"
mv "$man"/man1/*.5 "$man/man5"
mv "$man"/man1/*.8 "$man/man8"
ln -s pinfold-hub.1.gz "$man/man1/pinfold-hub-client.1.gz"
find "$man" -type f -exec gzip -9 -n {} +
complete() { install -d "$root/$(dirname "$2")" && "$programs/pinfold" completions "$1" >"$root/$2"; }
complete bash usr/share/bash-completion/completions/pinfold
complete zsh usr/share/zsh/vendor-completions/_pinfold
complete fish usr/share/fish/vendor_completions.d/pinfold.fish
documents=$root/usr/share/doc/pinfold
install -D -m 644 -t "$documents" README.md LICENSE-MIT LICENSE-APACHE docs/*.md
install -D -m 644 -t "$documents/reference" docs/reference/*.md
