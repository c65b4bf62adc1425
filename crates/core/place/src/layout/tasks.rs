//! The CPUs and the ranks of each host of an allocation.

use super::distribution::OverHosts;
use super::wants::Wants;

/// The CPUs of each host, at most `room`, when tasks are dealt out to hosts in turn.
pub(super) fn cpus_per_host(wants: &Wants, room: &[usize]) -> Vec<usize> {
    let mut cpus = vec![0; room.len()];
    let needed = wants.ntasks * wants.cpus_per_task;
    // Every chosen host gives at least a CPU.
    let mut tasks = if wants.overcommit { wants.cpus().min(needed).max(room.len()) } else { wants.ntasks };
    let per_task = wants.unit();
    while tasks > 0 {
        let before = tasks;
        for (cpus, &room) in cpus.iter_mut().zip(room) {
            if tasks > 0 && *cpus < room {
                *cpus = (*cpus + per_task).min(room);
                tasks -= 1;
            }
        }
        if before == tasks {
            break;
        }
    }
    cpus
}

/// The ranks of each host, in order. `room` is the number of tasks that each host has CPUs for; tasks beyond
/// the sum are dealt out in turn.
pub(super) fn ranks_per_host(wants: &Wants, room: &[usize], pack_by_default: bool) -> Vec<Vec<usize>> {
    let hosts = room.len();
    if let Some(OverHosts::Plane(size)) = wants.distribution.hosts {
        return planes(wants.ntasks, size, room);
    }
    let pack = wants.distribution.pack.unwrap_or(pack_by_default);
    let cyclic = wants.distribution.hosts == Some(OverHosts::Cyclic);
    let counts = if pack && !cyclic { packed(wants.ntasks, room) } else { in_turn(wants.ntasks, room) };
    let mut ranks = vec![Vec::new(); hosts];
    if cyclic {
        let mut host = 0;
        for rank in 0..wants.ntasks {
            while ranks[host].len() >= counts[host] {
                host = (host + 1) % hosts;
            }
            ranks[host].push(rank);
            host = (host + 1) % hosts;
        }
    } else {
        let mut next = 0;
        for (ranks, &count) in ranks.iter_mut().zip(&counts) {
            *ranks = (next..next + count).collect();
            next += count;
        }
    }
    ranks
}

/// The ranks that a list puts on `host`.
pub(super) fn ranks_on(hosts: &[usize], host: usize) -> Vec<usize> {
    (0..hosts.len()).filter(|&rank| hosts[rank] == host).collect()
}

fn in_turn(ntasks: usize, room: &[usize]) -> Vec<usize> {
    let mut counts = vec![0; room.len()];
    let mut left = ntasks;
    let mut beyond = false;
    while left > 0 {
        let mut space = false;
        for (count, &room) in counts.iter_mut().zip(room) {
            if left > 0 && (*count < room || beyond) {
                *count += 1;
                left -= 1;
                space |= *count < room;
            }
        }
        beyond = !space;
    }
    counts
}

fn packed(ntasks: usize, room: &[usize]) -> Vec<usize> {
    let mut counts = vec![0; room.len()];
    let mut left = ntasks;
    for (count, &room) in counts.iter_mut().zip(room) {
        if left > 0 && room > 0 {
            *count = 1;
            left -= 1;
        }
    }
    for (count, &room) in counts.iter_mut().zip(room) {
        let more = room.saturating_sub(*count).min(left);
        *count += more;
        left -= more;
    }
    while left > 0 {
        for count in &mut counts {
            if left > 0 {
                *count += 1;
                left -= 1;
            }
        }
    }
    counts
}

fn planes(ntasks: usize, size: usize, room: &[usize]) -> Vec<Vec<usize>> {
    let mut ranks: Vec<Vec<usize>> = vec![Vec::new(); room.len()];
    let hosts = room.len();
    let mut next = 0;
    let mut beyond = false;
    while next < ntasks {
        let before = next;
        for (host, (ranks, &room)) in ranks.iter_mut().zip(room).enumerate() {
            let fits = if beyond { usize::MAX } else { room.saturating_sub(ranks.len()) };
            // In the first round each later host must get a task.
            let others = if before == 0 { hosts - host - 1 } else { 0 };
            let count = size.min((ntasks - next).saturating_sub(others)).min(fits);
            ranks.extend(next..next + count);
            next += count;
        }
        beyond = before == next;
    }
    ranks
}
