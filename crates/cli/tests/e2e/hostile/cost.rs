//! What one request may cost the daemon: work and bytes are bounded by the request's size and the state that it meets.

use super::*;

each_kind!(names_that_stand_for_thousands, names_of_members_of_a_long_array);

/// A daemon may need so much more memory than before, whatever a user without rights says, in bytes: what buffers and the
/// store take, and far from what the requests here stand for.
const MORE_BYTES: u64 = 64 << 20;

/// The most memory that the daemon ever had, in bytes.
fn peak_bytes(host: &Host) -> u64 {
    let text = status_field(host.daemon_pid(), "VmHWM").expect("it lives");
    let kib: u64 = text.split_whitespace().next().expect("a size").parse().expect("a number");
    kib << 10
}

fn submit(ticket: u64, spec: JobSpec) -> Request {
    Request::Submit { ticket, spec: Box::new(spec), pid: None }
}

fn held() -> JobSpec {
    JobSpec { held: true, ..spec() }
}

/// An array of held jobs over this connection; gives its number.
fn array(wire: &mut Wire, members: u32) -> u64 {
    let mut first = None;
    for chunk in (0..members).collect::<Vec<_>>().chunks(200) {
        let place = |index| JobArray { array: None, index, at_most: None };
        let all = chunk.iter().map(|&index| submit(1, JobSpec { array: Some(place(index)), ..held() }));
        wire.send_all(&all.collect::<Vec<_>>());
        for _ in chunk {
            let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
            first = first.or(Some(job));
        }
    }
    first.expect("it has members")
}

/// A frame of 250 KiB that names 200 million members: it is refused for what it stands for, and nothing is made of that.
fn names_that_stand_for_thousands(kind: Kind) {
    let Some(host) = shared(kind, &[]) else { return };
    let before = peak_bytes(&host);
    let long: JobName = "1_[0-9999]".parse().expect("a name");
    // Every second index, so that the ranges cannot be put together, and one range many times.
    let apart = |count: u32| (0..count).map(|index| index * 2).collect();
    speak_as(&host, ATTACKER, |mut wire| {
        for names in [
            vec![long; 20_000],
            vec!["1_[0-9998:2]".parse().expect("a name"); 17_000],
            vec![JobName { job: 1, indexes: Some(apart(10_000)) }; 4],
            (0..40_000).map(JobName::from).collect(),
        ] {
            wire.send(&submit(1, JobSpec { after: names.clone(), ..held() }));
            match wire.hear() {
                Some(Reply::Refused { reason, .. }) => {
                    assert!(reason.contains("4096 is the most"), "{reason}")
                }
                other => panic!("a refusal, not {other:?}"),
            }
            wire.send(&Request::Members { names });
            let reply = wire.hear();
            assert!(matches!(reply, Some(Reply::Error { .. })), "{reply:?}");
        }
    });
    let more = peak_bytes(&host) - before;
    assert!(more < MORE_BYTES, "it took {more} bytes");
    serves(&host);
}

/// The same member is named thousands of times, and all members many times: each is looked at once, and waited for once.
fn names_of_members_of_a_long_array(kind: Kind) {
    let Some(host) = shared(kind, &[]) else { return };
    let before = peak_bytes(&host);
    let array = speak_as(&host, ATTACKER, |mut wire| {
        let array = array(&mut wire, 2_000);
        let name = |text: &str| format!("{array}{text}").parse::<JobName>().expect("a name");
        for names in [vec![name("_0"); 4096], vec![name(""); 4096], vec![name("_[0-1023]"); 4]] {
            wire.send(&submit(1, JobSpec { after: names, ..held() }));
            assert!(matches!(wire.hear(), Some(Reply::Queued { .. })));
        }
        wire.send(&submit(2, JobSpec { after: vec![name("_[0-1999]"), name("_2000")], ..held() }));
        match wire.hear() {
            Some(Reply::Refused { reason, .. }) => {
                assert!(reason.contains(&format!("{array}_2000: there is no such job")), "{reason}");
            }
            other => panic!("a refusal, not {other:?}"),
        }
        array
    });
    let more = peak_bytes(&host) - before;
    assert!(more < MORE_BYTES, "it took {more} bytes");
    assert!(array > 0);
    serves(&host);
}
