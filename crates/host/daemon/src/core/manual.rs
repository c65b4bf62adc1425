//! pinfoldd(8), from the daemon's own options. Absent here: pinfold.toml(5) and the pages of the commands, which
//! `pinfold man` writes.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_mangen::Man;

use super::options::Options;

/// What no option says, in the language of manual pages.
const MORE: &str = r#".SH SIGNALS
.TP
\fBSIGTERM\fR, \fBSIGINT\fR
Ends the daemon. Jobs run on, thawed; the next daemon takes them over.
.TP
\fBSIGHUP\fR
Reads the configuration file again, and takes it whole or not at all.
.SH "EXIT STATUS"
0 done; 1 failed; 2 wrong usage or wrong configuration, with the option or key named.
.SH ENVIRONMENT
.TP
\fBPINFOLD_SOCKET\fR, \fBPINFOLD_STATE_DIR\fR
Where the socket and the state are, unless options say it.
.TP
\fBPINFOLD_LOG\fR
How much is logged to standard error: error, warn, info, debug, or a filter by module.
.SH FILES
.TP
\fI/run/pinfold/pinfold.sock\fR, \fI/var/lib/pinfold\fR
The socket and the state of root's daemon.
.TP
\fI$XDG_RUNTIME_DIR/pinfold/pinfold.sock\fR, \fI~/.local/state/pinfold\fR
Those of a user's private daemon, which the first command starts.
.TP
\fI/etc/pinfold/pinfold.toml\fR, \fI~/.config/pinfold/pinfold.toml\fR
The configuration of each. A daemon with \fB\-\-socket\fR or \fB\-\-state\-dir\fR reads \fIpinfold.toml\fR in its
state directory, unless root's file is there.
.SH EXAMPLES
.TP
\fBsystemctl enable \-\-now pinfoldd\fR
The service of the package, for all users of the host.
.TP
\fBpinfoldd \-\-socket /tmp/try.sock \-\-set slots.factor=2\fR
A daemon to try something with; its state lies beside its socket, in /tmp/try.state.
.SH "SEE ALSO"
pinfold(1), pinfold.toml(5)
"#;

/// Writes the page into this directory.
pub(crate) fn write(dir: &Path) -> anyhow::Result<()> {
    let file = dir.join("pinfoldd.8");
    let text = page().context("failed to make pinfoldd(8)")?;
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&file, text))
        .with_context(|| format!("failed to write {}", file.display()))
}

fn page() -> io::Result<Vec<u8>> {
    let man = Man::new(Options::command()).section("8").manual("pinfold");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    page.extend_from_slice(MORE.as_bytes());
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_each_option_that_is_shown() {
        let page = String::from_utf8(page().unwrap()).unwrap().replace("\\-", "-");
        assert!(page.contains(".TH pinfoldd 8"), "{page}");
        for arg in Options::command().get_arguments().filter(|arg| !arg.is_hide_set()) {
            let option = format!("--{}", arg.get_long().expect("options have long names"));
            assert!(page.contains(&option), "{option}");
        }
        assert!(!page.contains("--ready-fd"));
    }
}
