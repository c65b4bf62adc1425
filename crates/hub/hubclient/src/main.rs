//! `pinfold-hub-client`: does the errands that `pinfold` writes to its standard input, one after the other, until that ends.
//! People do not start it. Tokens come over the pipe, where other users do not see them.

use std::io::{self, BufReader, Write as _};
use std::process::ExitCode;

use pinfold_hubclient::HubClient;
use pinfold_hubwire::courier::{self, Errand};

fn main() -> ExitCode {
    if std::env::args_os().len() > 1 {
        let words = "pinfold-hub-client: `pinfold hub` and `pinfold --host` start this program; it takes no arguments";
        let _ = writeln!(io::stderr(), "{words}");
        return ExitCode::from(2);
    }
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "pinfold-hub-client: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> io::Result<()> {
    let (mut errands, mut answers) = (BufReader::new(io::stdin().lock()), io::stdout().lock());
    // Connections are kept as long as it is the same hub.
    let mut known: Option<(Errand, HubClient)> = None;
    while let Some((errand, body)) = courier::read_errand(&mut errands)? {
        let kept = known.take().filter(|(before, _)| before.same_hub(&errand));
        let client = match kept {
            Some((_, client)) => Ok(client),
            None if errand.authorization.is_empty() => HubClient::without_token(&errand.url),
            None => HubClient::new(&errand.url, errand.authority.as_deref()),
        };
        let answer = match client {
            Ok(client) => {
                let answer = client.exchange(&errand, &body);
                known = Some((errand, client));
                answer
            }
            Err(error) => Err(error),
        };
        courier::write_answer(&mut answers, answer)?;
    }
    Ok(())
}
