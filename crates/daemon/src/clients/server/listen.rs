//! The place of the socket: its directory, what lies there already, and the rights of users.

use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, bail};
use pinfold_sys::passed::Listener;
use pinfold_sys::peer;

/// Listens on `path`, where no other daemon does; what a dead one left is replaced.
pub(super) fn listen(path: &Path) -> anyhow::Result<Listener> {
    make_directory(path)?;
    if UnixStream::connect(path).is_ok() {
        bail!("another daemon listens on {}; name another by --socket", path.display());
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            std::fs::remove_file(path).with_context(|| format!("failed to replace {}", path.display()))?;
        }
        Ok(_) => bail!("{} is there and is not a socket", path.display()),
        Err(_) => {}
    }
    let listener = Listener::bind(path).with_context(|| format!("failed to listen on {}", path.display()))?;
    // Everybody may connect; what each may do depends on who the kernel says it is.
    let open = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666));
    open.with_context(|| format!("failed to open {} to users", path.display()))?;
    Ok(listener)
}

/// Makes the socket's directory: for root one that all may pass through, else one for the user alone.
fn make_directory(socket: &Path) -> anyhow::Result<()> {
    let Some(directory) = socket.parent().filter(|dir| !dir.as_os_str().is_empty()) else { return Ok(()) };
    if directory.is_dir() {
        return Ok(());
    }
    let mode = if peer::own_uid() == 0 { 0o755 } else { 0o700 };
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(directory);
    made.with_context(|| format!("failed to make {}", directory.display()))?;
    // The daemon's file mask took from it what others need to reach the socket.
    let opened = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode));
    opened.with_context(|| format!("failed to open {} to all users", directory.display()))
}
