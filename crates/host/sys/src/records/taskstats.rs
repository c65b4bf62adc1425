//! Taskstats: the use of each thread, reported by the kernel at the thread's end (`include/uapi/linux/taskstats.h`).
//!
//! The record has grown at its end from version to version, so places in it are constant; but one version moved fields, and
//! was withdrawn. [`Taskstats::open`] therefore requests this process's own record and refuses a host with another layout.
//! Absent here: the jobs of processes.

use std::io;

use super::netlink::{
    ERROR, Heard, Netlink, Portion, attribute, attributes, messages, u16_at, u32_at, u64_at,
};
use super::{End, Figures};

/// Generic netlink's own family, which has the numbers of the others.
const CONTROL: u16 = 16;
/// `CTRL_CMD_GETFAMILY`.
const GET_FAMILY: u8 = 3;
/// `CTRL_ATTR_FAMILY_NAME`.
const FAMILY_NAME: u16 = 2;
/// `CTRL_ATTR_FAMILY_ID`.
const FAMILY_NUMBER: u16 = 1;
/// `TASKSTATS_CMD_GET`.
const GET: u8 = 1;
/// `TASKSTATS_CMD_ATTR_PID`.
const ASK_PID: u16 = 1;
/// `TASKSTATS_CMD_ATTR_REGISTER_CPUMASK`.
const REGISTER: u16 = 3;
/// `TASKSTATS_TYPE_STATS`.
const STATS: u16 = 3;
/// `TASKSTATS_TYPE_AGGR_PID`.
const OF_THREAD: u16 = 4;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// Generic netlink's head within a message.
const GENERIC_HEAD: usize = 4;
/// `AGROUP` of `linux/acct.h`: the last thread of its process.
const LAST_THREAD: u8 = 0x20;
/// The version that names the process of a thread.
const VERSION_MIN: u16 = 12;

/// Places in the record.
mod place {
    pub(super) const VERSION: usize = 0;
    pub(super) const EXIT_CODE: usize = 4;
    pub(super) const FLAGS: usize = 8;
    pub(super) const WAITED_NS: usize = 24;
    pub(super) const RUN_NS: usize = 72;
    pub(super) const NAME: usize = 80;
    pub(super) const THREAD: usize = 128;
    pub(super) const PARENT: usize = 132;
    pub(super) const LIVED_US: usize = 144;
    pub(super) const USER_US: usize = 152;
    pub(super) const SYSTEM_US: usize = 160;
    pub(super) const FAULTS_MINOR: usize = 168;
    pub(super) const FAULTS_MAJOR: usize = 176;
    pub(super) const RSS_PEAK_KIB: usize = 200;
    pub(super) const VIRTUAL_PEAK_KIB: usize = 208;
    pub(super) const READ_CALLS: usize = 232;
    pub(super) const WRITE_CALLS: usize = 240;
    pub(super) const READ_BYTES: usize = 248;
    pub(super) const WRITE_BYTES: usize = 256;
    pub(super) const CANCELLED_BYTES: usize = 264;
    pub(super) const VOLUNTARY: usize = 272;
    pub(super) const FORCED: usize = 280;
    pub(super) const PROCESS: usize = 368;
    pub(super) const PROCESS_LIVED_US: usize = 376;
}

/// An open socket, subscribed to every end.
#[derive(Debug)]
pub(super) struct Taskstats {
    netlink: Netlink,
    family: u16,
}

impl Taskstats {
    /// Opens it.
    pub(super) fn open() -> io::Result<Self> {
        let mut netlink = Netlink::open(rustix::net::netlink::GENERIC, 0)?;
        netlink.send(CONTROL, REQUEST, &request(GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0"))?;
        let family = answer(&mut netlink, |body| {
            attributes(body).find(|(kind, _)| *kind == FAMILY_NUMBER).and_then(|(_, value)| u16_at(value, 0))
        })?;
        let own = std::process::id();
        netlink.send(family, REQUEST, &request(GET, ASK_PID, &own.to_ne_bytes()))?;
        let laid_out = answer(&mut netlink, |body| {
            let record = record(body)?;
            let version = u16_at(record, place::VERSION)?;
            let fits = u32_at(record, place::THREAD) == Some(own)
                && u32_at(record, place::PROCESS) == Some(own)
                && version >= VERSION_MIN;
            Some(if fits { Ok(()) } else { Err(version) })
        })?;
        if let Err(version) = laid_out {
            return Err(io::Error::other(format!("version {version} is not laid out as expected")));
        }
        // Every possible processor; the kernel ignores numbers that this host does not have.
        let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let mut set = possible.trim().as_bytes().to_vec();
        set.push(0);
        netlink.send(family, REQUEST, &request(GET, REGISTER, &set))?;
        // The kernel sends nothing after a success, and an answer within the call after a failure.
        match netlink.hear()? {
            Heard::Bytes(bytes) => refusal(bytes)?,
            Heard::Lost | Heard::Nothing => {}
        }
        Ok(Self { netlink, family })
    }

    /// A `Taskstats` on a socket that receives every end already, in messages of this type.
    #[cfg(test)]
    pub(super) fn of(netlink: Netlink, family: u16) -> Self {
        Self { netlink, family }
    }

    /// Takes waiting records, up to `most` messages.
    pub(super) fn take(&mut self, most: usize, ends: &mut Vec<End>) -> Portion {
        let family = self.family;
        self.netlink.hear_up_to(most, |bytes| {
            let own = messages(bytes).filter(|(kind, _)| *kind == family);
            let records = own.filter_map(|(_, body)| record(body.get(GENERIC_HEAD..)?));
            ends.extend(records.filter_map(end));
        })
    }
}

/// A request of generic netlink's with a single attribute.
fn request(command: u8, kind: u16, value: &[u8]) -> Vec<u8> {
    let mut body = vec![command, 1, 0, 0];
    body.extend(attribute(kind, value));
    body
}

/// The answer to a request. The kernel gives it before the sending returns.
fn answer<T>(netlink: &mut Netlink, read: impl Fn(&[u8]) -> Option<T>) -> io::Result<T> {
    let Heard::Bytes(bytes) = netlink.hear()? else {
        return Err(io::Error::other("no answer from the kernel"));
    };
    refusal(bytes)?;
    let found = messages(bytes).find_map(|(_, body)| read(body.get(GENERIC_HEAD..)?));
    found.ok_or_else(|| io::Error::other("an answer from the kernel that is not understood"))
}

fn refusal(bytes: &[u8]) -> io::Result<()> {
    for (kind, body) in messages(bytes) {
        let code = u32_at(body, 0).unwrap_or(0).cast_signed();
        if kind == ERROR && code != 0 {
            return Err(io::Error::from_raw_os_error(code.saturating_neg()));
        }
    }
    Ok(())
}

/// The record of a thread within a message's attributes. Records of whole processes are left out: they lack most figures.
fn record(body: &[u8]) -> Option<&[u8]> {
    let (_, inner) = attributes(body).find(|(kind, _)| *kind == OF_THREAD)?;
    attributes(inner).find(|(kind, _)| *kind == STATS).map(|(_, record)| record)
}

/// The running time of a thread. The scheduler's count ends at its last look: when the thread gave the processor up, or at
/// a tick, some milliseconds apart. A thread that never gave it up ran whenever it did not wait for it, which is known to
/// the microsecond; most processes that live for less than a tick never do.
pub(super) fn ran_us(counted_us: u64, lived_us: u64, waited_us: u64, given_up: u64) -> u64 {
    if given_up == 0 { counted_us.max(lived_us.saturating_sub(waited_us)) } else { counted_us }
}

fn end(record: &[u8]) -> Option<End> {
    let number = |at: usize| u64_at(record, at);
    let (exit_code, signal) = ending(u32_at(record, place::EXIT_CODE)?);
    let name = record.get(place::NAME..place::NAME + 32)?.split(|byte| *byte == 0).next()?;
    // The scheduler's time is exact; the other two are counted in ticks and only divide it.
    let (user, system) = (number(place::USER_US)?, number(place::SYSTEM_US)?);
    let run_us = ran_us(
        number(place::RUN_NS)? / 1000,
        number(place::LIVED_US)?,
        number(place::WAITED_NS)? / 1000,
        number(place::VOLUNTARY)?,
    );
    let system_us = match user.checked_add(system) {
        Some(ticks) if ticks > 0 => {
            u64::try_from(u128::from(run_us) * u128::from(system) / u128::from(ticks)).unwrap_or(run_us)
        }
        _ => 0,
    };
    Some(End {
        process: u32_at(record, place::PROCESS)?,
        thread: u32_at(record, place::THREAD)?,
        parent: u32_at(record, place::PARENT)?,
        is_last: record.get(place::FLAGS)? & LAST_THREAD != 0,
        exit_code,
        signal,
        figures: Some(Figures {
            name: String::from_utf8_lossy(name).into_owned(),
            lived_us: number(place::LIVED_US)?,
            process_lived_us: number(place::PROCESS_LIVED_US)?,
            cpu_user_us: run_us.saturating_sub(system_us),
            cpu_system_us: system_us,
            waited_us: number(place::WAITED_NS)? / 1000,
            rss_peak_bytes: number(place::RSS_PEAK_KIB)?.saturating_mul(1024),
            virtual_peak_bytes: number(place::VIRTUAL_PEAK_KIB)?.saturating_mul(1024),
            io_read_bytes: number(place::READ_BYTES)?,
            io_write_bytes: number(place::WRITE_BYTES)?.saturating_sub(number(place::CANCELLED_BYTES)?),
            io_read_calls: number(place::READ_CALLS)?,
            io_write_calls: number(place::WRITE_CALLS)?,
            faults_minor: number(place::FAULTS_MINOR)?,
            faults_major: number(place::FAULTS_MAJOR)?,
            switches_voluntary: number(place::VOLUNTARY)?,
            switches_forced: number(place::FORCED)?,
        }),
    })
}

/// Exit code and signal of a status as `wait` has it.
pub(super) fn ending(status: u32) -> (Option<i32>, Option<i32>) {
    let signal = (status & 0x7F).cast_signed();
    if signal == 0 { (Some(((status >> 8) & 0xFF).cast_signed()), None) } else { (None, Some(signal)) }
}
