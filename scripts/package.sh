#!/usr/bin/env bash
# Makes a Debian package of built programs: package.sh [--hub] PROGRAMS OUT [REVISION], the directory with the programs, the
# one that the package is written into, and what comes behind the version. With --hub that of pinfold-hub, else that of
# pinfold. Says the package's name. No rights are needed.
set -euo pipefail
name=pinfold
if [ "$1" = --hub ]; then name=pinfold-hub && shift; fi
programs=$(realpath "$1") out=$(realpath -m "$2") revision=${3-}
cd "$(dirname "$0")/.."
. scripts/debian.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
version=$("$programs/$name" --version | cut -d ' ' -f 2)$revision
architecture=$(dpkg --print-architecture)

# What of the hub's package is installed; that of pinfold is laid out for all kinds of package alike.
layout_hub() {
  install -D -m 755 -t "$root/usr/bin" "$programs/pinfold-hub"
  install -D -m 644 -t "$root/lib/systemd/system" packaging/hub/pinfold-hub.service
  install -D -m 644 packaging/hub/sysusers.conf "$root/usr/lib/sysusers.d/pinfold-hub.conf"
  install -D -m 644 -t "$root/etc/pinfold-hub" packaging/hub/pinfold-hub.toml
  # A password of PostgreSQL's may be put into it.
  install -D -m 640 packaging/hub/default "$root/etc/default/pinfold-hub"
  install -D -m 644 packaging/grafana/pinfold.json "$root/usr/share/pinfold-hub/grafana.json"
  install -D -m 644 packaging/prometheus/pinfold-alerts.yml "$root/usr/share/pinfold-hub/alerts.yml"
  "$programs/pinfold-hub" manual "$root/usr/share/man/man8"
  gzip -9 -n "$root"/usr/share/man/man8/*
  install -D -m 644 -t "$root/usr/share/doc/pinfold-hub" LICENSE-MIT LICENSE-APACHE docs/hub.md docs/hub-openapi.json
}

if [ $name = pinfold ]; then scripts/layout.sh "$programs" "$root"; else layout_hub; fi
debian_documents $name
stripped "$root"/usr/bin/*
overrides $name <"packaging/debian/$name/overrides"

install -d "$root/DEBIAN"
(cd "$root" && find etc -type f -printf '/%p\n' | sort) >"$root/DEBIAN/conffiles"
# The C library is linked; the newest that its symbols ask for.
libc=$(objdump -T "$root"/usr/bin/* 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | cut -d _ -f 2 | sort -V | tail -n 1 || true)
sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@LIBC@/${libc:-2.36}/; s/@HOOKS@/$hooks_since/g; s/@SIZE@/$(du -sk "$root" | cut -f 1)/" \
  "packaging/debian/$name/control" >"$root/DEBIAN/control"
units=(pinfoldd.service pinfold-push.service)
[ $name = pinfold ] || units=(pinfold-hub.service)
for script in preinst postinst prerm postrm; do
  [ -e "packaging/debian/$name/$script" ] || continue
  script $script "${units[@]}" <"packaging/debian/$name/$script"
done
mkdir -p "$out"
package=$out/${name}_${version}_$architecture.deb
# Tests make packages of programs that are not optimised: they are large, and nobody downloads them.
packed=()
[ -z "${PINFOLD_PACK_FAST:-}" ] || packed=(-Zgzip -z1)
dpkg-deb "${packed[@]}" --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
