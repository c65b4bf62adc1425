//! A terminal that hands keys over as they are typed and shows a screen of its own; put back when dropped.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::Duration;

use pinfold_proto::ExitCode;
use pinfold_sys::terminal::Raw;

use crate::print::rows;
use pinfold_client::Failure;

/// A typed key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    /// A letter or sign.
    Sign(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    /// Ctrl-C, Ctrl-D, or the end of the terminal.
    Quit,
    Other,
}

/// See the module's page.
pub(crate) struct Terminal {
    raw: Raw,
    typed: VecDeque<Key>,
}

impl Terminal {
    /// Takes the terminal over for `what`.
    pub(crate) fn open(what: &str) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            let text = format!("{what} needs a terminal to read keys from: {error}; --once does not");
            Failure::new(ExitCode::Failed, text)
        };
        let terminal = Self { raw: Raw::take().map_err(failed)?, typed: VecDeque::new() };
        // The other screen, without a cursor.
        terminal.write("\x1b[?1049h\x1b[?25l")?;
        Ok(terminal)
    }

    fn write(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| Failure::doing("standard output", &error))
    }

    fn read(&self, bytes: &mut [u8]) -> Result<usize, Failure> {
        self.raw.read(bytes).map_err(|error| Failure::doing("standard input", &error))
    }

    /// Shows these lines and nothing else.
    pub(crate) fn draw(&self, lines: &[String]) -> Result<(), Failure> {
        // Each line is cleared behind its end, and the screen below the last line.
        self.write(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")))
    }

    /// The next key within the limit.
    pub(crate) fn key(&mut self, limit: Duration) -> Result<Option<Key>, Failure> {
        if let Some(key) = self.typed.pop_front() {
            return Ok(Some(key));
        }
        if !self.raw.has_input(limit) {
            return Ok(None);
        }
        let mut bytes = [0u8; 64];
        let count = self.read(&mut bytes)?;
        self.typed.extend(keys(&bytes[..count]));
        Ok(Some(self.typed.pop_front().unwrap_or(Key::Quit)))
    }

    /// Asks at the foot of the screen; whether the next key is `y`.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<bool, Failure> {
        self.write(&format!("\x1b[{};1H\x1b[K{question}", rows()))?;
        let key = loop {
            if let Some(key) = self.key(Duration::from_secs(3600))? {
                break key;
            }
        };
        Ok(matches!(key, Key::Sign('y' | 'Y')))
    }

    /// A line typed at the foot of the screen; `None`: the user gave up (Escape, Ctrl-C). Keys stay with this process
    /// meanwhile: an interrupt must not leave the terminal in this state.
    pub(crate) fn line(&mut self, prompt: &str) -> Result<Option<String>, Failure> {
        let mut typed = Vec::new();
        // Bytes that arrived together with the key that asked for a line belong to the line.
        let mut came: Vec<u8> = self.typed.drain(..).filter_map(byte_of).collect();
        let taken = loop {
            if came.is_empty() {
                let text = String::from_utf8_lossy(&typed).into_owned();
                self.write(&format!("\x1b[{};1H\x1b[K{prompt}{text}\x1b[?25h", rows()))?;
                let mut bytes = [0u8; 64];
                let count = self.read(&mut bytes)?;
                came.extend(&bytes[..count]);
            }
            let bytes = std::mem::take(&mut came);
            match edit(&mut typed, &bytes) {
                Edited::On => {}
                Edited::Done(taken) => {
                    // Keys typed behind the line are no part of it.
                    self.typed.extend(keys(&bytes[taken..]));
                    break Some(String::from_utf8_lossy(&typed).trim().to_owned());
                }
                Edited::GivenUp => break None,
            }
        };
        self.write("\x1b[?25l\x1b[2J")?;
        Ok(taken)
    }
}

/// The byte that a key was typed as, where a line has use for it.
fn byte_of(key: Key) -> Option<u8> {
    match key {
        Key::Sign(sign) => u8::try_from(sign).ok(),
        Key::Enter => Some(b'\r'),
        Key::Escape => Some(b'\x1b'),
        Key::Quit => Some(b'\x03'),
        _ => None,
    }
}

/// The state of a line being typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edited {
    On,
    /// The line ended after this many bytes.
    Done(usize),
    GivenUp,
}

/// Adds typed bytes to a line; no bytes are the end of the terminal.
fn edit(line: &mut Vec<u8>, bytes: &[u8]) -> Edited {
    if bytes.is_empty() || bytes.starts_with(b"\x1b") {
        return Edited::GivenUp;
    }
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\r' | b'\n' => return Edited::Done(at + 1),
            b'\x03' | b'\x04' => return Edited::GivenUp,
            b'\x08' | b'\x7f' => {
                // The last character, of however many bytes.
                while line.pop().is_some_and(|byte| byte & 0xC0 == 0x80) {}
            }
            b'\x15' => line.clear(),
            0x20.. => line.push(byte),
            _ => {}
        }
    }
    Edited::On
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.write("\x1b[?25h\x1b[?1049l");
    }
}

/// The keys that these bytes are, as a terminal sends them.
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    const SEQUENCES: [(&[u8], Key); 16] = [
        (b"\x1b[A", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1b[C", Key::Right),
        (b"\x1b[D", Key::Left),
        (b"\x1bOA", Key::Up),
        (b"\x1bOB", Key::Down),
        (b"\x1bOC", Key::Right),
        (b"\x1bOD", Key::Left),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1b[H", Key::Home),
        (b"\x1b[F", Key::End),
        (b"\x1bOH", Key::Home),
        (b"\x1bOF", Key::End),
        (b"\x1b[1~", Key::Home),
        (b"\x1b[4~", Key::End),
    ];
    let mut keys = Vec::new();
    while let [first, rest @ ..] = bytes {
        if let Some((sequence, key)) = SEQUENCES.iter().find(|(sequence, _)| bytes.starts_with(sequence)) {
            keys.push(*key);
            bytes = &bytes[sequence.len()..];
            continue;
        }
        keys.push(match first {
            b'\x03' | b'\x04' => Key::Quit,
            b'\r' | b'\n' => Key::Enter,
            b'\x1b' if rest.is_empty() => Key::Escape,
            b'\x1b' => {
                // A sequence that is not known: up to its last byte, which is a letter or `~`.
                let end = rest.iter().position(|byte| byte.is_ascii_alphabetic() || *byte == b'~');
                bytes = &rest[end.map_or(rest.len(), |end| end + 1)..];
                keys.push(Key::Other);
                continue;
            }
            b' '..=b'~' => Key::Sign(char::from(*first)),
            _ => Key::Other,
        });
        bytes = rest;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_typed_mended_and_given_up() {
        let mut line = Vec::new();
        assert_eq!(edit(&mut line, "ab\u{e4}".as_bytes()), Edited::On);
        assert_eq!(edit(&mut line, b"\x7f\x7fc"), Edited::On);
        assert_eq!(edit(&mut line, b" d\rq"), Edited::Done(3));
        assert_eq!(line, b"ac d");
        assert_eq!(edit(&mut line, b"\x15x"), Edited::On);
        assert_eq!(line, b"x");
        for end in [&b"\x1b"[..], b"\x03", b"\x1b[A", b""] {
            assert_eq!(edit(&mut line, end), Edited::GivenUp);
        }
        assert_eq!(edit(&mut Vec::new(), b"\x7f"), Edited::On);
    }

    #[test]
    fn bytes_are_keys_also_when_many_come_at_once() {
        assert_eq!(
            keys(b"v\x1b[D\x1b[5~\rq"),
            [Key::Sign('v'), Key::Left, Key::PageUp, Key::Enter, Key::Sign('q')]
        );
        assert_eq!(keys(b"\x1b"), [Key::Escape]);
        assert_eq!(keys(b"\x1b[1;5Cx"), [Key::Other, Key::Sign('x')]);
        assert_eq!(keys(b"\x1b[12"), [Key::Other]);
        assert_eq!(keys(b"\x03\xc3\xa4"), [Key::Quit, Key::Other, Key::Other]);
        assert_eq!(keys(b""), []);
    }
}
