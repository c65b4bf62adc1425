//! Finds the programs of a command, and the program that names its job and class. The only home of that rule:
//! `status`, `report`, `advise`, the governor and the hub use it.
//!
//! A shell line is split into its simple commands ([`shell`]). Builtins, assignments and reserved words are no
//! programs; a wrapper (`nice`, `env`, `timeout`) stands for the command after it, an interpreter for its script. The
//! last program counts until the daemon has measured which program does the work. Absent here: processes and their
//! figures.

mod shell;

/// Lines within lines (`sh -c "bash -c '...'"`) are followed so deep.
const NESTED_MAX: usize = 4;

const SHELLS: [&str; 13] =
    ["sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh", "ash", "yash", "rbash", "fish", "tcsh", "csh"];

/// Whether a program is a shell that runs a line by `-c`.
#[must_use]
pub fn is_shell(program: &str) -> bool {
    SHELLS.contains(&base(program))
}

/// Interpreters; letters of options followed by code; options with a value.
const INTERPRETERS: [(&str, &str, &str); 11] = [
    ("python", "c", "-W -X"),
    ("pypy", "c", "-W -X"),
    ("perl", "eE", "-I"),
    ("ruby", "e", "-I -r"),
    ("php", "r", "-d -c"),
    ("node", "ep", "-r"),
    ("lua", "e", "-l"),
    ("julia", "eE", "-J -p -t"),
    ("Rscript", "e", ""),
    ("tclsh", "", ""),
    ("java", "", "-cp -classpath --class-path --module-path"),
];

/// Programs that run the command after them, each with its options that take a value. `:WORD`: a required subcommand;
/// `+`: an argument precedes the command.
const WRAPPERS: &str = "time -o -f;nice -n;env -u -C;timeout+ -s -k --signal --kill-after;nohup;ionice -c -n;stdbuf -i -o -e;\
    sudo -u -g -C -h -p -D -R -T;doas -u -C;exec -a;command;builtin;setsid;taskset+;chrt+ -T -P -D;flock+ -w -E;\
    numactl -N -m -C -i -p -w;unshare;prlimit;unbuffer;xargs -n -P -I -L -s -d -a -E;strace -o -e -s -P;valgrind;gdb -ex;\
    perf:stat -o -e;srun -n -c -N -p -A -t -w -o -e;mpirun -n -np -c -H -x --hostfile -hostfile --bind-to --map-by;\
    mpiexec -n -np -c -H -x --hostfile -hostfile --bind-to --map-by;conda:run -n -p --name --prefix;\
    mamba:run -n -p --name --prefix;micromamba:run -n -p --name --prefix;poetry:run -C;uv:run --with -p --python;\
    apptainer:exec+ -B --bind;singularity:exec+ -B --bind";

/// Commands that a shell runs itself, and tools that prepare the environment.
const BUILTINS: &str = ". : [[ alias bg bind break caller cd conda continue declare dirs disown enable eval exec exit export \
    fg getopts hash history jobs kill let local mamba mapfile micromamba ml module popd print pushd read readarray readonly \
    return set setopt shift shopt source spack times trap type typeset ulimit umask unset wait";

/// Builtins that are programs too, and auxiliary programs: they name a line only if the line runs no other program.
const TRIVIAL: &str = "[ cat chmod cp date echo false ln ls mkdir mv printf pwd rm tee test touch true";

/// A program as named by a command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    /// The last part of its path; for an interpreter, of its script's path.
    pub name: String,
    /// The code given to an interpreter in place of a script.
    pub code: Option<String>,
}

/// The programs of a command in order of appearance; empty for an empty command.
#[must_use]
pub fn programs(command: &[String]) -> Vec<Program> {
    let mut found = Found::default();
    found.command(command, 0);
    if found.programs.is_empty() {
        // The shell itself does the work, described by its line alone.
        let shell =
            || Some(Program { name: base(command.first()?).to_owned(), code: command.last().cloned() });
        found.programs.extend(found.trivial.map(|name| Program { name, code: None }).or_else(shell));
    }
    found.programs
}

/// The name of a running job without `--name`.
#[must_use]
pub fn default_name(command: &[String]) -> String {
    programs(command).pop().map(|program| program.name).unwrap_or_default()
}

/// The program of a process, from its command line; `None`: a shell that runs a line.
#[must_use]
pub fn of_process(command_line: &str) -> Option<String> {
    let words: Vec<String> = command_line.split_whitespace().map(str::to_owned).collect();
    let is_line = |(first, rest): (&String, &[String])| {
        is_shell(first) && matches!(script(rest, "c", "-o +o -O"), Script::Code(_))
    };
    if words.split_first().is_some_and(is_line) { None } else { Some(default_name(&words)) }
}

/// The common part of a class's jobs beside cores and user: the working program, and the user's name for the job.
/// `None`: the job has no command.
#[must_use]
pub fn class<'a>(command: &[String], name: &'a str) -> Option<(Program, &'a str)> {
    let mut programs = programs(command);
    let last = programs.pop()?;
    let first_word = |text: &String| text.split_whitespace().next().map(base) == Some(name);
    if name.is_empty() || name == last.name {
        return Some((last, ""));
    }
    if let Some(worker) = programs.into_iter().rev().find(|program| program.name == name) {
        return Some((worker, ""));
    }
    // Earlier versions named a job after the first word of its command or line.
    let given = !command.first().is_some_and(first_word) && !command.last().is_some_and(first_word);
    Some((last, if given { name } else { "" }))
}

#[derive(Debug, Default)]
struct Found {
    programs: Vec<Program>,
    trivial: Option<String>,
    functions: Vec<String>,
}

impl Found {
    fn command(&mut self, words: &[String], depth: usize) {
        let is_assignment = |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_variable(name));
        let is_before = |word: &&String| word.as_str() == "{" || is_assignment(word);
        let words = &words[words.iter().take_while(is_before).count()..];
        let Some((first, rest)) = words.split_first() else { return };
        let name = base(first);
        if self.functions.contains(first) {
            return;
        }
        if let Some(inner) = wrapped(name, rest) {
            return self.command(inner, depth);
        }
        if SHELLS.contains(&name) {
            return match script(rest, "c", "-o +o -O") {
                Script::Code(line) if depth < NESTED_MAX => self.line(line, depth + 1),
                Script::File(script) => self.add(base(script), None),
                Script::Code(_) | Script::None => self.add(name, None),
            };
        }
        let stem = name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.');
        match INTERPRETERS.iter().find(|(known, ..)| *known == stem) {
            Some((_, code, valued)) => match script(rest, code, valued) {
                Script::File(script) => self.add(base(script), None),
                Script::Code(code) => self.add(name, Some(code)),
                Script::None => self.add(name, None),
            },
            None if name == "eval" && depth < NESTED_MAX => self.line(&rest.join(" "), depth + 1),
            None if is_in(TRIVIAL, name) => self.trivial = Some(name.to_owned()),
            None if depth > 0 && is_in(BUILTINS, name) => {}
            None => self.add(name, None),
        }
    }

    fn line(&mut self, line: &str, depth: usize) {
        let (commands, functions) = shell::commands(line);
        self.functions.extend(functions);
        commands.iter().for_each(|words| self.command(words, depth));
    }

    fn add(&mut self, name: &str, code: Option<&String>) {
        let program = Program { name: name.to_owned(), code: code.cloned() };
        // The last place counts.
        self.programs.retain(|known| *known != program);
        self.programs.push(program);
    }
}

/// The command behind a wrapper; `None`: the program is no wrapper, or runs no command.
fn wrapped<'a>(name: &str, words: &'a [String]) -> Option<&'a [String]> {
    let row =
        WRAPPERS.split(';').map(str::trim).find(|row| row.split([' ', '+', ':']).next() == Some(name))?;
    let (head, valued) = row.split_once(' ').unwrap_or((row, ""));
    let mut is_preceded = head.ends_with('+');
    let mut rest = words;
    if let Some((_, subcommand)) = head.split_once(':') {
        rest = rest.strip_prefix(&[subcommand.trim_end_matches('+').to_owned()])?;
    }
    while let Some((word, after)) = rest.split_first() {
        if word == "--" {
            rest = after;
        } else if word.len() > 1 && word.starts_with('-') {
            rest = after.get(usize::from(is_in(valued, word))..)?;
        } else if std::mem::take(&mut is_preceded) {
            rest = after;
        } else {
            return Some(rest);
        }
    }
    None
}

fn is_in(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|known| known == word)
}

#[derive(Debug)]
enum Script<'a> {
    Code(&'a String),
    File(&'a String),
    None,
}

/// An interpreter's script or code. `code`: letters of options followed by code.
fn script<'a>(words: &'a [String], code: &str, valued: &str) -> Script<'a> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let is_cluster = word.starts_with('-') && !word.starts_with("--");
        if is_cluster && word.len() > 1 && word.ends_with(|last| code.contains(last)) {
            return words
                .find(|word| code != "c" || !word.starts_with('-'))
                .map_or(Script::None, Script::Code);
        } else if valued.split(' ').any(|option| option == word || is_cluster && ends_with(word, option)) {
            words.next();
        } else if word.len() < 2 || !word.starts_with(['-', '+']) {
            return Script::File(word);
        } else if word == "-m" {
            return words.next().map_or(Script::None, Script::File);
        }
    }
    Script::None
}

/// Whether a cluster of letters (`-euo`) ends with this single-letter option.
fn ends_with(cluster: &str, option: &str) -> bool {
    option.len() == 2 && cluster.ends_with(&option[1..])
}

fn is_variable(name: &str) -> bool {
    let name = name.trim_end_matches('+');
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
}

fn base(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[track_caller]
    fn line(line: &str, want: &str) {
        assert_eq!(default_name(&words(&["/bin/sh", "-c", line])), want, "{line}");
        assert_eq!(
            default_name(&words(&["/bin/bash", "-euo", "pipefail", "-c", line])),
            want,
            "bash: {line}"
        );
    }

    #[test]
    fn a_line_is_named_after_its_last_program() {
        line("cd data && assembler -k 31 reads", "assembler");
        line("for f in *.fa; do /opt/v1/bin/assembler \"$f\"; done", "assembler");
        line("export X=5; assembler", "assembler");
        line("X=5; assembler", "assembler");
        line("X=5 Y='a b' assembler", "assembler");
        line("a=(1 2 3); assembler ${a[1]}", "assembler");
        line("source env.sh; . ./other.sh && assembler", "assembler");
        line("(cd x; assembler)", "assembler");
        line("( cd x && assembler ) > log 2>&1", "assembler");
        line("{ assembler; } 2> log", "assembler");
        line("set -euo pipefail; assembler; echo done", "assembler");
        line("if [ -e x ]; then assembler; fi", "assembler");
        line("[[ -e x && ( -d y || $z =~ ^(a|b)$ ) ]] && assembler", "assembler");
        line("while read -r f; do assembler $f; done < list", "assembler");
        line("case $1 in a|b) assembler;; (c) exit 3;; *) echo no ;; esac", "assembler");
        line("for ((i=0; i<3; i++)); do assembler $((i+1)); done", "assembler");
        line("f() { assembler $1; }; f x", "assembler");
        line("function f { assembler $1; }\nf x; wait", "assembler");
        line("! assembler", "assembler");
        line("exec assembler", "assembler");
        line("exec 3>x; assembler >&3", "assembler");
        line("module load gcc/12; conda activate x; ulimit -v 5; assembler", "assembler");
        line("./configure --prefix=/x && make -j4", "make");
        line("zcat x | assembler", "assembler");
        line("mkdir -p out && assembler x 2>&1 | tee log; rm -f x", "assembler");
        line("zcat x |& assembler & wait", "assembler");
        line("'/opt/my tools/assembler' x", "assembler");
        line("\"assembler\" \"a; b\" 'c | d'", "assembler");
        line("\\assembler x # then; more", "assembler");
        line("assembler \\\n --more", "assembler");
        line("assembler <<EOF > out\nother; more\nEOF\n", "assembler");
        line("assembler <<< 'x; y' <(zcat a; b) $(ls; c) `d`", "assembler");
        line("> out 2>>err assembler", "assembler");
        line("eval 'assembler x'", "assembler");
        line("bash -c 'cd x; assembler'", "assembler");
    }

    #[test]
    fn wrappers_stand_for_their_commands_and_interpreters_for_their_scripts() {
        for wrapper in [
            "time",
            "time -p",
            "nice -n 5",
            "nice -5",
            "env X=1",
            "env -i -u Y X=1",
            "timeout -k 5 10",
            "sudo -u bob",
            "nohup",
            "ionice -c 3",
            "stdbuf -oL",
            "/usr/bin/time -v -o f",
            "taskset -c 0-3",
            "numactl -N 0 -m 0",
            "conda run -n env",
            "mpirun -np 4",
            "srun -n 4",
            "xargs -n 1",
            "nice env X=1 timeout 5",
            "sh -c",
            "strace -f -o t",
            "flock /tmp/lock",
            "singularity exec -B /x image.sif",
            "command",
            "setsid --",
        ] {
            line(&format!("cd x; {wrapper} assembler"), "assembler");
            let direct: Vec<&str> = wrapper.split(' ').chain(["assembler"]).collect();
            assert_eq!(default_name(&words(&direct)), "assembler", "{wrapper}");
        }
        line("time ( cd x; assembler )", "assembler");
        line("time { assembler; }", "assembler");
        line("python3 -u -W ignore dir/train.py 3", "train.py");
        line("python3.11 -m pytest -x", "pytest");
        line("python3 -c 'import x; x.y()'", "python3");
        line("perl -lane 'print' x", "perl");
        line("bash -x job.sh 7", "job.sh");
        line("java -Xmx2g -cp a.jar:b.jar -jar c.jar", "c.jar");
    }

    #[test]
    fn a_line_without_a_program_is_named_after_its_shell_or_what_it_says() {
        line("(true)", "true");
        line("echo a > x", "echo");
        for (shell, text) in
            [("sh", "exit 3"), ("bash", "kill -TERM $$"), ("sh", ""), ("sh", "while :; do :; done")]
        {
            assert_eq!(default_name(&words(&[&format!("/bin/{shell}"), "-c", text])), shell, "{text}");
        }
        for odd in
            ["'", "\"a", "$(", "((", "case x in", "f() {", "<<", "a <<EOF", "[[ x", "\\", ";;", ") (", "time"]
        {
            let _ = programs(&words(&["sh", "-c", odd]));
        }
        assert_eq!(default_name(&[]), "");
    }

    #[test]
    fn a_class_is_one_program_or_one_name_that_the_user_gave() {
        let class_of = |line: &str, name: &str| {
            let command = words(&["/bin/sh", "-c", line]);
            let (program, given) = class(&command, name).unwrap();
            (program.name, given.to_owned())
        };
        let is = |program: &str, given: &str| (program.to_owned(), given.to_owned());
        assert_eq!(class_of("cd a && assembler", "assembler"), is("assembler", ""));
        assert_eq!(class_of("assembler x", "assembler"), is("assembler", ""));
        assert_eq!(class_of("assembler x | gzip", "assembler"), is("assembler", ""));
        assert_eq!(class_of("assembler x | gzip", "gzip"), is("gzip", ""));
        assert_eq!(class_of("cd a && assembler", "mine"), is("assembler", "mine"));
        assert_eq!(class_of("cd a && assembler", "cd"), is("assembler", ""), "as earlier versions named it");
        let code = |code: &str| class(&words(&["python3", "-c", code]), "python3").unwrap().0;
        assert_ne!(code("a()"), code("b()"));
    }
}
