//! A hub, asked through `pinfold-hub-client`: that program has HTTP and TLS, and is started when something is to be asked.
//! Errands go to its standard input, answers come from its standard output; each is a line of JSON and then so many bytes.
//! Absent here: the network.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::bundle::{LiveReceipt, PACKED_MAX_BYTES, Receipt};
use crate::push::{Uplink, UplinkError};
use crate::turns::Turns;

/// The program, beside the one that asks.
pub const PROGRAM: &str = "pinfold-hub-client";

/// The longest answer that a hub makes and that is read, in bytes.
pub const ANSWER_MAX_BYTES: usize = 64 << 20;

/// The longest head of an errand or an answer, in bytes: certificates are in it.
const HEAD_MAX_BYTES: u64 = 1 << 20;

/// Why a hub cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientError {
    /// The address is none that may be used.
    #[error("{url}: {what}")]
    Address {
        /// As it was given.
        url: String,
        /// What is wrong with it, and the way out.
        what: String,
    },
    /// The certificates given cannot be read.
    #[error("the certificates of the hub's authority: {0}")]
    Certificates(String),
    /// Nothing came back.
    #[error("{url}: {why}")]
    Unreachable {
        /// What was asked for.
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
    /// The answer is not what was asked for.
    #[error("the hub's answer cannot be read: {0}")]
    Answer(String),
    /// Who asks cannot be said.
    #[error("{0}")]
    Identity(String),
    /// The program is not there, or ended.
    #[error("{program}, which is installed beside pinfold: {why}")]
    Program {
        /// Which.
        program: String,
        /// The cause.
        why: String,
    },
}

/// How something is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Asks for something.
    Get,
    /// Hands something over.
    Post,
}

/// One exchange with a hub, without what is handed over.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errand {
    /// The hub: `https://HOST[:PORT]`.
    pub url: String,
    /// Certificates that the hub's own is signed by, as PEM text, where no public authority did.
    pub authority: Option<String>,
    /// What the head `Authorization` says; empty: nobody asks, and the body is JSON for any server.
    pub authorization: String,
    /// How.
    pub method: Method,
    /// The path, query included.
    pub path: String,
    /// Bytes that follow.
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
    /// Whether it goes to the same hub as another.
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
    /// None do.
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

/// What `pinfold-hub-client` reads; `None`: nothing more comes.
///
/// # Errors
/// When it is no errand.
pub fn read_errand(from: &mut impl BufRead) -> io::Result<Option<(Errand, Vec<u8>)>> {
    let Some(errand) = read_line::<Errand>(from)? else { return Ok(None) };
    if errand.bytes > PACKED_MAX_BYTES {
        return Err(io::Error::other(format!("{} bytes are more than a hub takes", errand.bytes)));
    }
    let mut body = vec![0; errand.bytes];
    from.read_exact(&mut body)?;
    Ok(Some((errand, body)))
}

/// What `pinfold-hub-client` answers.
///
/// # Errors
/// When nobody reads it any more.
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

/// The program while it runs.
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
        // It ends by itself when its input does; it holds nothing that would have to be kept.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Method {
    /// As HTTP has it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// Who asks.
pub trait Identity: std::fmt::Debug {
    /// What the head `Authorization` says for this exchange with the hub at this address.
    ///
    /// # Errors
    /// When it cannot be had.
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

/// A hub, or several with one database, and who asks.
#[derive(Debug)]
pub struct Courier<I> {
    hubs: Turns,
    authority: Option<String>,
    identity: I,
    program: Result<PathBuf, String>,
    running: Option<Running>,
}

impl Courier<Bearer> {
    /// The hub at this address, for the holder of the token. `authority`: PEM certificates that the hub's own is signed by,
    /// in place of those of public authorities.
    #[must_use]
    pub fn with_token(url: &str, token: &str, authority: Option<&str>) -> Self {
        Self::new(url, authority, Bearer(token.to_owned()))
    }
}

impl Courier<Bearer> {
    /// The same, for those who ask as somebody.
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

/// Nobody in particular.
#[derive(Debug)]
struct Anybody;

impl Identity for Anybody {
    fn authorization(&mut self, _: &str, _: Method, _: &str) -> Result<String, ClientError> {
        Ok(String::new())
    }
}

/// Posts JSON to any server, by a process that ends afterwards.
///
/// # Errors
/// When the server cannot be reached, or refuses.
pub fn post_json(url: &str, body: &[u8]) -> Result<(), ClientError> {
    Courier::new(url, None, Anybody).exchange_with(url, Method::Post, "", body).map(drop)
}

impl<I: Identity> Courier<I> {
    /// The hub at this address, or those at these with commas between them, for somebody.
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

    /// Asks for something at this path, query included.
    ///
    /// # Errors
    /// When the hub cannot be reached, refuses, or answers something else.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str) -> Result<T, ClientError> {
        parsed(&self.get_bytes(path)?)
    }

    /// The same, as it comes.
    ///
    /// # Errors
    /// When the hub cannot be reached, or refuses.
    pub fn get_bytes(&mut self, path: &str) -> Result<Vec<u8>, ClientError> {
        self.exchange(Method::Get, path, &[])
    }

    /// Sends bytes to this path.
    ///
    /// # Errors
    /// When the hub cannot be reached, refuses, or answers something else.
    pub fn post<T: DeserializeOwned>(&mut self, path: &str, body: &[u8]) -> Result<T, ClientError> {
        parsed(&self.exchange(Method::Post, path, body)?)
    }

    /// Sends to this path what is made for the address of the hub that takes it.
    ///
    /// # Errors
    /// When it cannot be made, or as [`Self::post`].
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
    /// What it means for something that was sent.
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

    fn live(&mut self, packed: &[u8]) -> Result<Option<u64>, UplinkError> {
        let answer = self.post::<LiveReceipt>("/api/v1/live", packed);
        answer.map(|receipt| receipt.generation).map_err(|error| error.as_uplink())
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
