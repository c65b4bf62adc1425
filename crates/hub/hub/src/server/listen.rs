//! Connections: their time limits, with or without TLS. Absent here: their number (`places`).

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::places::{Doing, Places};
use super::problem::chain;
use super::proxied::Peer;
use super::takers;
use crate::hub::{Counters, Hub};

/// Time limit of a request's head, and of an idle connection.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// The longest time in which a client reads no byte of an answer.
const STALLED_MAX: Duration = Duration::from_secs(20);

/// The longest life of a connection.
const CONNECTION_MAX: Duration = Duration::from_secs(900);

/// The longest head, in bytes.
const HEAD_BYTES: usize = 16 * 1024;

/// Reads a certificate and its key, both PEM.
///
/// # Errors
/// A message that names the file.
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

/// Serves until `stop` ends.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    hub: Arc<Hub>,
    stop: impl Future<Output = ()>,
) {
    let routes = super::routes(&hub);
    let places = Arc::new(Places::default());
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => return,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually a lack of descriptors, which ends as connections close.
                tracing::warn!(%error, "accepting a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(place) = places.enter(from.ip()) else {
            Counters::count(&hub.counters.turned_away);
            continue;
        };
        let (tls, routes) = (tls.clone(), routes.clone());
        tokio::spawn(async move {
            let served = connection(stream, from, tls, (routes, Arc::clone(&place.doing)));
            tokio::select! {
                served = tokio::time::timeout(CONNECTION_MAX, served) => {
                    if served.is_err() {
                        tracing::debug!(%from, "a connection lasted too long");
                    }
                }
                () = place.doing.has_to_leave() => tracing::debug!(%from, "a silent or slow connection made room"),
            }
        });
    }
}

/// The router, and the connection's activity.
type Answers = (Router, Arc<Doing>);

async fn connection(stream: TcpStream, from: SocketAddr, tls: Option<TlsAcceptor>, answers: Answers) {
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream, Arc::clone(&answers.1));
    match tls {
        None => exchange(stream, from, answers).await,
        Some(tls) => match tokio::time::timeout(HEAD_MAX, tls.accept(stream)).await {
            Ok(Ok(stream)) => exchange(stream, from, answers).await,
            Ok(Err(error)) => tracing::debug!(%from, %error, "TLS"),
            Err(_) => tracing::debug!(%from, "TLS took too long"),
        },
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    from: SocketAddr,
    (routes, doing): Answers,
) {
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(|body| Awaited { body, doing: Arc::clone(&doing) });
        request.extensions_mut().insert(Peer(from));
        let (answering, answer) = (doing.request(), routes.call(request));
        async move {
            let answer = answer.await;
            drop(answering);
            answer
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%from, %error, "a connection");
    }
}

/// A request's body that reports a wait for it while the request's taker is unknown. A stranger could hold a place by
/// endless waiting.
struct Awaited {
    body: Incoming,
    doing: Arc<Doing>,
}

impl Body for Awaited {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.doing.awaits_stranger(frame.is_pending() && !takers::is_known());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.doing.awaits_stranger(false);
    }
}

/// A stream with failing writes once the other end has read nothing for a while.
struct Patient {
    stream: TcpStream,
    stalled: Option<Pin<Box<Sleep>>>,
    doing: Arc<Doing>,
}

impl Patient {
    fn new(stream: TcpStream, doing: Arc<Doing>) -> Self {
        Self { stream, stalled: None, doing }
    }

    fn waited<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.doing.writes(written.is_pending());
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        all: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, all);
        self.waited(cx, written)
    }

    /// Otherwise a whole answer would be copied before it is sent, and the copy counted nowhere.
    fn is_write_vectored(&self) -> bool {
        true
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
