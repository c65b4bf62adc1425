use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};

use pinfold_proto::wire;
use pinfold_sys::ancillary;

use super::*;
use crate::clients::cost::{self, COST_AT_ONCE};

fn frames(requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    requests.iter().for_each(|request| wire::encode(request, &mut bytes).unwrap());
    bytes
}

/// However much one says at once, so much of it is heard in a turn, none of it is lost, and its end comes last.
#[test]
fn a_user_is_heard_in_turns() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::listen(&path, 64).unwrap();
    let proc = Proc::open(Path::new("/proc")).unwrap();
    for request in [Request::Presented, Request::Map, Request::Doctor] {
        let at_once = COST_AT_ONCE.div_ceil(cost::of(&request, 8, Load::default()));
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(&frames(&vec![request; 2500])).unwrap();
        drop(client);
        let mut other = UnixStream::connect(&path).unwrap();
        other.write_all(&frames(&[Request::Presented])).unwrap();
        let [talker, same_user] = server.accept(&proc)[..] else { panic!("two connections") };
        let (mut counts, mut closed) = (Vec::new(), false);
        while !closed {
            server.begin_turn(Load::default());
            let heard = server.read(talker);
            closed = heard.closed;
            assert!(!(closed && heard.more), "its end comes after all it said");
            if heard.more {
                assert!(server.read(same_user).requests.is_empty(), "the user's turn is over");
            }
            counts.push(heard.requests.len());
        }
        assert_eq!(counts.iter().sum::<usize>(), 2500, "{counts:?}");
        assert!(counts.iter().all(|&count| count <= at_once as usize), "{counts:?}");
        server.begin_turn(Load::default());
        let first = server.read(same_user).requests.len();
        assert_eq!(first + server.read(same_user).requests.len(), 1, "the other connection's turn comes");
        server.close(talker);
        server.close(same_user);
        drop(other);
    }
}

/// A request that costs more than a turn is heard, and paid for by as many turns.
#[test]
fn a_user_in_debt_waits_for_as_many_turns() {
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::listen(&path, 64).unwrap();
    let jobs = (0..10_000).collect();
    let costly = Request::Wait { jobs };
    let mut client = UnixStream::connect(&path).unwrap();
    client.write_all(&frames(&[costly, Request::Presented])).unwrap();
    let [id] = server.accept(&proc)[..] else { panic!("a connection") };
    let mut turns = Vec::new();
    while turns.iter().sum::<usize>() < 2 {
        server.begin_turn(Load::default());
        turns.push(server.read(id).requests.len());
    }
    assert_eq!((turns[0], turns.len()), (1, 10), "{turns:?}");
}

/// What is tried again is paid for as what is asked for at first is: many users together have a few tries in a turn, each has
/// its own in the end, and root has its whatever others ask.
#[test]
fn what_is_tried_again_is_paid_for_by_its_user() {
    use pinfold_proto::JobSpec;
    use pinfold_proto::wire::Adoptee;
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::listen(&dir.path().join("s"), 256).unwrap();
    let clients: Vec<UnixStream> =
        (0..61).map(|_| UnixStream::connect(dir.path().join("s")).unwrap()).collect();
    let ids = server.accept(&proc);
    assert_eq!(ids.len(), clients.len());
    for (uid, id) in (4_300_000..).zip(&ids[1..]) {
        server.connections.get_mut(id).unwrap().peer.uid = uid;
    }
    server.connections.get_mut(&ids[0]).unwrap().peer.uid = 0;
    let adopt =
        Request::Adopt { which: Adoptee::Process(1), spec: Box::<JobSpec>::default(), in_place: false };
    let (mut tried, mut turns) = (BTreeSet::new(), 0);
    while tried.len() < 60 {
        turns += 1;
        assert!(turns < 10_000, "{} of them were never tried", 60 - tried.len());
        server.begin_turn(Load::default());
        // Those that were tried would be again, and come first.
        let now: Vec<ConnectionId> =
            ids[1..].iter().copied().filter(|&id| server.may_try_again(id, &adopt)).collect();
        assert!(now.len() <= 1, "{now:?} in one turn");
        tried.extend(now);
        assert!(server.may_try_again(ids[0], &adopt), "root's");
    }
    server.close(ids[5]);
    assert!(server.may_try_again(ids[5], &adopt), "it is found to be gone");
}

/// A client that does not read is not heard, whatever is sent, until half is read; others are. What a user's connections leave
/// unread between them is told.
#[test]
fn who_does_not_read_is_not_heard() {
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::listen(&path, 64).unwrap();
    let mut clients: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let ids = server.accept(&proc);
    let uid = peer::own_uid();
    let long = Reply::Where { state: "x".repeat(UNREAD_MAX), unwritten: 0 };
    for &id in &ids[..2] {
        server.send(id, &long);
        assert!(!server.flush(id));
    }
    clients[0].write_all(&frames(&[Request::Presented])).unwrap();
    server.begin_turn(Load::default());
    // Some of it is in the kernel's hands, which is less than half.
    server.send(ids[0], &long);
    assert!(server.read(ids[0]).requests.is_empty());
    assert_eq!(server.watch_changed(ids[0]), Some(Watch { input: false, output: true }));
    assert_eq!(server.leaves_unread(uid), None);
    for &id in &ids[2..] {
        server.send(id, &long);
    }
    let words = server.leaves_unread(uid).expect("too much is unread");
    assert!(words.contains("16MiB"), "{words}");
    assert!(!server.unblocked(ids[0]));
    clients[0].set_nonblocking(true).unwrap();
    let mut buffer = vec![0; 64 * 1024];
    while server.unsent_bytes(ids[0]) > 0 {
        let _ = clients[0].read(&mut buffer);
        server.flush(ids[0]);
    }
    assert!(server.unblocked(ids[0]) && !server.unblocked(ids[0]));
    assert_eq!(server.read(ids[0]).requests.len(), 1);
    ids.iter().for_each(|&id| server.close(id));
    assert_eq!((server.unread.all(), server.open.all(), server.unheard.all()), (0, 0, 0));
}

/// An answer that waits for the disk is held for its user as one that is not read, until it is sent or its client is gone.
#[test]
fn what_waits_for_the_disk_counts_as_unread() {
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::listen(&path, 64).unwrap();
    let clients = [(); 2].map(|()| UnixStream::connect(&path).unwrap());
    let [one, other] = server.accept(&proc)[..] else { panic!("two connections") };
    let uid = peer::own_uid();
    let bytes = usize::try_from(UNREAD_OF_USER_MAX).unwrap();
    server.hold_back(one, bytes);
    assert_eq!(server.leaves_unread(uid), None);
    server.hold_back(other, 1);
    assert!(server.leaves_unread(uid).is_some());
    assert!(!server.flush(other), "there is nothing to be sent yet");
    assert!(server.leaves_unread(uid).is_some());
    server.let_go(other, 1);
    assert_eq!((server.leaves_unread(uid), server.unread.all()), (None, UNREAD_OF_USER_MAX));
    server.close(one);
    // It is gone, and so is what waited.
    server.let_go(one, bytes);
    assert_eq!(server.unread.all(), 0);
    server.close(other);
    drop(clients);
}

/// The questions of one that went without waiting for the answers are not answered; what it told is heard.
#[test]
fn nobody_is_answered_who_is_gone() {
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::listen(&path, 64).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    let control = Request::Control { job: 1, verb: pinfold_proto::wire::Verb::Hold };
    let said = [Request::Where, control.clone(), Request::Map, Request::Presented, Request::Map];
    client.write_all(&frames(&said)).unwrap();
    // Closed it would be open still in what another test starts at this moment, until that executes its program.
    client.shutdown(std::net::Shutdown::Both).unwrap();
    let [id] = server.accept(&proc)[..] else { panic!("a connection") };
    server.send(id, &Reply::Done);
    server.flush(id);
    server.begin_turn(Load::default());
    assert_eq!(server.read(id).requests, [control, Request::Presented]);
}

/// Half frames of many connections are bounded together, and the words say so.
/// It leaves the last reply unread, so that it is not closed, and writes on.
#[test]
fn nothing_more_is_read_of_one_that_is_cut_off() {
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::listen(&path, 4).unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_nonblocking(true).unwrap();
    let [id] = server.accept(&proc)[..] else { panic!("a connection") };
    let message = "x".repeat(900 << 10);
    server.send(id, &Reply::Error { code: ErrorCode::Failed, message });
    assert!(!server.flush(id), "it is not read");
    client.write_all(&u32::MAX.to_le_bytes()).unwrap();
    let part = vec![b' '; 64 << 10];
    let mut sent = 0;
    for _ in 0..100 {
        sent += client.write(&part).unwrap_or(0);
        server.begin_turn(Load::default());
        server.read(id);
        assert!(!server.flush(id), "its last words are not read");
    }
    assert!(sent < 2 << 20, "{sent}");
    assert_eq!((server.unheard.all(), server.connections[&id].decoder.pending()), (0, 0));
    assert!(server.watch_changed(id).is_some_and(|watch| !watch.input && watch.output));
    drop(client);
    // Nobody is there to read them, once a child that another test has just forked executes its program.
    let since = std::time::Instant::now();
    while !server.flush(id) {
        assert!(since.elapsed().as_secs() < 120, "the connection is kept");
        std::thread::yield_now();
    }
}

#[test]
fn half_frames_are_bounded_together() {
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::listen(&path, 1024).unwrap();
    let half = vec![b' '; 128 * 1024];
    let mut cut_off = 0;
    let mut clients = Vec::new();
    for _ in 0..UNHEARD_OF_USER_MAX / (128 * 1024) + 8 {
        let mut client = UnixStream::connect(&path).unwrap();
        let [id] = server.accept(&proc)[..] else { panic!("a connection") };
        client.set_nonblocking(true).unwrap();
        client.write_all(&u32::try_from(REQUEST_MAX_BYTES).unwrap().to_le_bytes()).unwrap();
        let mut sent = 0;
        while sent < half.len() {
            sent += client.write(&half[sent..]).unwrap_or(0);
            server.begin_turn(Load::default());
            server.read(id);
            if server.flush(id) {
                cut_off += 1;
                break;
            }
        }
        clients.push(client);
    }
    assert!((1..=16).contains(&cut_off), "{cut_off}");
    assert!(server.unheard.all() <= UNHEARD_OF_USER_MAX + (64 << 10) * 64);
}

/// Who passes descriptors is told so and cut off, on a kernel that lets it. What it asked for with them is not heard.
#[test]
fn who_passes_open_files_is_cut_off() {
    let proc = Proc::open(Path::new("/proc")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut server = Server::listen(&path, 8).unwrap();
    server.place.listener.admit().unwrap();
    let mut client = UnixStream::connect(&path).unwrap();
    let [id] = server.accept(&proc)[..] else { panic!("a connection") };
    let mut buffer = [0; 1024];
    client.write_all(&frames(&[Request::Map])).unwrap();
    server.begin_turn(Load::default());
    assert_eq!(server.read(id).requests, [Request::Map], "what came before is heard");
    let (mut from, to) = io::pipe().unwrap();
    ancillary::send(&client, &frames(&[Request::Presented]), &[to.as_fd()]).unwrap();
    drop(to);
    server.begin_turn(Load::default());
    assert_eq!(server.read(id).requests, []);
    assert!(server.flush(id), "it is closed");
    server.close(id);
    let count = client.read(&mut buffer).unwrap();
    assert!(
        String::from_utf8_lossy(&buffer[..count]).contains("open files came along"),
        "{:?}",
        &buffer[..count]
    );
    assert_eq!(client.read(&mut buffer).unwrap_or(0), 0, "the end");
    assert_eq!((server.open.all(), from.read(&mut buffer).unwrap()), (0, 0), "and they are closed");
}

#[test]
fn a_socket_that_is_gone_is_made_anew_where_nobody_else_can_be() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let [own, other] = ["own", "other"].map(|name| dir.path().join(name));
    let (socket, meanwhile) = (own.join("p.sock"), other.join("p.sock"));
    let open = |mode| std::fs::set_permissions(&own, std::fs::Permissions::from_mode(mode)).unwrap();
    let mut server = Server::listen(&socket, 10).unwrap();
    assert!(server.is_in_place());
    let waits = UnixStream::connect(&socket).unwrap();
    std::fs::remove_file(&socket).unwrap();
    assert!(!server.is_in_place());
    open(0o777);
    assert!(!server.listens_anew(None, dir.path()), "others could put something else there");
    open(0o755);
    assert!(server.listens_anew(None, dir.path()) && server.is_in_place());
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o666);
    // Nothing is made, and no rights are given, where others could make links.
    open(0o777);
    std::fs::remove_file(&socket).unwrap();
    let mut below = Server::listen(&own.join("below/p.sock"), 10).unwrap();
    std::fs::remove_dir_all(own.join("below")).unwrap();
    assert!(!below.listens_anew(None, dir.path()) && !own.join("below").exists());
    open(0o755);
    assert!(below.listens_anew(None, dir.path()) && server.listens_anew(None, dir.path()));
    // Who connected to the one before is heard.
    assert_eq!(server.accept(&Proc::open(Path::new("/proc")).unwrap()).len(), 1);
    drop(waits);
    // While its directory cannot be made it is elsewhere, and then back.
    std::fs::remove_dir_all(&own).unwrap();
    std::fs::write(&own, "").unwrap();
    assert!(server.listens_anew(Some(&meanwhile), dir.path()) && !server.is_in_place());
    assert_eq!(server.socket(), meanwhile);
    assert!(!server.listens_anew(Some(&meanwhile), dir.path()), "it is there already");
    std::fs::remove_file(&own).unwrap();
    assert!(server.listens_anew(Some(&meanwhile), dir.path()) && server.is_in_place());
    assert!(!meanwhile.exists());
    // A dead daemon's socket is replaced, a living one's is not.
    std::fs::remove_file(&socket).unwrap();
    drop(UnixListener::bind(&socket).unwrap());
    // A child that another test has just forked has that one too, until it executes its program.
    while !server.listens_anew(None, dir.path()) {
        std::thread::yield_now();
    }
    assert!(server.is_in_place());
    std::fs::remove_file(&socket).unwrap();
    let living = UnixListener::bind(&socket).unwrap();
    assert!(!server.listens_anew(None, dir.path()) && !server.is_in_place());
    drop(living);
}
