use std::io::ErrorKind;
use std::net::Shutdown;

use super::*;

/// How long a test waits for an answer: on a busy machine it can be late.
const LONG: Duration = Duration::from_secs(180);
/// How long a connection may take where that is not what is tried.
const LONGER: Duration = Duration::from_secs(720);

/// A server on a port of the kernel's choice, with a loop that answers `text` each time it is asked.
struct Server {
    address: SocketAddr,
    asked: Receiver<()>,
    _ends_it: Sender<()>,
}

fn server(text: String) -> Server {
    server_with(text, LONGER)
}

fn server_with(text: String, connection_max: Duration) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let (wake, other) = UnixStream::pair().unwrap();
    other.set_nonblocking(true).unwrap();
    let (texts, received) = channel();
    let thread = std::thread::spawn(move || Serving::new(listener, other, received, connection_max).run());
    let (tell, asked) = channel();
    let (ends_it, ended) = channel::<()>();
    std::thread::spawn(move || {
        let mut metrics = Metrics { address, wake, texts, thread };
        while !matches!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected)) {
            let _ = ready::readable(&metrics.wake, Some(Duration::from_millis(20)));
            if metrics.take_wanted() {
                let _ = tell.send(());
                // The user who runs the tests is on both ends.
                let see_jobs = SeeJobs::Users(vec![pinfold_sys::peer::own_uid()]);
                metrics.give(Texts { jobs: text.clone(), host: String::new(), see_jobs });
            }
        }
    });
    Server { address, asked, _ends_it: ends_it }
}

fn connect(server: &Server) -> TcpStream {
    let stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Whether the server has cut off a client that said nothing: it reads an end, or the word that the other side is gone.
fn is_cut_off(mut client: &TcpStream) -> bool {
    match client.read(&mut [0; 16]) {
        Ok(read) => read == 0,
        Err(error) => ![ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()),
    }
}

fn get(server: &Server, request: &str) -> String {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn requests_are_told_apart() {
    let check = |text: &str, want: Asked| assert_eq!(asked(text.as_bytes()), want, "{text:?}");
    check("GET /metrics HTTP/1.1\r\nHost: a\r\n", Asked::More);
    check("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Asked::Figures { head_only: false });
    check("HEAD /metrics?x=1 HTTP/1.0\r\n\r\n", Asked::Figures { head_only: true });
    let status = |text: &str| match asked(text.as_bytes()) {
        Asked::Other { status, .. } => status[..3].to_owned(),
        other => format!("{other:?}"),
    };
    assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404");
    assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
    assert_eq!(status("\u{1}\u{2}\r\n\r\n"), "400");
    assert_eq!(status(&"x".repeat(REQUEST_BYTES_MAX)), "431");
}

#[test]
fn an_answer_is_whole_and_many_share_one_text() {
    let body = format!("{}# EOF\n", "pinfold_cores 2\n".repeat(50_000));
    let server = server(body.clone());
    for _ in 0..3 {
        let answer = get(&server, "GET /metrics HTTP/1.1\r\n\r\n");
        let (head, got) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains(metrics::CONTENT_TYPE), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(got == body, "{} bytes of {}", got.len(), body.len());
    }
    let head = get(&server, "HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    assert!((1..=4).contains(&server.asked.try_iter().count()));
}

#[test]
fn idlers_and_slow_readers_do_not_keep_others_out() {
    let server = server("x\n".repeat(4_000_000));
    // As many as there are places: half of them say nothing, half ask and do not read.
    let mut idlers: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connect(&server)).collect();
    for stream in idlers.iter_mut().skip(CONNECTIONS_MAX / 2) {
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    }
    let answer = get(&server, "GET /nothing HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(is_cut_off(&idlers[0]), "the first has made room");
    idlers.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
}

#[test]
fn who_is_not_named_is_told_of_the_host_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    let own = pinfold_sys::peer::own_uid();
    let check = |see_jobs: SeeJobs, want: &str| {
        let texts = Texts { jobs: "jobs".to_owned(), host: "host".to_owned(), see_jobs: see_jobs.clone() };
        assert_eq!(texts.of(&stream), want, "{see_jobs:?}");
    };
    check(SeeJobs::All, "jobs");
    check(SeeJobs::Users(vec![own + 1, own]), "jobs");
    check(SeeJobs::Users(vec![own + 1]), "host");
    check(SeeJobs::default(), "host");
}

/// A client that asks for something is answered, however many connect and say nothing; those that were there last stay.
#[test]
fn silent_connections_make_room() {
    let server = server("text\n".to_owned());
    let silent: Vec<TcpStream> = (0..200).map(|_| connect(&server)).collect();
    assert!(get(&server, "GET /metrics HTTP/1.1\r\n\r\n").ends_with("text\n"));
    assert!(is_cut_off(&silent[0]), "the first has made room");
}

#[test]
fn a_silent_connection_is_cut_off_after_its_time() {
    let server = server_with("text\n".to_owned(), Duration::from_millis(50));
    assert!(is_cut_off(&connect(&server)));
}
