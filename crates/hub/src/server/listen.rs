//! Connections: so many, for so long, with or without TLS.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::problem::chain;
use crate::hub::{Counters, Hub};

/// Connections at a time.
const CONNECTIONS_MAX: usize = 1_024;

/// Connections of one address at a time. Many hosts may share one.
const OF_AN_ADDRESS_MAX: usize = 256;

/// How long the head of a request may take, and a connection be idle.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// How long a client may take nothing of an answer.
const STALLED_MAX: Duration = Duration::from_secs(20);

/// How long a connection lasts.
const CONNECTION_MAX: Duration = Duration::from_secs(900);

/// The longest head, in bytes.
const HEAD_BYTES: usize = 16 * 1024;

/// Reads a certificate and its key, both PEM.
///
/// # Errors
/// Words that name the file.
pub fn tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor, String> {
    let of = |path: &Path, error: &dyn std::error::Error| format!("{}: {}", path.display(), chain(error));
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| of(certificate, &error))?;
    if chain.is_empty() {
        return Err(format!("{}: there is no certificate in PEM form", certificate.display()));
    }
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| of(key, &error))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key_der);
    let mut config = config.map_err(|error| of(certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// How many connections each address has.
#[derive(Debug, Default)]
struct Addresses(Mutex<BTreeMap<IpAddr, usize>>);

impl Addresses {
    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Entered> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(address).or_insert(0);
        if *count >= OF_AN_ADDRESS_MAX {
            return None;
        }
        *count += 1;
        Some(Entered(Arc::clone(self), address))
    }
}

/// A connection of an address, until it is dropped.
struct Entered(Arc<Addresses>, IpAddr);

impl Drop for Entered {
    fn drop(&mut self) {
        let mut all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.1);
            }
        }
    }
}

/// Serves until `stop` ends.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    hub: Arc<Hub>,
    stop: impl Future<Output = ()>,
) {
    let routes = super::routes(&hub);
    let (places, addresses) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Arc::new(Addresses::default()));
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // No descriptors left, as a rule: some come free.
                tracing::warn!(%error, "accepting a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let place = Arc::clone(&places).try_acquire_owned().ok();
        let (Some(place), Some(entered)) = (place, addresses.enter(from.ip())) else {
            Counters::count(&hub.counters.turned_away);
            continue;
        };
        let (tls, routes) = (tls.clone(), routes.clone());
        tokio::spawn(async move {
            let _held = (place, entered);
            if tokio::time::timeout(CONNECTION_MAX, connection(stream, from, tls, routes)).await.is_err() {
                tracing::debug!(%from, "a connection lasted too long");
            }
        });
    }
}

async fn connection(stream: TcpStream, from: SocketAddr, tls: Option<TlsAcceptor>, routes: Router) {
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream);
    match tls {
        None => exchange(stream, from, routes).await,
        Some(tls) => match tokio::time::timeout(HEAD_MAX, tls.accept(stream)).await {
            Ok(Ok(stream)) => exchange(stream, from, routes).await,
            Ok(Err(error)) => tracing::debug!(%from, %error, "TLS"),
            Err(_) => tracing::debug!(%from, "TLS took too long"),
        },
    }
}

async fn exchange(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, from: SocketAddr, routes: Router) {
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
        .await;
    if let Err(error) = served {
        tracing::debug!(%from, %error, "a connection");
    }
}

/// A stream whose writes fail when the other end takes nothing for a while.
struct Patient {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Patient {
    fn new(stream: TcpStream) -> Self {
        Self { stream, stalled: None }
    }

    fn waited<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALLED_MAX)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.waited(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.waited(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.waited(cx, closed)
    }
}
