//! pinfold-hub(8), from the program's own options. Absent here: the contents of docs/hub.md.

use std::io;
use std::path::Path;

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::{Cli, Failure};

/// Sections beyond the options, in the language of manual pages.
const MORE: &str = r#".SH "EXIT STATUS"
0 done; 1 failed; 2 wrong usage or wrong configuration, with the option or key named.
.SH ENVIRONMENT
.TP
\fBPGPASSWORD\fR
The password for PostgreSQL, where it wants one.
.TP
\fBPINFOLD_LOG\fR
How much is logged to standard error: error, warn, info, debug, or a filter by module.
.SH FILES
.TP
\fI/etc/default/pinfold-hub\fR
The database and the address of the service.
.TP
\fI/etc/pinfold-hub/pinfold-hub.toml\fR
What is kept for how long, and who sees what.
.TP
\fI/var/lib/pinfold-hub/hub.db\fR
The database, unless another one is named.
.SH EXAMPLES
.TP
\fBrunuser \-u pinfold\-hub \-\- pinfold\-hub token \-\-database sqlite:/var/lib/pinfold\-hub/hub.db \-\-host node07\fR
A token by which a host pushes; on that host \fBpinfold hub join\fR takes it.
.TP
\fBpinfold\-hub demo \-\-dir /tmp/demo\fR
A hub with five simulated hosts, to look at the page.
.SH "SEE ALSO"
pinfold(1), pinfoldd(8); docs/hub.md
"#;

/// Writes the manual page into a directory.
pub(crate) fn write(dir: &Path) -> Result<(), Failure> {
    let file = dir.join("pinfold-hub.8");
    let text = page()?;
    let written = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&file, text));
    written.map_err(|error| Failure::failed(format!("{}: {error}", file.display())))
}

fn page() -> io::Result<Vec<u8>> {
    let mut tree = Cli::command().disable_help_subcommand(true);
    tree.build();
    let man = Man::new(tree.clone()).section("8").manual("pinfold");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    page.extend_from_slice(b".SH COMMANDS\n");
    for command in tree.get_subcommands().filter(|command| !command.is_hide_set()) {
        describe(command, &mut page)?;
    }
    page.extend_from_slice(MORE.as_bytes());
    Ok(page)
}

/// A command and its options, below a heading of its own.
fn describe(command: &Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = Man::new(command.clone());
    let (mut synopsis, mut options) = (Vec::new(), Vec::new());
    man.render_synopsis_section(&mut synopsis)?;
    man.render_options_section(&mut options)?;
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    page.extend_from_slice(format!(".SS {}\n{about}.\n.PP\n", command.get_name()).as_bytes());
    for section in [synopsis, options] {
        // Drops the section's own heading.
        let text = String::from_utf8_lossy(&section);
        let lines = text.lines().filter(|line| !line.starts_with(".SH"));
        lines.for_each(|line| page.extend_from_slice(format!("{line}\n").as_bytes()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_each_command_and_option_that_is_shown() {
        let page = String::from_utf8(page().expect("a page")).expect("text").replace("\\-", "-");
        assert!(page.contains(".TH pinfold-hub 8"), "{page}");
        let tree = Cli::command();
        for command in tree.get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(page.contains(&format!(".SS {}\n", command.get_name())), "{page}");
            for option in command.get_arguments().filter_map(|arg| arg.get_long()) {
                assert!(page.contains(&format!("--{option}")), "{option}: {page}");
            }
        }
        assert!(!page.contains(".SS manual"));
    }
}
