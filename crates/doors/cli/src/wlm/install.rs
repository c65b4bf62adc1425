//! `pinfold wlm install` and `uninstall`: hooks are written into a directory of pinfold's own; a manager's own files
//! are changed only with `--apply`, which keeps a copy, and `uninstall` takes out the added lines, byte for byte.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use pinfold_proto::ExitCode;
use pinfold_wlm::detect::{Surroundings as _, conf_of};
use pinfold_wlm::hooks::built;
use pinfold_wlm::references::references;
use pinfold_wlm::settings::{Setting, Where, settings};
use pinfold_wlm::{Hook, Manager, Place, block, hooks};

use super::detect::Here;
use crate::output;
use crate::print::{print_text, say};
use pinfold_client::{Dial, Failure};

/// The default directory of hooks.
const HOOKS: &str = "/usr/lib/pinfold/wlm";
/// The paths in hooks for another system's root: the packages' program and the service's socket.
const PROGRAM: &str = "/usr/bin/pinfold";
const SERVICE: &str = "/run/pinfold/pinfold.sock";
/// The ending of a copy's name.
const COPY: &str = "before-pinfold";

#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// slurm, gridengine, htcondor, pbs or generic
    #[arg(value_name = "MANAGER", value_parser = super::manager)]
    manager: Manager,
    /// Write the hooks into this directory [default: /usr/lib/pinfold/wlm/MANAGER]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// For packages: write below this directory, as the root of a system with the program and the service of a package
    #[arg(long, value_name = "DIR", conflicts_with_all = ["to", "apply"])]
    root: Option<PathBuf>,
    /// Say what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Also add the lines to the manager's own files; a copy is kept beside each
    #[arg(long, conflicts_with = "dry_run")]
    apply: bool,
    /// Jobs wait for a daemon that is away, instead of running unmanaged
    #[arg(long)]
    wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// slurm, gridengine, htcondor, pbs or generic
    #[arg(value_name = "MANAGER", value_parser = super::manager)]
    manager: Manager,
    /// The directory that the hooks were written into [default: /usr/lib/pinfold/wlm/MANAGER]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Remove the hooks also where the manager cannot tell whether it still names them
    #[arg(long)]
    force: bool,
}

fn directory(to: Option<&Path>, manager: Manager) -> PathBuf {
    let dir = to.map_or_else(|| Path::new(HOOKS).join(manager.word()), Path::to_owned);
    std::path::absolute(&dir).unwrap_or(dir)
}

/// The words that a hook can carry.
fn text_of(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    let bad = || Failure::new(ExitCode::Usage, format!("{}: no hook can name such a path", path.display()));
    text.map(str::to_owned).ok_or_else(bad)
}

/// The directory of the hooks, and the paths that they name.
fn place(dial: &Dial, args: &InstallArgs) -> Result<(PathBuf, Place), Failure> {
    let dir = directory(args.to.as_deref(), args.manager);
    let named = |pinfold: String, socket: String| -> Result<Place, Failure> {
        Ok(Place { dir: text_of(&dir)?, pinfold, socket: Some(socket), waits_for_daemon: args.wait })
    };
    if let Some(root) = &args.root {
        let place = named(PROGRAM.to_owned(), SERVICE.to_owned())?;
        return Ok((root.join(dir.strip_prefix("/").unwrap_or(&dir)), place));
    }
    let own = std::env::current_exe().map_err(|error| Failure::doing("the path of pinfold", &error))?;
    let place = named(text_of(&own)?, text_of(dial.socket())?)?;
    Ok((dir, place))
}

/// `pinfold wlm install`.
pub(super) fn install(dial: &Dial, args: &InstallArgs) -> Result<(), Failure> {
    let (dir, place) = place(dial, args)?;
    if args.root.is_none() && !args.dry_run {
        not_packaged(&format!("{HOOKS}/{}", args.manager.word()))?;
    }
    if args.manager == Manager::Slurm && place.dir.contains(char::is_whitespace) {
        let text = format!("--to {}: Slurm takes no path with blanks in plugstack.conf", dir.display());
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let all = hooks(args.manager, &place);
    let lines = settings(args.manager, &place, &conf_of(args.manager, &Here));
    if args.dry_run {
        for hook in &all {
            say(&format!("would write {}", dir.join(hook.name).display()));
        }
        return show(&lines);
    }
    std::fs::create_dir_all(&dir).map_err(|error| writing(&dir, &error))?;
    for hook in &all {
        write_hook(&dir, hook)?;
        say(&format!("wrote {}", dir.join(hook.name).display()));
    }
    if let Some((source, library)) = built(args.manager) {
        build(&dir, source, library)?;
    }
    if args.apply {
        return apply(&lines);
    }
    show(&lines)
}

fn writing(path: &Path, error: &std::io::Error) -> Failure {
    Failure::doing(format!("failed to write {}", path.display()), error)
}

/// Writes a file whole or not at all, for a manager may be executing the old file.
fn write_hook(dir: &Path, hook: &Hook) -> Result<(), Failure> {
    let mode = if hook.executable { 0o755 } else { 0o644 };
    replace(&dir.join(hook.name), hook.text.as_bytes(), mode)
}

fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Failure> {
    output::replace(path, bytes, Some(mode)).map_err(|error| writing(path, &error))
}

/// Builds a plugin from its source, against the headers that are here.
fn build(dir: &Path, source: &str, library: &str) -> Result<(), Failure> {
    let (from, fresh) = (dir.join(source), dir.join(format!(".{library}")));
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(["-O2", "-Wall", "-shared", "-fPIC", "-o"]).arg(&fresh).arg(&from);
    let way_out = format!(
        "it is built by `cc -O2 -Wall -shared -fPIC -o {library} {source}` and needs a C compiler and the headers of this \
         Slurm (Debian: gcc, libslurm-dev)"
    );
    let output = command.output().map_err(|error| {
        Failure::new(ExitCode::Failed, format!("{} was not built: cc: {error}; {way_out}", from.display()))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).lines().take(4).collect::<Vec<_>>().join("\n");
        let text = format!("{} was not built: {said}\n{way_out}", from.display());
        return Err(Failure::new(ExitCode::Failed, text));
    }
    let built = dir.join(library);
    std::fs::rename(&fresh, &built).map_err(|error| writing(&built, &error))?;
    say(&format!("built {}", built.display()));
    Ok(())
}

/// Prints the lines to add.
fn show(lines: &[Setting]) -> Result<(), Failure> {
    print_text(|out| {
        for one in lines {
            let optional = if one.optional { " (optional)" } else { "" };
            writeln!(out, "# {}{optional}", one.why)?;
            match &one.to {
                Where::File(path) => writeln!(out, "# in {path}:")?,
                Where::Commands => writeln!(out, "# as the manager's administrator:")?,
            }
            writeln!(out, "{}", one.lines)?;
        }
        Ok(())
    })
}

/// Adds the lines to files; commands of a manager's own are its administrator's to type.
fn apply(lines: &[Setting]) -> Result<(), Failure> {
    let (files, others): (Vec<_>, Vec<_>) =
        lines.iter().cloned().partition(|one| matches!(one.to, Where::File(_)) && !one.optional);
    for one in &files {
        if let Where::File(path) = &one.to {
            add(Path::new(path), &one.lines)?;
        }
    }
    show(&others)
}

/// The file's text; `None`: there is no file.
fn text_in(path: &Path) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::doing(format!("failed to read {}", path.display()), &error)),
    }
}

fn copy_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{COPY}"));
    PathBuf::from(name)
}

fn add(path: &Path, lines: &str) -> Result<(), Failure> {
    let before = text_in(path)?;
    let after = block::add(before.as_deref().unwrap_or_default(), lines);
    if before.as_deref() == Some(after.as_str()) {
        say(&format!("{} has the lines already", path.display()));
        return Ok(());
    }
    let mode = mode_of(path);
    if let Some(before) = before.as_ref().filter(|text| !block::is_there(text)) {
        keep_copy(&copy_of(path), before, mode)?;
    }
    replace(path, after.as_bytes(), mode)?;
    say(&format!("added lines to {}", path.display()));
    Ok(())
}

/// Keeps the text as it was; an earlier copy is kept instead only if the lines were there all the while.
fn keep_copy(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(mode);
    pinfold_sys::files::without_links(&mut options);
    let mut file = options.open(path).map_err(|error| writing(path, &error))?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| writing(path, &error))?;
    say(&format!("kept {}", path.display()));
    Ok(())
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).map_or(0o644, |found| found.permissions().mode() & 0o7777)
}

/// Refuses to change hooks that belong to a package.
fn not_packaged(dir: &str) -> Result<(), Failure> {
    let owner = Here.answer(&["dpkg", "-S", dir]);
    let Some((package, _)) = owner.as_deref().and_then(|said| said.split_once(": ")) else { return Ok(()) };
    let text = format!("{dir} belongs to the package {package}: apt-get remove {package} first");
    Err(Failure::new(ExitCode::Usage, text))
}

/// Refuses to remove hooks that the manager still names.
fn not_named(args: &UninstallArgs, dir: &str) -> Result<(), Failure> {
    let manager = args.manager;
    let why = match references(manager, dir, &Here) {
        Some(lines) if lines.is_empty() => return Ok(()),
        None if args.force => return Ok(()),
        Some(lines) => {
            format!("still names files in {dir}. As its administrator, first:\n{}", lines.join("\n"))
        }
        None => format!(
            "does not say whether it still names files in {dir}: set its variables (SLURM_CONF, SGE_ROOT, \
             CONDOR_CONFIG), look for yourself and say --force, or run this where its administrator does"
        ),
    };
    Err(Failure::new(ExitCode::Failed, format!("nothing is removed: {manager} {why}")))
}

/// `pinfold wlm uninstall`.
pub(super) fn uninstall(args: &UninstallArgs) -> Result<(), Failure> {
    let dir = directory(args.to.as_deref(), args.manager);
    let place = Place { dir: text_of(&dir)?, pinfold: String::new(), socket: None, waits_for_daemon: false };
    if !args.dry_run {
        not_packaged(&place.dir)?;
    }
    if dir.exists() {
        not_named(args, &place.dir)?;
    }
    let lines = settings(args.manager, &place, &conf_of(args.manager, &Here));
    for one in &lines {
        if let Where::File(path) = &one.to {
            take_out(Path::new(path), args.dry_run)?;
        }
    }
    // The lines first: a manager must not look for hooks that are gone.
    let own = hooks(args.manager, &place).into_iter().map(|hook| hook.name);
    let library = built(args.manager).map(|(_, library)| library);
    for name in own.chain(library) {
        let path = dir.join(name);
        match args.dry_run {
            true if path.exists() => say(&format!("would remove {}", path.display())),
            true => {}
            false => remove(&path)?,
        }
    }
    if !args.dry_run {
        // The directory may hold other files.
        let _ = std::fs::remove_dir(&dir);
    }
    Ok(())
}

fn remove(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Ok(()) => {
            say(&format!("removed {}", path.display()));
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::doing(format!("failed to remove {}", path.display()), &error)),
    }
}

fn take_out(path: &Path, dry_run: bool) -> Result<(), Failure> {
    let Some(text) = text_in(path)?.filter(|text| block::is_there(text)) else { return Ok(()) };
    if dry_run {
        say(&format!("would take pinfold's lines out of {}", path.display()));
        return Ok(());
    }
    let left = block::remove(&text);
    let copy = copy_of(path);
    if left.is_empty() && text_in(&copy)?.is_none() {
        // The file did not exist before.
        return remove(path);
    }
    replace(path, left.as_bytes(), mode_of(path))?;
    say(&format!("took pinfold's lines out of {}", path.display()));
    if text_in(&copy)?.as_deref() == Some(left.as_str()) {
        return remove(&copy);
    }
    say(&format!("{} stays: the file was changed by others since", copy.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_to_a_file_can_be_taken_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plugstack.conf");
        let copy = copy_of(&path);
        for before in ["", "a line\n", "no end"] {
            std::fs::write(&path, before).unwrap();
            add(&path, "optional x.so\n").unwrap();
            add(&path, "optional x.so\n").unwrap();
            assert_eq!(std::fs::read_to_string(&copy).unwrap(), before);
            assert!(std::fs::read_to_string(&path).unwrap().contains("optional x.so\n"));
            take_out(&path, true).unwrap();
            take_out(&path, false).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
            assert!(!copy.exists(), "{before:?}");
        }
        std::fs::remove_file(&path).unwrap();
        add(&path, "optional x.so\n").unwrap();
        take_out(&path, false).unwrap();
        assert!(!path.exists(), "there was none");
    }

    #[test]
    fn what_others_changed_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plugstack.conf");
        std::fs::write(&path, "one\n").unwrap();
        add(&path, "optional x.so\n").unwrap();
        let changed = std::fs::read_to_string(&path).unwrap() + "two\n";
        std::fs::write(&path, changed).unwrap();
        take_out(&path, false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(copy_of(&path)).unwrap(), "one\n");
    }
}
