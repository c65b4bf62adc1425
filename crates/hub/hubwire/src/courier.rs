//! Talks to a hub through the program `pinfold-hub-client`, which has HTTP and TLS and is started on demand. Errands
//! go to its standard input, answers come from its standard output; each is a JSON line followed by bytes. Absent
//! here: the network.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bundle::{LiveReceipt, PACKED_MAX_BYTES, Receipt};
use crate::push::{Uplink, UplinkError};
use crate::turns::Turns;

/// The program, installed beside the caller.
pub const PROGRAM: &str = "pinfold-hub-client";

/// The longest accepted answer of a hub, in bytes.
pub const ANSWER_MAX_BYTES: usize = 64 << 20;

/// The longest head of an errand or an answer, in bytes, including certificates.
const HEAD_MAX_BYTES: u64 = 1 << 20;

/// Why a hub cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientError {
    /// The address is unusable.
    #[error("{url}: {what}")]
    Address {
        /// As given.
        url: String,
        /// The fault, and the way out.
        what: String,
    },
    /// The certificates given cannot be read.
    #[error("the certificates of the hub's authority: {0}")]
    Certificates(String),
    /// No answer.
    #[error("{url}: {why}")]
    Unreachable {
        /// The requested address.
        url: String,
        /// The cause.
        why: String,
    },
    /// The hub said no.
    #[error("the hub says: {words} ({status})")]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// The hub's words.
        words: String,
    },
    /// The answer does not fit the request.
    #[error("the hub's answer cannot be read: {0}")]
    Answer(String),
    /// The sender's identity cannot be stated.
    #[error("{0}")]
    Identity(String),
    /// The program is missing, or ended.
    #[error("{program}, which is installed beside pinfold: {why}")]
    Program {
        /// Which.
        program: String,
        /// The cause.
        why: String,
    },
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Reads.
    Get,
    /// Sends a body.
    Post,
}

/// A request to a hub, without its body.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// The hub: `https://HOST[:PORT]`.
    pub url: String,
    /// PEM certificates of a private authority that signed the hub's certificate.
    pub authority: Option<String>,
    /// The header `Authorization`; empty: anonymous, and the body is JSON for any server.
    pub authorization: String,
    /// How.
    pub method: Method,
    /// The path, query included.
    pub path: String,
    /// Length of the body in bytes.
    pub bytes: usize,
}

impl std::fmt::Debug for Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Errand");
        shown.field("url", &self.url).field("method", &self.method).field("path", &self.path);
        shown.finish_non_exhaustive()
    }
}

impl Errand {
    /// Whether both errands go to the same hub.
    #[must_use]
    pub fn same_hub(&self, other: &Self) -> bool {
        self.url == other.url && self.authority == other.authority
    }
}

/// The head of an answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answered {
    /// So many bytes follow.
    Bytes(u64),
    /// A failure, without bytes.
    Failed(ClientError),
}

fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    from.take(HEAD_MAX_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&line).map(Some).map_err(io::Error::from)
}

fn write_line(to: &mut impl Write, head: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(head)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads an errand in `pinfold-hub-client`; `None` at the end of input.
///
/// # Errors
/// When the errand is malformed or too long.
pub fn read_errand(from: &mut impl BufRead) -> io::Result<Option<(Errand, Vec<u8>)>> {
    let Some(errand) = read_line::<Errand>(from)? else { return Ok(None) };
    if errand.bytes > PACKED_MAX_BYTES {
        return Err(io::Error::other(format!("{} bytes are more than a hub takes", errand.bytes)));
    }
    let mut body = vec![0; errand.bytes];
    from.read_exact(&mut body)?;
    Ok(Some((errand, body)))
}

/// Writes an answer in `pinfold-hub-client`.
///
/// # Errors
/// When the reader is gone.
pub fn write_answer(to: &mut impl Write, answer: Result<Vec<u8>, ClientError>) -> io::Result<()> {
    match answer {
        Ok(body) => {
            write_line(to, &Answered::Bytes(body.len() as u64))?;
            to.write_all(&body)?;
        }
        Err(error) => write_line(to, &Answered::Failed(error))?,
    }
    to.flush()
}

/// The running program.
#[derive(Debug)]
struct Running {
    child: Child,
    errands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Running {
    fn start(program: &PathBuf) -> io::Result<Self> {
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/").spawn()?;
        let (errands, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(errands), Some(answers)) = (errands, answers) else {
            return Err(io::Error::other("it has no pipes"));
        };
        Ok(Self { child, errands, answers: BufReader::new(answers) })
    }

    fn exchange(&mut self, errand: &Errand, body: &[u8]) -> io::Result<Result<Vec<u8>, ClientError>> {
        write_line(&mut self.errands, errand)?;
        self.errands.write_all(body)?;
        self.errands.flush()?;
        match read_line(&mut self.answers)? {
            None => Err(io::Error::other("it ended without an answer")),
            Some(Answered::Failed(error)) => Ok(Err(error)),
            Some(Answered::Bytes(bytes)) if bytes > ANSWER_MAX_BYTES as u64 => {
                Err(io::Error::other("its answer is too long"))
            }
            Some(Answered::Bytes(bytes)) => {
                let mut answer = Vec::new();
                let read = (&mut self.answers).take(bytes).read_to_end(&mut answer)?;
                if read as u64 == bytes { Ok(Ok(answer)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The program ends with its input and holds no state.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Method {
    /// Its word in HTTP.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// The sender's identity.
pub trait Identity: std::fmt::Debug {
    /// The header `Authorization` for this request to the hub at this address.
    ///
    /// # Errors
    /// When the identity is unavailable.
    fn authorization(&mut self, url: &str, method: Method, path: &str) -> Result<String, ClientError>;
}

/// The holder of a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Bearer(String);

impl std::fmt::Debug for Bearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bearer")
    }
}

impl Identity for Bearer {
    fn authorization(&mut self, _: &str, _: Method, _: &str) -> Result<String, ClientError> {
        Ok(format!("Bearer {}", self.0))
    }
}

impl<I: Identity + ?Sized> Identity for Box<I> {
    fn authorization(&mut self, url: &str, method: Method, path: &str) -> Result<String, ClientError> {
        (**self).authorization(url, method, path)
    }
}

/// A hub, or several hubs with a common database, and the sender's identity.
#[derive(Debug)]
pub struct Courier<I> {
    hubs: Turns,
    authority: Option<String>,
    identity: I,
    program: Result<PathBuf, String>,
    running: Option<Running>,
}

impl Courier<Bearer> {
    /// The hub at this address, for the holder of the token. `authority`: PEM certificates that replace the public
    /// authorities.
    #[must_use]
    pub fn with_token(url: &str, token: &str, authority: Option<&str>) -> Self {
        Self::new(url, authority, Bearer(token.to_owned()))
    }
}

impl Courier<Bearer> {
    /// The same, with a boxed identity.
    #[must_use]
    pub fn boxed(self) -> Courier<Box<dyn Identity>> {
        Courier {
            hubs: self.hubs,
            authority: self.authority,
            identity: Box::new(self.identity),
            program: self.program,
            running: self.running,
        }
    }
}

/// An anonymous sender.
#[derive(Debug)]
struct Anybody;

impl Identity for Anybody {
    fn authorization(&mut self, _: &str, _: Method, _: &str) -> Result<String, ClientError> {
        Ok(String::new())
    }
}

/// Posts JSON to any server, through a process that ends afterwards.
///
/// # Errors
/// When the server cannot be reached, or refuses.
pub fn post_json(url: &str, body: &[u8]) -> Result<(), ClientError> {
    Courier::new(url, None, Anybody).exchange_with(url, Method::Post, "", body).map(drop)
}

impl<I: Identity> Courier<I> {
    /// The hub at this address, or hubs at comma-separated addresses.
    pub fn new(url: &str, authority: Option<&str>, identity: I) -> Self {
        let program = std::env::current_exe().map(|own| own.with_file_name(PROGRAM));
        Self {
            hubs: Turns::new(url),
            authority: authority.map(str::to_owned),
            identity,
            program: program.map_err(|error| error.to_string()),
            running: None,
        }
    }

    /// Gets a value from this path, query included.
    ///
    /// # Errors
    /// When the hub cannot be reached, refuses, or the answer is malformed.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        parsed(&self.get_bytes(path)?)
    }

    /// Gets raw bytes from this path.
    ///
    /// # Errors
    /// When the hub cannot be reached, or refuses.
    pub fn get_bytes(&mut self, path: &str) -> Result<Vec<u8>, ClientError> {
        self.exchange(Method::Get, path, &[])
    }

    /// Posts bytes to this path.
    ///
    /// # Errors
    /// When the hub cannot be reached, refuses, or the answer is malformed.
    pub fn post<T: DeserializeOwned>(&mut self, path: &str, body: &[u8]) -> Result<T, ClientError> {
        parsed(&self.exchange(Method::Post, path, body)?)
    }

    /// Posts a body made for the address of the answering hub.
    ///
    /// # Errors
    /// When the body cannot be made, or as [`Self::post`].
    pub fn post_made<T: DeserializeOwned>(
        &mut self,
        path: &str,
        mut made: impl FnMut(&str) -> Result<Vec<u8>, ClientError>,
    ) -> Result<T, ClientError> {
        let mut hubs = self.hubs.clone();
        let answer = hubs.ask(|url| {
            let body = made(url)?;
            self.exchange_with(url, Method::Post, path, &body)
        });
        self.hubs = hubs;
        parsed(&answer?)
    }

    fn exchange(&mut self, method: Method, path: &str, body: &[u8]) -> Result<Vec<u8>, ClientError> {
        let mut hubs = self.hubs.clone();
        let answer = hubs.ask(|url| self.exchange_with(url, method, path, body));
        self.hubs = hubs;
        answer
    }

    fn exchange_with(
        &mut self,
        url: &str,
        method: Method,
        path: &str,
        body: &[u8],
    ) -> Result<Vec<u8>, ClientError> {
        let authorization = self.identity.authorization(url, method, path)?;
        let (url, authority) = (url.to_owned(), self.authority.clone());
        let errand =
            Errand { url, authority, authorization, method, path: path.to_owned(), bytes: body.len() };
        let program = self.program.as_ref();
        let wrong = |why: &dyn std::fmt::Display| ClientError::Program {
            program: program.map_or_else(|_| PROGRAM.to_owned(), |path| path.display().to_string()),
            why: why.to_string(),
        };
        let mut running = match (self.running.take(), program) {
            (Some(running), _) => running,
            (None, Ok(path)) => Running::start(path).map_err(|error| wrong(&error))?,
            (None, Err(error)) => return Err(wrong(error)),
        };
        // After a failure the next exchange starts the program anew.
        let answer = running.exchange(&errand, body).map_err(|error| wrong(&error))?;
        self.running = Some(running);
        answer
    }
}

fn parsed<T: DeserializeOwned>(answer: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(answer).map_err(|error| ClientError::Answer(error.to_string()))
}

impl ClientError {
    /// The meaning of the error for a sent message.
    #[must_use]
    pub fn as_uplink(&self) -> UplinkError {
        let words = self.to_string();
        match self {
            Self::Refused { status: 401 | 403, .. } => UplinkError::Denied(words),
            Self::Refused { status: 400 | 413 | 422, .. } => UplinkError::Refused(words),
            _ => UplinkError::Later(words),
        }
    }
}

impl<I: Identity> Uplink for Courier<I> {
    fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError> {
        self.post("/api/v1/bundles", packed).map_err(|error| error.as_uplink())
    }

    fn live(&mut self, packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
        self.post("/api/v1/live", packed).map_err(|error| error.as_uplink())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errand(bytes: usize) -> Errand {
        Errand {
            url: "https://hub.example".into(),
            authority: None,
            authorization: "Bearer x".into(),
            method: Method::Post,
            path: "/api/v1/bundles".into(),
            bytes,
        }
    }

    #[test]
    fn errands_and_answers_come_as_they_were_sent() {
        let mut pipe = Vec::new();
        write_line(&mut pipe, &errand(3)).unwrap();
        pipe.extend_from_slice(b"a\nb");
        write_line(&mut pipe, &errand(0)).unwrap();
        let mut from = &pipe[..];
        assert_eq!(read_errand(&mut from).unwrap(), Some((errand(3), b"a\nb".to_vec())));
        assert_eq!(read_errand(&mut from).unwrap(), Some((errand(0), Vec::new())));
        assert_eq!(read_errand(&mut from).unwrap(), None);
        for bad in [&b"{}\n"[..], b"\n", b"x", &vec![b' '; 2 << 20]] {
            assert!(read_errand(&mut &*bad).is_err());
        }
        let mut long = Vec::new();
        write_line(&mut long, &errand(PACKED_MAX_BYTES + 1)).unwrap();
        assert!(read_errand(&mut &long[..]).is_err());
        assert!(!format!("{:?}", errand(0)).contains("Bearer x"), "tokens are not logged");
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let mut courier = Courier::with_token("https://hub.example", "x", None);
        courier.program = Ok("/nowhere/pinfold-hub-client".into());
        let error = courier.get_bytes("/").unwrap_err();
        assert!(error.to_string().contains("/nowhere/pinfold-hub-client"), "{error}");
        // One that answers nothing, and one that answers something else.
        for program in ["/bin/true", "/bin/cat"] {
            courier.program = Ok(program.into());
            assert!(matches!(courier.get_bytes("/"), Err(ClientError::Program { .. })), "{program}");
        }
    }
}
