//! gRPC: a unary method of `google.protobuf.Empty`, as `tonic` generates one.

use super::{Failure, median, say};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::Endpoint;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

struct Method;

impl UnaryService<()> for Method {
    type Response = ();
    type Future = Ready<Result<Response<()>, Status>>;
    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(())))
    }
}

#[derive(Clone)]
struct Server;

impl NamedService for Server {
    const NAME: &'static str = "hamr.Nothing";
}

impl Service<http::Request<Body>> for Server {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let codec = ProstCodec::<(), ()>::default();
        Box::pin(async move { Ok(tonic::server::Grpc::new(codec).unary(Method, request).await) })
    }
}

pub(super) async fn serve() -> Result<(), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    say(listener.local_addr()?);
    let hosts = TcpIncoming::from(listener).with_nodelay(Some(true));
    Ok(tonic::transport::Server::builder().add_service(Server).serve_with_incoming(hosts).await?)
}

pub(super) async fn calls(at: SocketAddr) -> Result<f64, Failure> {
    let channel = Endpoint::from_shared(format!("http://{at}"))?.tcp_nodelay(true).connect().await?;
    median(|| async {
        let mut client = tonic::client::Grpc::new(channel.clone());
        client.ready().await?;
        let path = PathAndQuery::from_static("/hamr.Nothing/Empty");
        client.unary(Request::new(()), path, ProstCodec::<(), ()>::default()).await?;
        Ok(())
    })
    .await
}
