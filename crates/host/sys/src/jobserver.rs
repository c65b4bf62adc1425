//! Tokens of GNU make's jobserver protocol: bytes in a FIFO, each the right to run one more command.
//!
//! Clients read a byte before they start a command and write it back after the command. They reach the FIFO by its path
//! (`fifo:PATH`, GNU make 4.4, ninja 1.13) or by two inherited descriptors (`R,W`, GNU make 4.2). Source: GNU make
//! manual, "POSIX Jobserver Interaction".
//!
//! Owner of state: the FIFO and its descriptors. Absent here: how many tokens there should be.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, mknodat, open};
use rustix::io::Errno;

use crate::procfs::Proc;

/// The byte of a token from this side; clients write back the bytes that they read.
const TOKEN: u8 = b'+';

/// A FIFO with tokens, seen from the side that serves them.
#[derive(Debug)]
pub struct Pool {
    /// Reads and writes, never waits. A file description of its own: clients may expect theirs to wait.
    own: OwnedFd,
    /// The descriptors that clients inherit: to read, and to write.
    theirs: Option<(OwnedFd, OwnedFd)>,
    /// Device and inode, by which it is found among a process's open files.
    file: (u64, u64),
}

impl Pool {
    /// Makes an empty FIFO at `path`, for this user alone. `inherited`: also two descriptors that children inherit.
    ///
    /// # Errors
    /// When something is at `path` already, or the file system has no FIFOs.
    pub fn make(path: &Path, inherited: bool) -> io::Result<Self> {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        // For both at once, so that no open waits for another side.
        let own = open(path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        let theirs = match inherited {
            true => {
                Some((open(path, OFlags::RDONLY, Mode::empty())?, open(path, OFlags::WRONLY, Mode::empty())?))
            }
            false => None,
        };
        let found = fstat(&own)?;
        Ok(Self { own, theirs, file: (found.st_dev, found.st_ino) })
    }

    /// The descriptors that children inherit, to read from and to write to.
    #[must_use]
    pub fn inherited(&self) -> Option<(RawFd, RawFd)> {
        self.theirs.as_ref().map(|(read, write)| (read.as_raw_fd(), write.as_raw_fd()))
    }

    /// Tokens that no client holds.
    ///
    /// # Errors
    /// When the kernel does not report the number.
    pub fn free(&self) -> io::Result<u32> {
        Ok(u32::try_from(rustix::io::ioctl_fionread(&self.own)?).unwrap_or(u32::MAX))
    }

    /// Adds tokens; gives how many there was room for.
    ///
    /// # Errors
    /// When the FIFO cannot be written.
    pub fn put(&self, count: u32) -> io::Result<u32> {
        let mut done = 0;
        while done < count {
            match rustix::io::write(&self.own, &[TOKEN]) {
                Ok(_) => done += 1,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(done)
    }

    /// Takes as many tokens away as no client holds, at most `count`; gives how many.
    ///
    /// # Errors
    /// When the FIFO cannot be read.
    pub fn take(&self, count: u32) -> io::Result<u32> {
        let mut done = 0;
        while done < count {
            match rustix::io::read(&self.own, &mut [0; 1]) {
                Ok(0) => break,
                Ok(_) => done += 1,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(done)
    }

    /// The most tokens that the clients among these processes can hold: a client holds one token for each of its
    /// commands but the first, or for each of its threads but the first. A client is a process that has the FIFO open.
    #[must_use]
    pub fn could_be_held(&self, proc: &Proc, pids: &[u32]) -> u32 {
        let mut children: BTreeMap<u32, u64> = BTreeMap::new();
        let mut clients = Vec::new();
        for &pid in pids {
            let Ok(Some(stat)) = proc.stat(pid) else { continue };
            *children.entry(stat.parent).or_default() += 1;
            if proc.has_open(pid, self.file) {
                clients.push((pid, stat.threads));
            }
        }
        let holds = |&(pid, threads): &(u32, u64)| {
            children.get(&pid).map_or(0, |children| children - 1) + threads.saturating_sub(1)
        };
        u32::try_from(clients.iter().map(holds).sum::<u64>()).unwrap_or(u32::MAX)
    }
}

/// Readable as soon as there is a token that no client holds.
impl AsFd for Pool {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn tokens_go_in_and_out_and_nothing_waits() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("tokens");
        let pool = Pool::make(&path, true).expect("a FIFO");
        assert_eq!(pool.take(3).expect("read"), 0);
        assert_eq!(pool.put(3).expect("written"), 3);
        assert_eq!(pool.free().expect("counted"), 3);
        let mut client = File::options().read(true).write(true).open(&path).expect("a client by the path");
        let mut token = [0; 1];
        client.read_exact(&mut token).expect("a token");
        assert_eq!(pool.take(9).expect("read"), 2);
        client.write_all(&token).expect("it comes back");
        assert_eq!(pool.free().expect("counted"), 1);
        assert!(pool.inherited().is_some_and(|(read, write)| read > 2 && write > 2 && read != write));
        // A FIFO holds only so many.
        let most = pool.put(1 << 20).expect("written");
        assert!(most > 0 && most < 1 << 20, "{most}");
        Pool::make(&path, false).expect_err("something is there already");
    }

    #[test]
    fn clients_hold_a_token_for_each_command_but_the_first() {
        let proc = Proc::open(Path::new("/proc")).expect("/proc");
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("tokens");
        let pool = Pool::make(&path, false).expect("a FIFO");
        let script = "exec 9<>\"$0\"; for i in 1 2 3; do sleep 1000 9>&- & own=\"$own $!\"; done
            echo ready; read end; kill $own";
        let mut client = Command::new("sh")
            .args(["-c", script])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut ready = [0; 6];
        client.stdout.take().expect("a pipe").read_exact(&mut ready).expect("it is ready");
        let children = proc.children(client.id()).expect("read").unwrap_or_default();
        assert_eq!(children.len(), 3);
        let pids: Vec<u32> = children.iter().copied().chain([client.id()]).collect();
        assert_eq!(pool.could_be_held(&proc, &pids), 2);
        assert_eq!(pool.could_be_held(&proc, &children), 0);
        client.stdin.take().expect("a pipe").write_all(b"end\n").expect("told to end");
        client.wait().expect("it ends");
        assert_eq!(pool.could_be_held(&proc, &pids), 0);
    }
}
