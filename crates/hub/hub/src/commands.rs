//! Tokens, links and copies: commands on a database, even while a hub serves it.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use pinfold_hub::secret;
use pinfold_hub::server::api::make_link;
use pinfold_hub::server::problem::chain;
use pinfold_hub::store::{
    Access, Copied, Group, Kind, LinkFor, Location, Restored, Revoked, Store, TokenRow, backup as copy,
    now_us, restore as put_back, verify,
};
use pinfold_hub::weekly::{self, Subject};
use serde_json::json;

use crate::print::{print, print_json, put, say};
use crate::{
    CopyArgs, Database, Failure, LoginArgs, RenameArgs, RevokeArgs, TokenArgs, TokensArgs, WeeklyArgs, serve,
};

/// The actor for the audit, by the kernel's word instead of the environment's.
fn actor() -> String {
    let of_this_process = std::fs::metadata("/proc/self").map(|found| found.uid());
    of_this_process.map_or_else(|_| "an unknown user".to_owned(), |uid| format!("uid {uid}"))
}

/// Opens an existing database: a misspelt name must not make a new database.
fn open(at: &Location) -> Result<Store, Failure> {
    Ok(Store::open_existing(at)?)
}

/// The database's file; for a server, the error names the equivalent command of PostgreSQL.
fn file<'a>(at: &'a Location, instead: &str) -> Result<&'a Path, Failure> {
    match at {
        Location::File(path) => Ok(path),
        Location::Server(_) => {
            Err(Failure::usage(format!("{at}: that is PostgreSQL's own to do: {instead}")))
        }
    }
}

pub(crate) fn token(args: &TokenArgs) -> Result<(), Failure> {
    let (kind, name) = match (&args.whose.host, &args.whose.reader) {
        (Some(host), _) => (Kind::Host, host),
        (None, Some(reader)) => (Kind::Reader, reader),
        (None, None) => return Err(Failure::usage("--host NAME or --reader NAME is wanted")),
    };
    let token = secret::token(kind, &secret::draw()?);
    let hash = secret::hash_of_token(&token).ok_or_else(|| Failure::failed("no token could be made"))?;
    let is_new = matches!(&args.at.database, Location::File(path) if !path.exists());
    let store = Store::open(&args.at.database, None)?;
    if is_new {
        say(&format!("{}: there was no database, and a new one is made", args.at.database));
    }
    let id = store.add_token(kind, name, &hash, &actor(), now_us())?;
    if let Err(error) = put(&token) {
        return Err(untold(&store, id, &error));
    }
    say(&format!("token {id} of {} {name}; it is not kept and cannot be shown again", kind.word()));
    Ok(())
}

/// Revokes a token that could not be printed, also because its reader is gone.
fn untold(store: &Store, id: i64, error: &io::Error) -> Failure {
    let end = match store.revoke(Revoked::Number(id), &actor(), now_us()) {
        Ok(_) => format!("token {id}, which nobody has seen, is revoked"),
        Err(kept) => format!(
            "token {id}, which nobody has seen, is valid ({}): `pinfold-hub revoke --token {id}`",
            chain(&kept)
        ),
    };
    Failure::failed(format!("standard output: {error}; {end}"))
}

pub(crate) fn tokens(args: &TokensArgs) -> Result<(), Failure> {
    let tokens = open(&args.at.database)?.tokens()?;
    let seconds = pinfold_proto::view::seconds;
    if args.json {
        let list: Vec<_> = tokens
            .iter()
            .map(|token| {
                json!({ "token": token.id, "kind": token.kind, "name": token.name, "made_s": seconds(token.made_us),
                    "revoked_s": token.revoked_us.map(seconds) })
            })
            .collect();
        return print_json(&json!({ "version": 1, "tokens": list }));
    }
    for token in tokens {
        let date = |us| pinfold_profile::report::date_here(seconds(us));
        let revoked = token.revoked_us.map(|us| format!(", revoked {}", date(us))).unwrap_or_default();
        print(&format!(
            "{:>5}  {:<6}  {:<24}  made {}{revoked}",
            token.id,
            token.kind,
            token.name,
            date(token.made_us)
        ))?;
    }
    Ok(())
}

pub(crate) fn revoke(args: &RevokeArgs) -> Result<(), Failure> {
    let which = match (args.which.token, &args.which.host, &args.which.reader) {
        (Some(number), ..) => Revoked::Number(number),
        (None, Some(host), _) => Revoked::Name(Kind::Host, host),
        (None, None, Some(reader)) => Revoked::Name(Kind::Reader, reader),
        _ => return Err(Failure::usage("--token N, --host NAME or --reader NAME is wanted")),
    };
    let revoked = open(&args.at.database)?.revoke(which, &actor(), now_us())?;
    if revoked.is_empty() {
        return Err(Failure::failed("there is no such token that is valid; `pinfold-hub tokens` lists them"));
    }
    for token in revoked {
        say(&format!("token {} of {} {} is revoked", token.id, token.kind, token.name));
    }
    Ok(())
}

pub(crate) fn rename(args: &RenameArgs) -> Result<(), Failure> {
    let (from, to) = (&args.from, &args.to);
    open(&args.at.database)?.rename_host(from, to, &actor(), now_us())?;
    say(&format!(
        "host {from} is {to} now, with its jobs and tokens; `trusted_hosts` has names as they are there"
    ));
    Ok(())
}

pub(crate) fn login(args: &LoginArgs) -> Result<(), Failure> {
    let store = open(&args.at.database)?;
    let url = match &args.url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => store.meta("url")?.ok_or_else(|| {
            Failure::failed("this database was not served yet: say where the page is reached by --url")
        })?,
    };
    let name = args.name.clone().unwrap_or_else(actor);
    let link = make_link(&store, &url, LinkFor { name: &name, via: "", access: &Access::All })
        .map_err(|problem| Failure::failed(problem.words))?;
    print(&link)
}

pub(crate) fn weekly(args: &WeeklyArgs) -> Result<(), Failure> {
    let store = open(&args.at.database)?;
    let week = args.week.unwrap_or_else(|| weekly::last(now_us()));
    if let Some(list) = &args.list {
        let group = if list == "projects" { Group::Project } else { Group::User };
        let names = weekly::subjects(&store, group, week)?;
        if args.json {
            return print_json(&json!({ "version": 1, "week": week.to_string(), list: names }));
        }
        // A name with spaces or control characters would look like several names to a script.
        let plain =
            |name: &&String| !name.is_empty() && name.chars().all(|c| !c.is_whitespace() && !c.is_control());
        return names.iter().filter(plain).try_for_each(|name| print(name));
    }
    let subject = match (&args.user, &args.project) {
        (Some(user), _) => Subject::User(user.clone()),
        (None, Some(project)) => Subject::Project(project.clone()),
        (None, None) => Subject::All,
    };
    let report = weekly::report(&store, &Access::All, subject, week)?;
    if args.json {
        return print_json(&weekly::json(&report));
    }
    let head = match &args.to {
        Some(to) => weekly::headers(&report, to).map_err(|error| Failure::usage(format!("--to: {error}")))?,
        None => String::new(),
    };
    print((head + &weekly::text(&report)).trim_end_matches('\n'))
}

pub(crate) fn backup(args: &CopyArgs) -> Result<(), Failure> {
    let instead =
        format!("pg_dump --format custom --file {} URL, also while hubs serve", args.file.display());
    tell("copied and verified", copy(file(&args.at.database, &instead)?, &args.file)?);
    Ok(())
}

pub(crate) fn restore(args: &CopyArgs) -> Result<(), Failure> {
    let copy = args.file.display();
    let instead =
        format!("stop all hubs, pg_restore --clean --if-exists --dbname URL {copy}, `pinfold-hub resend`");
    let database = file(&args.at.database, &instead)?;
    let _alone = serve::alone(database)?;
    let Restored { copied, revoked, missing, valid, former_read } =
        put_back(database, &args.file, &actor(), now_us())?;
    tell("restored", copied);
    for token in &revoked {
        say(&format!("{} was revoked after the copy was made, and is revoked in it now", named(token)));
    }
    for token in &missing {
        say(&format!("{} is not in the copy: make a new token", named(token)));
    }
    if !former_read {
        say(
            "no former database says which tokens were revoked after the copy was made: those are valid again",
        );
        for token in &valid {
            say(&format!(
                "{} is valid; if it was revoked, `pinfold-hub revoke --token {}`",
                named(token),
                token.id
            ));
        }
    }
    say("everybody is signed out; hosts send again what their daemons have");
    Ok(())
}

fn named(token: &TokenRow) -> String {
    let made = pinfold_profile::report::date_here(pinfold_proto::view::seconds(token.made_us));
    format!("token {} of {} {}, made {made},", token.id, token.kind, token.name)
}

pub(crate) fn resend(args: &Database) -> Result<(), Failure> {
    open(&args.database)?.begin_generation(&actor(), now_us())?;
    say("hosts send again what their daemons have, once the hubs of this database are started anew");
    Ok(())
}

pub(crate) fn resum(args: &Database) -> Result<(), Failure> {
    open(&args.database)?.sum_anew()?;
    say("the sums over days and the top lists are made anew");
    Ok(())
}

pub(crate) fn check(args: &Database) -> Result<(), Failure> {
    tell("no damage found", verify(file(&args.database, "pg_amcheck looks through a database")?)?);
    Ok(())
}

fn tell(what: &str, copied: Copied) {
    let Copied { version, hosts, jobs } = copied;
    say(&format!("{what}: {hosts} hosts, {jobs} jobs, version {version}"));
}
