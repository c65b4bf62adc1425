# What package.sh and package-wlm.sh do alike for a package whose files lie below `root`, of the version `version`: to be sourced.

# The version from which on `pinfold` understands what hooks say to it (`pinfold wlm`), and hooks what it answers. Whoever
# changes either in a way that the other does not understand sets this to the version with the change.
hooks_since=0.1.0

# script NAME UNIT...: a maintainer script from standard input; the line #UNITS# stands for the snippet of each unit.
script() {
  local name=$1 line unit
  shift
  while IFS= read -r line; do
    if [ "$line" = '#UNITS#' ]; then
      for unit in "$@"; do sed "s/@UNIT@/$unit/g" "packaging/debian/units/$name"; done
    else
      printf '%s\n' "$line"
    fi
  done >"$root/DEBIAN/$name"
  chmod 755 "$root/DEBIAN/$name"
}

# debian_documents PACKAGE: copyright and changelogs.
debian_documents() {
  local documents=$root/usr/share/doc/$1
  install -d "$documents"
  cat LICENSE-MIT >"$documents/copyright"
  gzip -9 -n -c CHANGELOG.md >"$documents/CHANGELOG.md.gz"
  printf '%s (%s) unstable; urgency=medium\n\n  * CHANGELOG.md.gz says what changed.\n\n -- %s  %s\n' "$1" "$version" \
    'The pinfold maintainers <maintainers@pinfold.invalid>' "$(LC_ALL=C date -u -R -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}")" |
    gzip -9 -n >"$documents/changelog.gz"
}

# stripped FILE...
stripped() {
  strip --strip-unneeded --remove-section=.comment --remove-section=.note "$@" 2>/dev/null ||
    echo "programs keep their symbols: strip is not here" >&2
}

# overrides PACKAGE: findings of lintian that are meant so, from standard input, each below its reason.
overrides() {
  install -d "$root/usr/share/lintian/overrides"
  cat >"$root/usr/share/lintian/overrides/$1"
}
