#!/usr/bin/env bash
# Runs the test binaries of the crates that meet the kernel as user nobody: what holds without rights must be tested
# without them. To be called as root; arguments are passed to cargo.
set -euo pipefail
cd "$(dirname "$0")/.."

# Directories of pure crates: they see no rights, so the ordinary run says all about them.
pure=" topo place policy proto settings advise cluster whatif sim xtask "
# What a test program need not repeat here, by its name.
already_known() {
  case "$1" in
    # Root runs these under each kind of rights, nobody's among them, or under the best ones where that is the same.
    e2e-*) echo --skip ::groups:: --skip ::rootless:: --skip ::nobody:: --skip ::any:: ;;
    # What is drawn and written of rows that are there: no file, no process.
    pinfold_profile-*) printf -- '--skip %s:: ' csv export map metrics plot report ;;
    # What requests are answered, and a thousand kills: the same with all rights. Left are programs, files and sockets.
    hub-*) printf -- '--skip %s:: ' clocks drift grafana hostile http kills learned openapi plans proxied roles standby store tables wide ;;
  esac
}
as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)

target=${CARGO_TARGET_DIR:-$PWD/target}
mkdir -p "$target"
source=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# A checkout below a closed directory: build once more from a copy that anyone may read.
if ! "${as_nobody[@]}" test -r "$source/Cargo.toml" -a -x "$target"; then
  echo "$source is closed to others: using a copy in $work"
  mkdir "$work/source"
  git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- | tar --extract --directory="$work/source"
  source=$work/source target=$work/target
  chmod -R go+rX "$source"
  cd "$source"
fi
export CARGO_TARGET_DIR=$target

# A package's binaries are built along with its integration tests; all of them here, as a test may run another's.
cargo build --quiet --workspace --bins "$@"
# All packages at once, though the pure ones' tests are not run here: the ordinary run then finds all of them built.
cargo test --quiet --no-run --message-format=json --workspace "$@" >"$work/messages"
chmod -R go+rX "$target"

mkdir "$work/home"
chown 65534:65534 "$work/home"
status=0
# Integration tests have the plain binaries listed beside them; tests proper lie in deps/.
while read -r manifest binary; do
  case "$binary" in */deps/*) ;; *) continue ;; esac
  directory=$(dirname "$manifest")
  case "$pure" in *" $(basename "$directory") "*) continue ;; esac
  skipped=$(already_known "$(basename "$binary")")
  echo "-- as nobody: $(basename "$directory") $(basename "$binary") $skipped"
  (
    cd "$directory"
    unset XDG_RUNTIME_DIR PINFOLD_SOCKET
    # Where kept transcripts are: cargo cannot be asked by this user.
    INSTA_WORKSPACE_ROOT=$source CARGO_MANIFEST_DIR=$directory HOME=$work/home TMPDIR=$work/home USER=nobody LOGNAME=nobody \
      "${as_nobody[@]}" "$binary" --quiet $skipped
  ) || status=1
done < <(sed -n '/"test":true/s/.*"manifest_path":"\([^"]*\)".*"executable":"\([^"]*\)".*/\1 \2/p' "$work/messages")
exit "$status"
