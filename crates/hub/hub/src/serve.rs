//! Serving, alone or with simulated hosts.

use std::fs::File;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pinfold_hub::hub::Hub;
use pinfold_hub::secret;
use pinfold_hub::server::api::make_link;
use pinfold_hub::server::listen;
use pinfold_hub::server::problem::chain;
use pinfold_hub::server::proxied::Proxy;
use pinfold_hub::server::vouched::Trust;
use pinfold_hub::settings::Settings;
use pinfold_hub::store::{Access, Keep, Kind, LinkFor, Location, Store, Whose, now_us};
use pinfold_hub::{demo, learning};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;

use crate::print::{print, say};
use crate::{DemoArgs, Failure, ServeArgs};

/// Interval of the removal of old months.
const LOOKED_EVERY: Duration = Duration::from_secs(6 * 3_600);

/// Retry interval of the removal while no host has confirmed this hub's clock.
const CONFIRMED_WITHIN: Duration = Duration::from_secs(60);

/// Interval of new tables of classes' memory.
const LEARNED_EVERY: Duration = Duration::from_secs(3_600);

/// Threads for connections; queries of the store have their own.
const THREADS: usize = 2;

/// Locks the database for this process, until the returned file is dropped.
pub(crate) fn alone(database: &Path) -> Result<File, Failure> {
    let mut lock = database.as_os_str().to_owned();
    lock.push(".lock");
    let lock = PathBuf::from(lock);
    let file = File::options().create(true).truncate(false).write(true).open(&lock);
    let file = file.map_err(|error| Failure::failed(format!("{}: {error}", lock.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => Err(Failure::failed(format!("a hub serves {}: stop it first", database.display()))),
    }
}

pub(crate) fn serve(args: &ServeArgs) -> Result<(), Failure> {
    log();
    let settings =
        args.config.as_deref().map_or(Ok(Settings::default()), Settings::load).map_err(Failure::usage)?;
    let tls = match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => Some(listen::tls(cert, key).map_err(Failure::failed)?),
        _ => None,
    };
    let address = address(&args.listen)?;
    if tls.is_none() && !address.ip().is_loopback() {
        return Err(Failure::usage(format!(
            "--listen {address}: plain HTTP would show tokens and sessions to the network; say --cert and --key, or listen \
             on 127.0.0.1 behind a proxy that speaks TLS"
        )));
    }
    let public_url = args.url.clone().or(settings.public_url);
    if public_url.is_none() && address.ip().is_unspecified() {
        return Err(Failure::usage(format!(
            "--listen {address}: that is every address of this host, and none that a link could say: name one by --url \
             https://HOST:{}, or by `public_url` in the file",
            address.port()
        )));
    }
    // A file serves a single hub, a server any number of hubs.
    let _alone = match &args.at.database {
        Location::File(path) => Some(alone(path)?),
        Location::Server(_) => None,
    };
    let store = Store::open(&args.at.database, settings.database_max_bytes)?;
    if store.is_alone()? {
        say(
            "the database's server has no synchronous standby: if it is lost and another one takes over, hosts may have been \
             told that something is kept which is not; set synchronous_standby_names there",
        );
    }
    run(async move {
        let hub = Serving::begin(store, (address, tls), public_url, (settings.trust, settings.proxy)).await?;
        say(&format!("serving {} on {}", args.at.database, hub.url));
        hub.until_stopped(settings.keep, settings.learning).await
    })
}

pub(crate) fn demo(args: &DemoArgs) -> Result<(), Failure> {
    log();
    let address = address(&args.listen)?;
    if !address.ip().is_loopback() {
        return Err(Failure::usage(format!("--listen {address}: a demonstration is on a loopback address")));
    }
    std::fs::create_dir_all(&args.dir)
        .map_err(|error| Failure::failed(format!("{}: {error}", args.dir.display())))?;
    let database = args.dir.join("hub.db");
    let _alone = alone(&database)?;
    let store = Store::open_file(&database, None)?;
    let mut tokens = Vec::new();
    for number in 1..=args.hosts {
        let (name, token) = (format!("node{number:03}"), secret::token(Kind::Host, &secret::draw()?));
        let hash = secret::hash_of_token(&token).ok_or_else(|| Failure::failed("no token could be made"))?;
        store.add_token(Kind::Host, &name, &hash, "demo", now_us())?;
        tokens.push((name, token));
    }
    run(async move {
        let hub = Serving::begin(store, (address, None), None, (Trust::default(), None)).await?;
        for (seed, (name, token)) in (1..).zip(tokens) {
            let host = demo::Host {
                name,
                token,
                url: hub.url.clone(),
                days: args.days,
                seed,
                dir: args.dir.clone(),
            };
            std::thread::spawn(move || {
                if let Err(error) = demo::push(&host) {
                    say(&format!("{}: {}", host.name, chain(&error)));
                }
            });
        }
        let whose = LinkFor { name: "demo", via: "", access: &Access::All };
        let link =
            make_link(&hub.hub.store, &hub.url, whose).map_err(|problem| Failure::failed(problem.words))?;
        say("simulated hosts push to this hub; open this link, which works once, and stop with Ctrl-C:");
        print(&link)?;
        hub.until_stopped(Keep::default(), None).await
    })
}

fn run(serving: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let done = runtime.block_on(serving);
    runtime.shutdown_timeout(Duration::from_secs(5));
    done
}

fn address(listen: &str) -> Result<SocketAddr, Failure> {
    let found = listen.to_socket_addrs().map(|mut found| found.next());
    match found {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err(Failure::usage(format!("--listen {listen}: that is no address"))),
        Err(error) => Err(Failure::usage(format!("--listen {listen}: {error}; ADDRESS:PORT is wanted"))),
    }
}

fn log() {
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    let told = std::env::var("PINFOLD_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = told.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN));
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
}

struct Serving {
    hub: Arc<Hub>,
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    url: String,
    /// SIGTERM and SIGINT, caught before the hub reports that it serves.
    stops: (Signal, Signal),
}

impl Serving {
    async fn begin(
        store: Store,
        (address, tls): (SocketAddr, Option<TlsAcceptor>),
        public_url: Option<String>,
        (trust, proxy): (Trust, Option<Proxy>),
    ) -> Result<Self, Failure> {
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| Failure::failed(format!("--listen {address}: {error}")))?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = public_url.unwrap_or(format!("{scheme}://{}", listener.local_addr()?));
        // [`Hub::new`] queries the database, and PostgreSQL's client blocks in its own runtime.
        let own = url.clone();
        let hub = tokio::task::spawn_blocking(move || Hub::new(store, &own, trust)).await;
        let hub = hub.map_err(|error| Failure::failed(format!("the hub does not begin: {error}")))?;
        let hub = Arc::new(match proxy {
            Some(proxy) => hub.behind(proxy)?,
            None => hub,
        });
        let noted = hub.ask(|hub| {
            let words = format!("serving on {}", hub.origin);
            hub.store.set_meta("url", &hub.origin)?;
            hub.store.note("hub", "start", &words, now_us())
        });
        if let Ok(Err(error)) | Err(error) = noted.await {
            // A full disk must not prevent reading.
            say(&format!("the start is not noted: {}", chain(&error)));
        }
        let stops = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { hub, listener, tls, url, stops })
    }

    async fn until_stopped(self, keep: Keep, whose: Option<Whose>) -> Result<(), Failure> {
        let (mut term, mut int) = self.stops;
        let stop = async move {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
        };
        let keeping = tokio::spawn(remove_old(Arc::clone(&self.hub), keep));
        let learning = tokio::spawn(learn(Arc::clone(&self.hub), whose));
        listen::serve(self.listener, self.tls, Arc::clone(&self.hub), stop).await;
        keeping.abort();
        learning.abort();
        self.hub.ask(|hub| hub.store.note("hub", "stop", "a signal asked for it", now_us())).await??;
        Ok(())
    }
}

/// Makes the table of classes' memory now and every hour, or removes it if learning is off.
async fn learn(hub: Arc<Hub>, whose: Option<Whose>) {
    loop {
        let learned = hub.ask(move |hub| match whose {
            Some(whose) => learning::renew(hub, whose),
            None => learning::stop(&hub.store).map(|()| None),
        });
        match learned.await {
            Ok(Ok(Some(classes))) => tracing::info!(classes, "a new table of what classes of jobs held"),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => say(&format!("what classes of jobs held: {}", chain(&error))),
            Err(error) => say(&format!("what classes of jobs held: {}", chain(&error))),
        }
        if whose.is_none() {
            return;
        }
        tokio::time::sleep(LEARNED_EVERY).await;
    }
}

/// Removes old months once hosts' clocks confirm the hub's, and then every few hours.
async fn remove_old(hub: Arc<Hub>, keep: Keep) {
    let mut doubted = false;
    loop {
        let mut pause = LOOKED_EVERY;
        match hub.ask(move |hub| hub.remove_old(keep)).await {
            Ok(Ok(None)) => pause = CONFIRMED_WITHIN,
            Ok(Ok(Some(kept))) if kept.jobs > 0 || kept.series_months > 0 => {
                say(&format!(
                    "removed {} months of series and {} jobs that were old",
                    kept.series_months, kept.jobs
                ));
            }
            Ok(Ok(Some(_))) => {}
            Ok(Err(error)) | Err(error) => say(&format!("old months: {}", chain(&error))),
        }
        let doubt = hub.clock().check().err();
        if let Some(doubt) = doubt.as_ref().filter(|_| !doubted) {
            say(&doubt.to_string());
        }
        doubted = doubt.is_some();
        tokio::time::sleep(pause).await;
    }
}
