//! The admin endpoint: metrics, health and status over HTTP, on `listen.admin`.
//!
//! Whoever can reach it must not be able to harm the gate, so all is bounded: how many connections there are, how long
//! each lives, how much it may send. One connection carries one request; nobody asks often enough to notice.

mod families;
mod metrics;
mod status;

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::{debug, error, info, warn};

use self::metrics::Exposition;
use crate::gate::Gate;
use crate::readiness::{Readiness, Stage};

/// How many connections are served at once; more wait in the kernel.
const CONNECTIONS: usize = 32;

/// How long a connection may take, from its first byte to its last.
const LIMIT: Duration = Duration::from_secs(10);

/// How long a request may be, with all its headers.
const LONGEST_REQUEST: usize = 16 << 10;

/// How long to wait before accepting again when the process has run out of something.
const PAUSE: Duration = Duration::from_millis(100);

/// What can be asked for.
const PATHS: &str = "/metrics\n/healthz\n/readyz\n/status.json\n";

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Listens, and says where.
pub async fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listener =
        TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} (listen.admin)"))?;
    info!("listening admin {}", listener.local_addr()?);
    Ok(listener)
}

/// Answers until the process ends.
pub async fn run(listener: TcpListener, gate: Arc<Gate>, readiness: Arc<Readiness>) {
    let exposition = match Exposition::new(&gate) {
        Ok(exposition) => exposition,
        Err(error) => return error!(%error, "metrics that contradict each other cannot be told"),
    };
    let admin = Arc::new(Admin { gate, readiness, exposition });
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    // It is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let admin = Arc::clone(&admin);
                tokio::spawn(async move {
                    admin.serve(stream).await;
                    drop(place);
                });
            }
            // Who left before it was accepted is nobody's fault.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                warn!(%error, "the admin endpoint cannot accept for the moment");
                sleep(PAUSE).await;
            }
        }
    }
}

struct Admin {
    gate: Arc<Gate>,
    readiness: Arc<Readiness>,
    exposition: Exposition,
}

impl Admin {
    async fn serve(&self, stream: TcpStream) {
        let mut server = http1::Builder::new();
        server.keep_alive(false).max_buf_size(LONGEST_REQUEST);
        let service = service_fn(|request| async move { Ok::<_, Infallible>(self.answer(&request)) });
        match timeout(LIMIT, server.serve_connection(TokioIo::new(stream), service)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!(%error, "a request to the admin endpoint failed"),
            Err(_) => debug!("a request to the admin endpoint took longer than {LIMIT:?}"),
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused =
                response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD are served\n".to_owned());
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        match request.uri().path() {
            "/metrics" => told(prometheus::TEXT_FORMAT, self.exposition.text()),
            "/healthz" => response(StatusCode::OK, TEXT, "alive\n".to_owned()),
            "/readyz" => self.readyz(),
            "/status.json" => told(JSON, serde_json::to_string(&status::status(&self.gate, self.readiness.stage()))),
            _ => response(StatusCode::NOT_FOUND, TEXT, format!("there is no such page; these are there:\n{PATHS}")),
        }
    }

    fn readyz(&self) -> Response<Full<Bytes>> {
        match self.readiness.stage() {
            Stage::Ready => response(StatusCode::OK, TEXT, "ready\n".to_owned()),
            Stage::Draining => response(StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n".to_owned()),
            Stage::Warming => {
                let cold = self.gate.buckets.iter().filter(|bucket| !bucket.is_warm());
                let names = cold.map(|bucket| format!("{}\n", bucket.name())).collect::<String>();
                response(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("not warm yet:\n{names}"))
            }
        }
    }
}

fn told<E: std::fmt::Display>(kind: &'static str, text: Result<String, E>) -> Response<Full<Bytes>> {
    match text {
        Ok(text) => response(StatusCode::OK, kind, text),
        Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
    }
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests;
