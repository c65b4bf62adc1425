//! The words of a build: how many jobs it was told to run, and how it is told where its tokens are.
//!
//! `make` and `ninja` take no tokens from elsewhere once they are told a number of jobs themselves, so that option is
//! taken out of their command line. Of other commands nothing is known, and they are left as they are.
//! Sources: GNU make manual, "Options Summary"; `ninja --help`, 1.13.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The kind of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Make,
    Ninja,
    Other,
}

/// How many jobs a command was told to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// This many jobs.
    Number(u32),
    /// Jobs without a bound.
    Unbounded,
}

/// Short options with a value, in the same word or the next.
const OF_MAKE: &[u8] = b"CfIoWE";
const OF_NINJA: &[u8] = b"Cfkldw";

impl Tool {
    pub(super) fn of(command: &OsStr) -> Self {
        match Path::new(command).file_name().and_then(OsStr::to_str) {
            Some("make" | "gmake" | "gnumake") => Self::Make,
            Some("ninja" | "ninja-build") => Self::Ninja,
            _ => Self::Other,
        }
    }

    /// The command line without its number of jobs, and that number, the last where there are several.
    ///
    /// # Errors
    /// With a number that is none, in words.
    pub(super) fn without_jobs(self, words: &[OsString]) -> Result<(Vec<OsString>, Option<Told>), String> {
        if self == Self::Other {
            return Ok((words.to_vec(), None));
        }
        let (mut kept, mut told) = (words[..1].to_vec(), None);
        let mut rest = words[1..].iter().peekable();
        while let Some(word) = rest.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" {
                kept.push(word.clone());
                kept.extend(rest.by_ref().cloned());
            } else if let Some(long) = bytes.strip_prefix(b"--jobs").filter(|_| self == Self::Make) {
                match long.strip_prefix(b"=") {
                    Some(number) => told = Some(self.told(number)?),
                    None if long.is_empty() => {
                        told = Some(self.value_in_next(rest.next_if(|next| is_number(next)))?);
                    }
                    None => kept.push(word.clone()),
                }
            } else if bytes.len() > 1 && bytes[0] == b'-' && bytes[1] != b'-' {
                let (left, number) = self.cluster(&bytes[1..]);
                if !left.is_empty() {
                    kept.push(OsStr::from_bytes(&[b"-", left].concat()).to_owned());
                }
                match number {
                    Number::None => {}
                    Number::OtherValue => kept.extend(rest.next().cloned()),
                    // The words of a tool are its own.
                    Number::ToolFollows => kept.extend(rest.by_ref().cloned()),
                    Number::Here(number) => told = Some(self.told(number)?),
                    Number::Next => {
                        let next = match self {
                            Self::Make => rest.next_if(|next| is_number(next)),
                            _ => rest.next(),
                        };
                        told = Some(self.value_in_next(next)?);
                    }
                }
            } else {
                kept.push(word.clone());
            }
        }
        Ok((kept, told))
    }

    /// The options of a word up to its number of jobs, and the reading of the rest.
    fn cluster<'a>(self, options: &'a [u8]) -> (&'a [u8], Number<'a>) {
        let valued = if self == Self::Make { OF_MAKE } else { OF_NINJA };
        for (at, option) in options.iter().enumerate() {
            let is_last = at + 1 == options.len();
            match option {
                b'j' if is_last => return (&options[..at], Number::Next),
                b'j' => return (&options[..at], Number::Here(&options[at + 1..])),
                b't' if self == Self::Ninja => return (options, Number::ToolFollows),
                option if valued.contains(option) && is_last => return (options, Number::OtherValue),
                // The rest is its value.
                option if valued.contains(option) => break,
                b'l' | b'O' if self == Self::Make => break,
                _ => {}
            }
        }
        (options, Number::None)
    }

    fn value_in_next(self, next: Option<&OsString>) -> Result<Told, String> {
        match next {
            Some(number) => self.told(number.as_bytes()),
            None if self == Self::Make => Ok(Told::Unbounded),
            None => Err("-j: a number is expected behind it".to_owned()),
        }
    }

    fn told(self, number: &[u8]) -> Result<Told, String> {
        let text = String::from_utf8_lossy(number);
        match text.parse::<u32>() {
            Ok(0) if self == Self::Ninja => Ok(Told::Unbounded),
            Ok(number) if number > 0 => Ok(Told::Number(number)),
            _ => Err(format!("-j {text}: a number of jobs from 1 on is expected")),
        }
    }
}

/// The reading of a word of short options.
enum Number<'a> {
    /// No number of jobs.
    None,
    /// No number, and the next word is the value of another option.
    OtherValue,
    /// No number, and the rest belongs to a tool of ninja's.
    ToolFollows,
    /// In this word.
    Here(&'a [u8]),
    /// In the next, or nowhere.
    Next,
}

fn is_number(word: &OsStr) -> bool {
    !word.is_empty() && word.as_bytes().iter().all(u8::is_ascii_digit)
}

/// The version that a program prints, of `GNU Make 4.4.1` and `1.13.0.git` its first two numbers.
pub(super) fn version(said: &str) -> Option<(u32, u32)> {
    let word = said.lines().next()?.split(' ').find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = word.split('.').map(|part| part.parse::<u32>().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, kept: &str, told: Option<Told>) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let tool = Tool::of(&words[0]);
        let want: Vec<OsString> = kept.split(' ').map(OsString::from).collect();
        assert_eq!(tool.without_jobs(&words), Ok((want, told)), "{line}");
    }

    #[test]
    fn the_number_of_jobs_is_taken_out() {
        let number = |number| Some(Told::Number(number));
        check("make", "make", None);
        check("make -j8 all", "make all", number(8));
        check("make -j 8 all", "make all", number(8));
        check("make -j all", "make all", Some(Told::Unbounded));
        check("make -kj4 -s", "make -k -s", number(4));
        check("make --jobs=3 --jobs 5 x", "make x", number(5));
        check("make --jobs x", "make x", Some(Told::Unbounded));
        check("make -C -j8 -j2", "make -C -j8", number(2));
        check("make -Cj8 -f x -j2", "make -Cj8 -f x", number(2));
        check("make -l 2.5 -Oline V=-j8", "make -l 2.5 -Oline V=-j8", None);
        check("/usr/bin/gmake all -- -j8", "/usr/bin/gmake all -- -j8", None);
        check("ninja -C build -j 4 all", "ninja -C build all", number(4));
        check("ninja -vj4 -k 0", "ninja -v -k 0", number(4));
        check("ninja -j0", "ninja", Some(Told::Unbounded));
        check("ninja -t clean -j4", "ninja -t clean -j4", None);
        check("ninja -Cout -j4", "ninja -Cout", number(4));
        check("sh -j8", "sh -j8", None);
        for wrong in
            ["make -j0", "make --jobs=x", "make -j8x", "make -jk", "ninja -j", "ninja -j x", "ninja -jx"]
        {
            let words: Vec<OsString> = wrong.split(' ').map(OsString::from).collect();
            Tool::of(&words[0]).without_jobs(&words).expect_err(wrong);
        }
    }

    #[test]
    fn versions() {
        for (said, want) in [
            ("GNU Make 4.3\nBuilt for x", Some((4, 3))),
            ("GNU Make 4.4.1", Some((4, 4))),
            ("1.13.0.git.kitware.jobserver-pipe-1", Some((1, 13))),
            ("1.11.1\n", Some((1, 11))),
            ("make: invalid option", None),
            ("", None),
        ] {
            assert_eq!(version(said), want, "{said}");
        }
    }
}
