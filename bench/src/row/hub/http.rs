//! As much of HTTP as a measurement needs: one connection that is kept open, bytes out, an answer with its times.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a hub. One that the hub closed is made anew.
#[derive(Debug)]
pub(super) struct Connection {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

/// An answer.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Its head, in small letters.
    pub(super) head: Vec<String>,
    pub(super) body: Vec<u8>,
    /// Until its first byte, and until its last, seconds.
    pub(super) first_s: f64,
    pub(super) whole_s: f64,
}

impl Connection {
    pub(super) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), stream: None }
    }

    pub(super) fn get(&mut self, path: &str, line: &str) -> anyhow::Result<Answer> {
        self.ask("GET", path, line, b"")
    }

    pub(super) fn post(&mut self, path: &str, line: &str, body: &[u8]) -> anyhow::Result<Answer> {
        self.ask("POST", path, line, body)
    }

    /// Asks with one more line in the head.
    fn ask(&mut self, method: &str, path: &str, line: &str, body: &[u8]) -> anyhow::Result<Answer> {
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n{line}\r\nContent-Length: {length}\r\n\r\n",
            self.address
        );
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        let kept = self.stream.take();
        if let Some(stream) = kept
            && let Ok(answer) = self.exchange(stream, &bytes)
        {
            return Ok(answer);
        }
        let stream = TcpStream::connect(&self.address).context("failed to reach the hub")?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        self.exchange(BufReader::new(stream), &bytes)
    }

    fn exchange(&mut self, mut stream: BufReader<TcpStream>, bytes: &[u8]) -> anyhow::Result<Answer> {
        let begun = Instant::now();
        stream.get_mut().write_all(bytes)?;
        let mut answer = Answer::default();
        let (mut length, mut keeps) = (None, true);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                bail!("the hub hung up");
            }
            if answer.status == 0 {
                answer.first_s = begun.elapsed().as_secs_f64();
                answer.status =
                    line.split(' ').nth(1).and_then(|word| word.parse().ok()).context("no status")?;
                continue;
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let small = line.to_ascii_lowercase();
            if let Some(text) = small.strip_prefix("content-length:") {
                length = text.trim().parse().ok();
            }
            keeps &= small != "connection: close";
            answer.head.push(line.to_owned());
        }
        answer.body = vec![0; length.context("an answer without a length")?];
        stream.read_exact(&mut answer.body)?;
        answer.whole_s = begun.elapsed().as_secs_f64();
        self.stream = keeps.then_some(stream);
        Ok(answer)
    }
}
