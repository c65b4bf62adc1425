//! Splits a shell line into its simple commands: the part of the grammar that names programs.
//!
//! Redirections, here-documents, comments, arithmetic and tests are left out; a substitution stays a part of its
//! word.

use std::iter::Peekable;
use std::str::Chars;

/// The simple commands of a line, and the functions defined in it.
pub(super) fn commands(line: &str) -> (Vec<Vec<String>>, Vec<String>) {
    let mut reader =
        Reader { chars: line.chars().peekable(), tokens: Vec::new(), word: None, target: false, here: None };
    reader.read();
    let mut parser = Parser::default();
    reader.tokens.into_iter().for_each(|token| parser.take(token));
    parser.end();
    (parser.commands, parser.functions)
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// The end of a command.
    End,
    /// The end of a branch of `case`.
    Branch,
    Open,
    Close,
}

#[derive(Debug)]
struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    tokens: Vec<Token>,
    word: Option<String>,
    /// The next word is the file of a redirection, or with `<<` the delimiter of a here-document.
    target: bool,
    here: Option<Option<String>>,
}

impl Reader<'_> {
    fn read(&mut self) {
        while let Some(char) = self.chars.next() {
            match char {
                '\\' => match self.chars.next() {
                    Some('\n') | None => {}
                    Some(next) => self.push(next),
                },
                '\'' => self.quoted('\''),
                '"' => self.quoted('"'),
                '`' => self.quoted('`'),
                '$' if self.chars.next_if_eq(&'(').is_some() => self.bracketed("$(", '(', ')'),
                '$' if self.chars.next_if_eq(&'{').is_some() => self.bracketed("${", '{', '}'),
                '(' if self.word.as_ref().is_some_and(|word| word.ends_with('=')) => {
                    self.bracketed("(", '(', ')')
                }
                '#' if self.word.is_none() => while self.chars.next_if(|&char| char != '\n').is_some() {},
                '<' | '>' => self.redirected(char),
                '&' if self.chars.peek() == Some(&'>') => self.end_word(),
                ' ' | '\t' | '\r' => self.end_word(),
                '\n' | ';' | '&' | '|' | '(' | ')' => self.operator(char),
                char => self.push(char),
            }
        }
        self.end_word();
    }

    fn push(&mut self, char: char) {
        self.word.get_or_insert_default().push(char);
    }

    fn quoted(&mut self, quote: char) {
        let word = self.word.get_or_insert_default();
        while let Some(char) = self.chars.next_if(|&char| char != quote) {
            let escaped = if char == '\\' && quote == '"' { self.chars.next() } else { None };
            word.push(escaped.unwrap_or(char));
        }
        self.chars.next();
    }

    /// A substitution, as a part of the word.
    fn bracketed(&mut self, begin: &str, open: char, close: char) {
        let word = self.word.get_or_insert_default();
        word.push_str(begin);
        let mut depth = 1;
        while depth > 0
            && let Some(char) = self.chars.next()
        {
            depth = if char == open {
                depth + 1
            } else if char == close {
                depth - 1
            } else {
                depth
            };
            word.push(char);
        }
    }

    fn redirected(&mut self, char: char) {
        if self.chars.next_if_eq(&'(').is_some() {
            return self.bracketed("(", '(', ')');
        }
        // A number or `{name}` before the operator is a descriptor.
        let is_descriptor = |word: &String| {
            word.starts_with('{') && word.ends_with('}') || word.bytes().all(|byte| byte.is_ascii_digit())
        };
        self.word = self.word.take().filter(|word| !is_descriptor(word));
        self.end_word();
        let mut operator = String::from(char);
        while let Some(next) = self.chars.next_if(|&next| matches!(next, '<' | '>' | '&' | '|' | '-')) {
            operator.push(next);
        }
        self.target = !operator.ends_with('-') || operator == "<<-";
        self.here = matches!(operator.as_str(), "<<" | "<<-").then_some(None).or_else(|| self.here.take());
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        match &mut self.here {
            _ if !std::mem::take(&mut self.target) => self.tokens.push(Token::Word(word)),
            Some(delimiter @ None) => *delimiter = Some(word),
            _ => {}
        }
    }

    fn operator(&mut self, char: char) {
        self.end_word();
        self.target = false;
        let token = match char {
            '(' if self.chars.next_if_eq(&'(').is_some() => {
                self.bracketed("((", '(', ')');
                self.chars.next_if_eq(&')');
                self.word = None;
                return;
            }
            '(' => Token::Open,
            ')' => Token::Close,
            ';' if self.chars.next_if_eq(&';').is_some() => Token::Branch,
            _ => Token::End,
        };
        self.tokens.push(token);
        if char == '\n'
            && let Some(Some(delimiter)) = self.here.take()
        {
            self.skip_here_document(&delimiter);
        }
    }

    fn skip_here_document(&mut self, delimiter: &str) {
        while self.chars.peek().is_some() {
            let line: String = self.chars.by_ref().take_while(|&char| char != '\n').collect();
            if line.trim_start_matches('\t') == delimiter {
                break;
            }
        }
    }
}

#[derive(Debug, Default)]
struct Parser {
    commands: Vec<Vec<String>>,
    functions: Vec<String>,
    command: Vec<String>,
    /// Within `[[ ... ]]`.
    in_test: bool,
    /// Before the `)` of a branch of `case`.
    in_pattern: bool,
}

impl Parser {
    fn take(&mut self, token: Token) {
        match token {
            Token::Word(word) if self.in_test => self.in_test = word != "]]",
            _ if self.in_test => {}
            Token::Word(word) if self.in_pattern => self.in_pattern = word != "esac",
            Token::Close if self.in_pattern => self.in_pattern = false,
            _ if self.in_pattern => {}
            Token::Word(word) => self.word(word),
            // `name()` begins a function.
            Token::Open if self.command.len() == 1 && self.command[0] != "time" => {
                self.functions.append(&mut self.command)
            }
            Token::Open | Token::Close | Token::End => self.end(),
            Token::Branch => {
                self.end();
                self.in_pattern = true;
            }
        }
    }

    fn word(&mut self, word: String) {
        let is_first = self.command.is_empty();
        match word.as_str() {
            "if" | "then" | "elif" | "else" | "while" | "until" | "do" | "!" | "{" | "coproc" | "begin"
            | "not" | "and" | "or"
                if is_first => {}
            "[[" if is_first => self.in_test = true,
            _ => self.command.push(word),
        }
        match self.command.as_slice() {
            [keyword, name] if keyword == "function" => {
                self.functions.push(name.clone());
                self.command.clear();
            }
            [keyword, _, word] if keyword == "case" && word == "in" => {
                self.command.clear();
                self.in_pattern = true;
            }
            _ => {}
        }
    }

    fn end(&mut self) {
        let command = std::mem::take(&mut self.command);
        let keyword = ["for", "select", "foreach", "fi", "done", "esac", "}", "end", "case"];
        if command.first().is_some_and(|first| !keyword.contains(&first.as_str())) {
            self.commands.push(command);
        }
    }
}
