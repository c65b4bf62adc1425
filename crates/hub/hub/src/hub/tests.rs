use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::server::takers::Taker;
use crate::server::turns::{ASKED_AT_ONCE, OF_A_VIEWER_AT_ONCE};

fn hub() -> (tempfile::TempDir, Arc<Hub>, tokio::runtime::Runtime) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_file(&dir.path().join("hub.db"), None).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    (dir, Arc::new(Hub::new(store, "http://hub.example", Trust::default())), runtime.unwrap())
}

/// Work that signals its start, and then runs until it is ended.
fn work() -> (impl FnOnce() -> u8 + Send + 'static, Receiver<()>, Sender<()>) {
    let ((begun, has_begun), (end, ends)) = (channel(), channel::<()>());
    let work = move || {
        begun.send(()).unwrap();
        let _ = ends.recv();
        7
    };
    (work, has_begun, end)
}

#[test]
fn work_counts_until_it_is_over_although_its_client_hung_up() {
    let (_dir, hub, runtime) = hub();
    let (work, has_begun, end) = work();
    let of_task = Arc::clone(&hub);
    let asks = runtime.spawn(async move { of_task.ask(move |_| work()).await });
    has_begun.recv().unwrap();
    asks.abort();
    assert!(runtime.block_on(asks).unwrap_err().is_cancelled());
    assert_eq!(hub.asked.left(), ASKED_AT_ONCE - 1);
    end.send(()).unwrap();
    // All turns are free in the end.
    let turns = (0..ASKED_AT_ONCE).map(|_| runtime.block_on(hub.asked.turn(None)));
    assert!(turns.collect::<Result<Vec<_>, _>>().is_ok());
}

#[test]
fn tokens_are_looked_up_although_all_turns_are_taken() {
    let (_dir, hub, runtime) = hub();
    let all: Vec<_> = (0..ASKED_AT_ONCE).map(|_| runtime.block_on(hub.asked.turn(None))).collect();
    assert!(all.iter().all(Result::is_ok) && hub.asked.left() == 0);
    assert_eq!(runtime.block_on(hub.look_up(|_| 7)).unwrap(), 7);
}

#[test]
fn a_viewer_s_questions_wait_for_that_viewer_s_own() {
    let (_dir, hub, runtime) = hub();
    let ask = |name: &str, work: Box<dyn FnOnce() -> u8 + Send>| {
        let (hub, taker) = (Arc::clone(&hub), Taker { viewer: name.to_owned(), ..Taker::default() });
        let asks = async move {
            takers::is(taker);
            hub.ask(move |_| work()).await
        };
        runtime.spawn(async move { takers::during(true, asks).await.0 })
    };
    let works = (0..OF_A_VIEWER_AT_ONCE).map(|_| work()).map(|(work, begun, end)| {
        let asks = ask("ann", Box::new(work));
        begun.recv().unwrap();
        (asks, end)
    });
    let works: Vec<_> = works.collect();
    let further: Vec<_> = (0..2 * ASKED_AT_ONCE).map(|_| ask("ann", Box::new(|| 8))).collect();
    assert_eq!(runtime.block_on(ask("bea", Box::new(|| 9))).unwrap().unwrap(), 9);
    assert!(further.iter().all(|asks| !asks.is_finished()));
    for (asks, end) in works {
        end.send(()).unwrap();
        assert_eq!(runtime.block_on(asks).unwrap().unwrap(), 7);
    }
    for asks in further {
        assert_eq!(runtime.block_on(asks).unwrap().unwrap(), 8);
    }
}

#[test]
fn a_viewer_that_reads_nothing_is_refused_before_the_question() {
    let (_dir, hub, runtime) = hub();
    let taker = Taker { viewer: "reader ops".into(), host: None, sees_all: true };
    let unread = answers::share(&hub.answers, &taker, answers::OF_A_VIEWER_MAX_BYTES - 1_000).unwrap();
    let ask = |reads: bool| {
        let asks = async {
            takers::is(taker.clone());
            hub.ask(|_| 7).await
        };
        runtime.block_on(takers::during(reads, asks)).0
    };
    assert!(matches!(ask(true), Err(StoreError::TooMany(_))));
    assert_eq!(ask(false).unwrap(), 7, "what changes something has a short answer");
    drop(unread);
    assert_eq!(ask(true).unwrap(), 7);
}

#[test]
fn what_a_host_sent_counts_until_it_is_written_although_the_host_hung_up() {
    let (_dir, hub, runtime) = hub();
    let (read, is_read, end_of_read) = work();
    let of_task = Arc::clone(&hub);
    let sends = runtime.spawn(async move {
        let room = of_task.arrivals.room_for("alpha", 1).await?;
        of_task.take(room, move |_| Ok::<_, StoreError>(read()), |_, seven| Ok::<_, StoreError>(seven)).await
    });
    is_read.recv().unwrap();
    sends.abort();
    let _ = runtime.block_on(sends);
    let left = (hub.unpacked.available_permits(), hub.held.available_permits());
    assert_eq!(left, (UNPACKED_AT_ONCE - 1, HELD_AT_ONCE - 1));
    end_of_read.send(()).unwrap();
    let all = u32::try_from(HELD_AT_ONCE).unwrap();
    assert!(runtime.block_on(hub.held.acquire_many(all)).is_ok());
    let (write, is_written, end_of_write) = work();
    let of_task = Arc::clone(&hub);
    let sends = runtime.spawn(async move {
        let room = of_task.arrivals.room_for("alpha", 1).await?;
        of_task.take(room, |_| Ok::<_, StoreError>(7), move |_, _| Ok::<_, StoreError>(write())).await
    });
    is_written.recv().unwrap();
    sends.abort();
    let _ = runtime.block_on(sends);
    assert_eq!(hub.held.available_permits(), HELD_AT_ONCE - 1);
    end_of_write.send(()).unwrap();
}

/// A host that sends faster than the store writes would fill the room of all hosts.
#[test]
fn what_a_host_sent_counts_for_it_until_it_is_written() {
    let (_dir, hub, runtime) = hub();
    let room = |host: &str| runtime.block_on(hub.arrivals.room_for(host, 1 << 20));
    let writes: Vec<_> = (0..4)
        .map(|_| {
            let ((write, is_written, end), room) = (work(), room("alpha").unwrap());
            let of_task = Arc::clone(&hub);
            let takes = async move {
                of_task.take(room, |_| Ok::<_, StoreError>(7), move |_, _| Ok::<_, StoreError>(write())).await
            };
            let sends = runtime.spawn(takes);
            is_written.recv().unwrap();
            (sends, end)
        })
        .collect();
    assert_eq!(hub.held.available_permits(), HELD_AT_ONCE - 4);
    assert!(matches!(room("alpha"), Err(StoreError::TooMany(_))), "four of it are not written yet");
    // These messages take no room for bytes, and no room of other hosts.
    let others: Vec<_> = (0..256).map(|at| room(&format!("n{}", at / 4))).collect();
    assert!(others.iter().all(Result::is_ok));
    drop(others);
    for (sends, end) in writes {
        end.send(()).unwrap();
        assert_eq!(runtime.block_on(sends).unwrap().unwrap().unwrap(), 7);
    }
    let again: Vec<_> = (0..4).map(|_| room("alpha")).collect();
    assert!(again.iter().all(Result::is_ok));
}
