//! The PUs of a thread, read from the kernel and set.
//!
//! Safe to call with any number: a vanished thread is a valid answer. Absent here: the choice of PUs.

use pinfold_topo::{CpuSet, PuOs};
use rustix::io::Errno;

/// The largest stock kernels number 8,192 PUs.
const WORDS: usize = 8192 / 64;

/// The PUs that a thread may run on (0: the calling thread); `None`: it has ended.
///
/// # Errors
/// When the kernel refuses to tell.
#[expect(unsafe_code, reason = "the set of rustix ends at 1,024 PUs")]
pub fn of(thread: u32) -> Result<Option<CpuSet>, Errno> {
    let Ok(thread) = i32::try_from(thread) else { return Ok(None) };
    let mut words = [0u64; WORDS];
    // SAFETY: the kernel writes at most the announced number of bytes at the pointer, which is the array's size.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, thread, size_of_val(&words), words.as_mut_ptr())
    };
    match checked(result) {
        Ok(_) => Ok(Some(from_words(&words))),
        Err(Errno::SRCH) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Binds a thread (0: the calling thread) to PUs; empty: to all PUs of its cpuset. `false`: the thread has ended.
///
/// # Errors
/// `INVAL` when the thread may use none of these PUs, `PERM` when it is another user's.
#[expect(unsafe_code, reason = "the set of rustix ends at 1,024 PUs")]
pub fn set(thread: u32, cpus: &CpuSet) -> Result<bool, Errno> {
    let Ok(thread) = i32::try_from(thread) else { return Ok(false) };
    let words = to_words(cpus);
    let length = std::mem::size_of_val(words.as_slice());
    // SAFETY: the kernel reads `length` bytes at the pointer, which is the size of the vector.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, thread, length, words.as_ptr()) };
    match checked(result) {
        Ok(_) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The kernel's mask: bit i of the whole is PU i, in words of the machine.
fn to_words(cpus: &CpuSet) -> Vec<u64> {
    // The kernel ignores bits above its highest PU.
    if cpus.is_empty() {
        return vec![u64::MAX; WORDS];
    }
    let mut words = Vec::new();
    for pu in cpus.iter() {
        let index = usize::try_from(pu.0 / 64).expect("a PU number has 32 bits");
        if words.len() <= index {
            words.resize(index + 1, 0);
        }
        words[index] |= 1u64 << (pu.0 % 64);
    }
    words
}

fn from_words(words: &[u64]) -> CpuSet {
    let bits = |(word, &bits): (u32, &u64)| {
        (0..64u32).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| PuOs(word * 64 + bit))
    };
    (0u32..).zip(words).flat_map(bits).collect()
}

/// The answer of a system call that has no binding of its own.
pub(crate) fn checked(result: libc::c_long) -> Result<i64, Errno> {
    if result == -1 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).expect("a failed system call sets errno"));
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn masks_are_words_of_bits() {
        assert_eq!(to_words(&cpus("0-1,63")), [0x8000_0000_0000_0003]);
        assert_eq!(to_words(&cpus("64")), [0, 1]);
        assert!(to_words(&cpus("")).iter().all(|word| *word == u64::MAX));
        assert_eq!(from_words(&to_words(&cpus("0,63-64,200"))), cpus("0,63-64,200"));
    }

    #[test]
    fn a_set_affinity_is_read_back() {
        let allowed = of(0).unwrap().unwrap();
        let one = CpuSet::single(allowed.first().unwrap());
        let read = std::thread::spawn(move || {
            assert!(set(0, &one).unwrap());
            (of(0).unwrap(), one)
        });
        let (read, one) = read.join().unwrap();
        assert_eq!(read, Some(one));
        assert_eq!(of(0).unwrap(), Some(allowed), "another thread's affinity is its own");
    }

    #[test]
    fn an_unused_number_has_no_affinity() {
        assert_eq!(of(u32::MAX), Ok(None));
        assert_eq!(of(i32::MAX.unsigned_abs()), Ok(None));
        assert_eq!(set(i32::MAX.unsigned_abs(), &CpuSet::new()), Ok(false));
    }
}
